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

    fn about(mut self, info: &ResourceInfo, name: &str) -> Self {
        self.details = Some(details(&info.group, &info.plural, name));
        self
    }

    pub(crate) fn not_found(info: &ResourceInfo, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", info.qualified())).about(info, name)
    }

    /// A subresource of an object that does not exist, if the message of the API server includes the
    /// subresource.
    pub(crate) fn not_found_at(info: &ResourceInfo, sub: &str, name: &str) -> Self {
        let what = format!("{}/{sub}", info.plural);
        let subject = qualified(&what, &info.group);
        let mut failure = Self::new(404, "NotFound", format!("{subject} \"{name}\" not found"));
        failure.details = Some(details(&info.group, &what, name));
        failure
    }

    /// A path that the server does not serve.
    pub(crate) fn no_such_resource() -> Self {
        let mut failure = Self::new(404, "NotFound", "the server could not find the requested resource");
        failure.details = Some(json!({}));
        failure
    }

    pub(crate) fn already_exists(info: &ResourceInfo, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", info.qualified()))
            .about(info, name)
    }

    pub(crate) fn modified(info: &ResourceInfo, name: &str) -> Self {
        Self::conflict(
            info,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn conflict(info: &ResourceInfo, name: &str, why: &str) -> Self {
        Self::conflict_at(&info.group, &info.plural, name, why)
    }

    pub(crate) fn conflict_at(group: &str, what: &str, name: &str, why: &str) -> Self {
        let subject = qualified(what, group);
        let message = format!("Operation cannot be fulfilled on {subject} \"{name}\": {why}");
        let mut failure = Self::new(409, "Conflict", message);
        failure.details = Some(details(group, what, name));
        failure
    }

    pub(crate) fn forbidden(info: &ResourceInfo, name: &str, why: &str) -> Self {
        Self::new(403, "Forbidden", format!("{} \"{name}\" is forbidden: {why}", info.qualified()))
            .about(info, name)
    }

    pub(crate) fn invalid(info: &ResourceInfo, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_kind(&info.group, &info.kind, name, causes)
    }

    pub(crate) fn invalid_kind(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let subject = qualified(kind, group);
        let mut texts: Vec<String> = Vec::new();
        for text in causes.iter().map(cause_text) {
            // The message lists equal errors once.
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let all = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut failure = Self::new(422, "Invalid", format!("{subject} \"{name}\" is invalid: {all}"));
        let mut details = details(group, kind, name);
        details["causes"] = causes.iter().map(cause_value).collect();
        failure.details = Some(details);
        failure
    }

    /// Invalid request options.
    pub(crate) fn invalid_options(kind: &str, causes: &[Cause]) -> Self {
        Self::invalid_kind("meta.k8s.io", kind, "", causes)
    }

    /// An error without a reason, such as a plain Go error in a handler.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn with_cause(mut self, cause: &Cause) -> Self {
        self.details.get_or_insert_with(|| json!({}))["causes"] = json!([cause_value(cause)]);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let mut failure = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        failure.details = Some(json!({}));
        failure
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
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

fn cause_value(cause: &Cause) -> Value {
    json!({"reason": cause.reason, "message": cause.message, "field": cause.field})
}

fn cause_text(cause: &Cause) -> String {
    let field = if cause.field.is_empty() { "<nil>" } else { &cause.field };
    format!("{field}: {}", cause.message)
}
