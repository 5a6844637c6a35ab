//! The verb and the resource of a request.

use http::{Method, Request};

/// A verb and a resource, such as `("delete", "pods")`.
pub type Kind = (&'static str, &'static str);

/// A request as the rules see it.
#[derive(Clone, Debug)]
pub(super) struct RequestInfo {
    pub(super) verb: &'static str,
    pub(super) plural: String,
}

impl RequestInfo {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let mut parts = request.uri().path().trim_matches('/').split('/');
        // The version follows, after the group if there is one.
        let skip = if parts.next() == Some("api") { 1 } else { 2 };
        let mut rest: Vec<&str> = parts.skip(skip).collect();
        if rest.first() == Some(&"namespaces") && rest.len() > 2 {
            rest.drain(..2);
        }
        let query = request.uri().query().unwrap_or_default();
        let watches = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
        let is_named = rest.len() > 1;
        let verb = match *request.method() {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if is_named => "delete",
            Method::DELETE => "deletecollection",
            _ if watches => "watch",
            _ if is_named => "get",
            _ => "list",
        };
        Self { verb, plural: rest.first().copied().unwrap_or_default().to_owned() }
    }

    pub(super) fn is(&self, (verb, plural): Kind) -> bool {
        self.verb == verb && self.plural == plural
    }

    /// Whether it is a write that traps and counts include: not of a Lease, which is renewed periodically, and
    /// not of an Event.
    pub(super) fn counts(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete")
            && !matches!(self.plural.as_str(), "leases" | "events")
    }
}
