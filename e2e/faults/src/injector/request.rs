//! The verb and the path of a request.

use std::fmt;

use http::Method;
use http::request::Parts;
use serde_json::Value;

use crate::case::RequestMatcher;

/// What the faults of a case match.
#[derive(Clone, Debug)]
pub(super) struct RequestInfo {
    pub(super) verb: &'static str,
    pub(super) plural: String,
    pub(super) name: String,
    pub(super) subresource: String,
    pub(super) continued: bool,
    path: String,
    dry_run: bool,
    body: String,
}

impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.path)
    }
}

impl RequestInfo {
    pub(super) fn of(parts: &Parts, body: &[u8]) -> Self {
        let path = parts.uri.path();
        let query = parts.uri.query().unwrap_or_default();
        let has = |key: &str| query.split('&').any(|pair| pair.split('=').next() == Some(key));
        let mut segments = path.trim_matches('/').split('/');
        let group = if segments.next() == Some("api") { 1 } else { 2 };
        let mut rest: Vec<&str> = segments.skip(group).collect();
        if rest.first() == Some(&"namespaces") && rest.len() > 2 {
            rest.drain(..2);
        }
        let at = |place: usize| rest.get(place).copied().unwrap_or_default().to_owned();
        let one = rest.len() > 1;
        let verb = match (&parts.method, one) {
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, _) => "delete",
            _ if has("watch") => "watch",
            (_, true) => "get",
            _ => "list",
        };
        let body = String::from_utf8_lossy(body).into_owned();
        // The options of a DELETE are in its body.
        let dry_run = has("dryRun") || verb == "delete" && body.contains("\"dryRun\":[\"All\"]");
        Self {
            verb,
            plural: at(0),
            name: at(1),
            subresource: at(2),
            continued: has("continue"),
            path: path.to_owned(),
            dry_run,
            body,
        }
    }

    /// Whether [`Fault::Crash`](crate::case::Fault::Crash) counts it. Leases are renewed by time and do not
    /// count.
    pub(super) fn is_counted(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch") && !self.dry_run && self.plural != "leases"
    }

    pub(super) fn matches(&self, matcher: &RequestMatcher) -> bool {
        let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        (fits(&matcher.verb, self.verb) || matcher.verb == "write" && self.is_counted())
            && fits(&matcher.plural, &self.plural)
            && fits(&matcher.subresource, &self.subresource)
            && (!matcher.continued || self.continued)
            && (matcher.body_contains.is_empty() || self.body.contains(&matcher.body_contains))
            && matcher.dry_run.is_none_or(|dry_run| dry_run == self.dry_run)
    }

    /// The path of the object that it names.
    pub(super) fn object(&self) -> Option<String> {
        if self.name.is_empty() {
            return None;
        }
        let whole = self.path.trim_end_matches('/');
        let whole = whole.strip_suffix(&self.subresource).unwrap_or(whole);
        Some(whole.trim_end_matches('/').to_owned())
    }
}

/// The body after a merge patch. A body that is not JSON stays as it is.
pub(super) fn mutated(body: &[u8], change: &Value) -> Vec<u8> {
    let Ok(mut object) = serde_json::from_slice::<Value>(body) else { return body.to_vec() };
    json_patch::merge(&mut object, change);
    object.to_string().into_bytes()
}

/// Limits the page of a list.
pub(super) fn limit_page(parts: &mut Parts, page: u32) {
    if page == 0 {
        return;
    }
    let Some(query) = parts.uri.query().filter(|query| query.contains("limit=")) else { return };
    let pairs: Vec<String> = query
        .split('&')
        .map(|pair| if pair.starts_with("limit=") { format!("limit={page}") } else { pair.to_owned() })
        .collect();
    let path = format!("{}?{}", parts.uri.path(), pairs.join("&"));
    if let Ok(uri) = path.parse() {
        parts.uri = uri;
    }
}
