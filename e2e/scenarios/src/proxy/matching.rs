//! Selects requests in the proxy.

use http::{Method, Request};

/// A request as the rules see it.
#[derive(Clone, Debug)]
pub(super) struct RequestInfo {
    pub(super) verb: &'static str,
    pub(super) plural: String,
    user_agent: String,
}

impl RequestInfo {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let (plural, named) = resource(request.uri().path());
        let query = request.uri().query().unwrap_or_default();
        let watches = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
        let verb = match *request.method() {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if named => "delete",
            Method::DELETE => "deletecollection",
            _ if watches => "watch",
            _ if named => "get",
            _ => "list",
        };
        let agent = request.headers().get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
        Self { verb, plural, user_agent: agent.unwrap_or_default().to_owned() }
    }

    pub(super) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    /// Whether the request is a write that traps and counts include: not of a Lease, which is renewed
    /// periodically, and not of an Event.
    pub(super) fn counts(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete")
            && !matches!(self.plural.as_str(), "leases" | "events")
    }
}

/// The resource in a path, and whether the path contains the name of an object:
/// `/apis/apps/v1/namespaces/x/replicasets/web`.
fn resource(path: &str) -> (String, bool) {
    let mut parts = path.trim_matches('/').split('/').peekable();
    let skip = match parts.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return (String::new(), false),
    };
    let rest: Vec<&str> = parts.skip(skip).collect();
    let rest = match rest.as_slice() {
        ["namespaces", _, inner @ ..] if !inner.is_empty() => inner,
        whole => whole,
    };
    (rest.first().copied().unwrap_or_default().to_owned(), rest.len() > 1)
}

/// Selects requests by verb, resource and user agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestMatcher {
    /// The verb, as in the audit log; `None` matches all verbs.
    pub verb: Option<&'static str>,
    /// The resource; `None` matches all resources.
    pub plural: Option<&'static str>,
    /// Part of the user agent; `None` matches all user agents.
    pub user_agent: Option<&'static str>,
}

impl RequestMatcher {
    /// All requests with this verb and resource.
    #[must_use]
    pub fn new(verb: &'static str, plural: &'static str) -> Self {
        Self { verb: Some(verb), plural: Some(plural), user_agent: None }
    }

    pub(super) fn is(&self, info: &RequestInfo) -> bool {
        self.verb.is_none_or(|verb| verb == info.verb)
            && self.plural.is_none_or(|plural| plural == info.plural)
            && self.user_agent.is_none_or(|part| info.user_agent.contains(part))
    }
}

#[cfg(test)]
mod tests {
    use super::resource;

    #[test]
    fn resources_are_read_from_paths() {
        for (path, plural, named) in [
            ("/api/v1/pods", "pods", false),
            ("/api/v1/namespaces/default/pods/a/eviction", "pods", true),
            ("/apis/apps/v1/namespaces/default/replicasets", "replicasets", false),
            ("/api/v1/namespaces", "namespaces", false),
            ("/api/v1/namespaces/default", "namespaces", true),
            ("/api/v1/nodes/n1", "nodes", true),
            ("/readyz", "", false),
        ] {
            assert_eq!(resource(path), (plural.to_owned(), named), "{path}");
        }
    }
}
