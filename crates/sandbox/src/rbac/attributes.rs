//! What a request does, as authorization sees it, and the refusal of a request.
//!
//! Source: `apiserver/pkg/endpoints/handlers/responsewriters/errors.go`.

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
        let message = if let Some(path) = &self.path {
            format!("User {user:?} cannot {verb} path {path:?}")
        } else {
            let scope = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {namespace:?}")
            };
            let (resource, group) = (self.combined(), &self.group);
            format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}")
        };
        let message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let message = if reason.is_empty() { message } else { format!("{message}: {reason}") };
        Failure::forbidden_to(&self.group, &self.resource, &self.name, &message)
    }
}
