//! A request as the faults see it: its verb and its place.

use std::fmt;

use http::Method;
use http::request::Parts;
use serde_json::{Value, json};

use crate::case::Class;

/// What a request asks for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) verb: &'static str,
    pub(super) plural: String,
    pub(super) name: String,
    pub(super) subresource: String,
    pub(super) continued: bool,
    path: String,
    dry_run: bool,
    body: String,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.path)
    }
}

impl Asked {
    pub(super) fn of(parts: &Parts, body: &[u8]) -> Self {
        let path = parts.uri.path();
        let query = parts.uri.query().unwrap_or_default();
        let has = |key: &str| query.split('&').any(|pair| pair.split('=').next() == Some(key));
        let mut steps = path.trim_matches('/').split('/');
        let group = if steps.next() == Some("api") { 1 } else { 2 };
        let mut rest: Vec<&str> = steps.skip(group).collect();
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
        // Options of a DELETE stand in its body.
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

    /// Whether it is a write that crashes are counted by. A lease is written by the clock.
    pub(super) fn is_counted(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch") && !self.dry_run && self.plural != "leases"
    }

    pub(super) fn is_of(&self, class: &Class) -> bool {
        let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        (fits(&class.verb, self.verb) || class.verb == "write" && self.is_counted())
            && fits(&class.plural, &self.plural)
            && fits(&class.subresource, &self.subresource)
            && (!class.continued || self.continued)
            && (class.says.is_empty() || self.body.contains(&class.says))
            && class.dry_run.is_none_or(|dry_run| dry_run == self.dry_run)
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

/// The body as a merge patch leaves it; as it was where it is no JSON.
pub(super) fn mutated(body: &[u8], change: &Value) -> Vec<u8> {
    let Ok(mut object) = serde_json::from_slice::<Value>(body) else { return body.to_vec() };
    merge(&mut object, change);
    object.to_string().into_bytes()
}

fn merge(object: &mut Value, change: &Value) {
    let Some(changes) = change.as_object() else {
        *object = change.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, change) in changes {
        match (object.as_object_mut(), change) {
            (Some(fields), Value::Null) => _ = fields.remove(key),
            (Some(fields), change) => merge(fields.entry(key).or_insert(Value::Null), change),
            (None, _) => {}
        }
    }
}

/// Makes a list's page no longer than that.
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
