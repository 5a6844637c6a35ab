//! Error responses in the wording of the API server: the kind `Status`.
//!
//! The messages are part of the behavior, since users and scripts match them. This module does not decide
//! what is an error.

use serde_json::{Value, json};

use crate::resource::ResourceInfo;
use crate::schema::Cause;

/// A rejected request.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
}

impl Failure {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    /// A failure of one object: `WHAT "NAME" REST`.
    fn about((code, reason): (u16, &'static str), what: (&str, &str, &str), rest: &str) -> Self {
        let (group, kind, name) = what;
        let message = format!("{} \"{name}\" {rest}", qualified(kind, group));
        Self { details: Some(details(group, kind, name)), ..Self::new(code, reason, message) }
    }

    pub(crate) fn not_found(info: &ResourceInfo, name: &str) -> Self {
        Self::about((404, "NotFound"), (&info.group, &info.plural, name), "not found")
    }

    /// A subresource of an object that does not exist, if the message of the API server includes the
    /// subresource.
    pub(crate) fn not_found_at(info: &ResourceInfo, sub: &str, name: &str) -> Self {
        let what = format!("{}/{sub}", info.plural);
        Self::about((404, "NotFound"), (&info.group, &what, name), "not found")
    }

    /// A path that the server does not serve.
    pub(crate) fn no_such_resource() -> Self {
        Self::plain(404, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::plain(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// A failure with empty details.
    pub(crate) fn plain(code: u16, reason: &'static str, message: &str) -> Self {
        Self { details: Some(json!({})), ..Self::new(code, reason, message) }
    }

    pub(crate) fn already_exists(info: &ResourceInfo, name: &str) -> Self {
        Self::about((409, "AlreadyExists"), (&info.group, &info.plural, name), "already exists")
    }

    pub(crate) fn conflict(info: &ResourceInfo, name: &str, why: &str) -> Self {
        Self::conflict_at(&info.group, &info.plural, name, why)
    }

    pub(crate) fn conflict_at(group: &str, what: &str, name: &str, why: &str) -> Self {
        let mut failure = Self::about((409, "Conflict"), (group, what, name), "");
        failure.message = format!("Operation cannot be fulfilled on {}: {why}", failure.message.trim_end());
        failure
    }

    pub(crate) fn forbidden(info: &ResourceInfo, name: &str, why: &str) -> Self {
        let what = (info.group.as_str(), info.plural.as_str(), name);
        Self::about((403, "Forbidden"), what, &format!("is forbidden: {why}"))
    }

    pub(crate) fn invalid(info: &ResourceInfo, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_kind(&info.group, &info.kind, name, causes)
    }

    pub(crate) fn invalid_kind(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for cause in causes {
            let field = if cause.field.is_empty() { "<nil>" } else { &cause.field };
            let text = format!("{field}: {}", cause.message);
            // The message lists equal errors once.
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let all = if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) };
        Self::about((422, "Invalid"), (group, kind, name), &format!("is invalid: {all}")).with_causes(causes)
    }

    /// Invalid request options.
    pub(crate) fn invalid_options(kind: &str, causes: &[Cause]) -> Self {
        Self::invalid_kind("meta.k8s.io", kind, "", causes)
    }

    /// An error without a reason, such as a plain Go error in a handler.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn with_causes(mut self, causes: &[Cause]) -> Self {
        self.details.get_or_insert_default()["causes"] = json!(causes);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message = "the body of the request was in an unknown format - accepted media types include";
        Self::new(415, "UnsupportedMediaType", format!("{message}: {accepted}"))
    }

    /// The `Status` object.
    pub(crate) fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

/// The response to a delete that removed the object.
pub(crate) fn deleted(info: &ResourceInfo, name: &str, uid: &str) -> Value {
    let mut details = details(&info.group, &info.plural, name);
    details["uid"] = uid.into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

fn qualified(what: &str, group: &str) -> String {
    if group.is_empty() { what.to_owned() } else { format!("{what}.{group}") }
}

fn details(group: &str, kind: &str, name: &str) -> Value {
    let fields = [("kind", kind), ("name", name), ("group", group)];
    fields.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}
