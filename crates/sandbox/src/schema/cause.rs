//! One error in an object, as in `status.details.causes` of the response.

use std::fmt::Display;

use serde_json::Value;

/// One validation error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable: `FieldValueInvalid`, `FieldValueRequired`, …
    pub reason: &'static str,
    /// Human-readable, without the field.
    pub message: String,
    /// Path of the field, such as `spec.replicas`.
    pub field: String,
}

impl Cause {
    /// A value that breaks a rule: `Invalid value: "x": detail`.
    #[must_use]
    pub fn invalid(field: &str, value: &Value, detail: &str) -> Self {
        let message = with_detail(format!("Invalid value: {}", shown(value)), detail);
        Self { reason: "FieldValueInvalid", message, field: field.to_owned() }
    }

    /// A value of the wrong type.
    #[must_use]
    pub fn type_invalid(field: &str, value: &Value, detail: &str) -> Self {
        Self { reason: "FieldValueTypeInvalid", ..Self::invalid(field, value, detail) }
    }

    /// A required value that is missing.
    #[must_use]
    pub fn required(field: &str, detail: &str) -> Self {
        let message = with_detail("Required value".to_owned(), detail);
        Self { reason: "FieldValueRequired", message, field: field.to_owned() }
    }

    /// A duplicate of a value that must be unique.
    #[must_use]
    pub fn duplicate(field: &str, value: &Value) -> Self {
        let message = format!("Duplicate value: {}", shown(value));
        Self { reason: "FieldValueDuplicate", message, field: field.to_owned() }
    }

    /// A value outside an enumeration.
    #[must_use]
    pub fn not_supported<T: Display>(field: &str, value: &Value, supported: &[T]) -> Self {
        let list: Vec<String> = supported.iter().map(|v| format!("\"{v}\"")).collect();
        let message = format!("Unsupported value: {}: supported values: {}", shown(value), list.join(", "));
        Self { reason: "FieldValueNotSupported", message, field: field.to_owned() }
    }

    /// A field that must not be set or changed.
    #[must_use]
    pub fn forbidden(field: &str, detail: &str) -> Self {
        let message = with_detail("Forbidden".to_owned(), detail);
        Self { reason: "FieldValueForbidden", message, field: field.to_owned() }
    }

    /// `field: message`. The message of the response joins the causes in this form.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }
}

/// The message of a 422: `Kind "name" is invalid: cause`, several causes in brackets.
#[must_use]
pub fn invalid_message(kind: &str, group: &str, name: &str, causes: &[Cause]) -> String {
    let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    let mut lines: Vec<String> = Vec::new();
    for line in causes.iter().map(Cause::line) {
        // The API server lists equal errors once.
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let text = if lines.len() == 1 { lines.concat() } else { format!("[{}]", lines.join(", ")) };
    format!("{qualified} \"{name}\" is invalid: {text}")
}

fn with_detail(mut text: String, detail: &str) -> String {
    if !detail.is_empty() {
        text.push_str(": ");
        text.push_str(detail);
    }
    text
}

/// Values as the API server prints them: strings quoted, others as JSON.
fn shown(value: &Value) -> String {
    value.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn several_causes_are_in_brackets_without_duplicates() {
        let a = Cause::required("spec.a", "");
        let b = Cause::invalid("spec.b", &json!("x"), "no");
        assert_eq!(
            invalid_message("Deployment", "apps", "web", &[a.clone(), b, a.clone()]),
            r#"Deployment.apps "web" is invalid: [spec.a: Required value, spec.b: Invalid value: "x": no]"#
        );
        assert_eq!(invalid_message("Pod", "", "p", &[a]), r#"Pod "p" is invalid: spec.a: Required value"#);
    }
}
