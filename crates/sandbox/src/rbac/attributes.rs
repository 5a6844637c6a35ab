//! What a request does, as authorization sees it, and the refusal of a request.
//!
//! Source: `apiserver/pkg/endpoints/request/requestinfo.go` and `handlers/responsewriters/errors.go`.

use http::Method;

use crate::request::{Query, decode};
use crate::status::Failure;

/// The attributes of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The path of a request that addresses no resource, such as `/version`.
    pub(crate) path: Option<String>,
}

impl Attributes {
    /// The attributes of a request with this method, path and query.
    pub(crate) fn of(method: &Method, path: &str, query: &Query) -> Self {
        let steps: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
        let (group, mut rest) = match steps.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["api", _, _, ..] => (String::new(), &steps[2..]),
            ["apis", group, _, _, ..] => ((*group).to_owned(), &steps[3..]),
            _ => {
                let verb = method.as_str().to_lowercase();
                return Self { verb, path: Some(decode(path)), ..Self::default() };
            }
        };
        let mut namespace = String::new();
        if let [first, name, ..] = rest
            && first == "namespaces"
        {
            // The attributes of a namespace itself contain its name as the namespace too.
            namespace.clone_from(name);
            if rest.get(2).is_some_and(|step| step != "status" && step != "finalize") {
                rest = &rest[2..];
            }
        }
        let step = |place: usize| rest.get(place).cloned().unwrap_or_default();
        let (resource, mut name, subresource) = (step(0), step(1), step(2));
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ if !name.is_empty() => "get",
            _ if query.flag("watch") => "watch",
            _ => "list",
        };
        if matches!(verb, "list" | "watch") {
            // A rule with a name allows these for exactly that object.
            name = selected_name(query).unwrap_or_default();
        }
        Self { verb: verb.to_owned(), group, resource, subresource, namespace, name, path: None }
    }

    /// `pods` or `pods/log`.
    pub(crate) fn combined(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// The refusal of this request.
    pub(crate) fn refused(&self, user: &str, reason: &str) -> Failure {
        let (verb, namespace) = (&self.verb, &self.namespace);
        let message = match &self.path {
            Some(path) => format!("User {user:?} cannot {verb} path {path:?}"),
            None => {
                let scope = if namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace {namespace:?}")
                };
                let resource = self.combined();
                format!(
                    "User {user:?} cannot {verb} resource {resource:?} in API group {:?} {scope}",
                    self.group
                )
            }
        };
        let message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let message = if reason.is_empty() { message } else { format!("{message}: {reason}") };
        Failure::forbidden_to(&self.group, &self.resource, &self.name, &message)
    }
}

/// The name in a field selector that selects one object by name.
fn selected_name(query: &Query) -> Option<String> {
    let selector = query.get("fieldSelector")?;
    let name = selector.split(',').find_map(|term| {
        let (field, value) = term.split_once('=')?;
        (field.trim() == "metadata.name").then(|| value.trim_start_matches('=').trim().to_owned())
    })?;
    let is_segment = !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '%']);
    is_segment.then_some(name)
}
