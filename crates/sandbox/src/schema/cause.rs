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
        let message = with_detail(format!("Invalid value: {value}"), detail);
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
        let message = format!("Duplicate value: {value}");
        Self { reason: "FieldValueDuplicate", message, field: field.to_owned() }
    }

    /// A value outside an enumeration.
    #[must_use]
    pub fn not_supported<T: Display>(field: &str, value: &Value, supported: &[T]) -> Self {
        let list: Vec<String> = supported.iter().map(|v| format!("\"{v}\"")).collect();
        let message = format!("Unsupported value: {}: supported values: {}", value, list.join(", "));
        Self { reason: "FieldValueNotSupported", message, field: field.to_owned() }
    }

    /// A field that must not be set or changed.
    #[must_use]
    pub fn forbidden(field: &str, detail: &str) -> Self {
        let message = with_detail("Forbidden".to_owned(), detail);
        Self { reason: "FieldValueForbidden", message, field: field.to_owned() }
    }

    /// `field: message`.
    #[cfg(test)]
    pub fn line(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }
}

fn with_detail(mut text: String, detail: &str) -> String {
    if !detail.is_empty() {
        text.push_str(": ");
        text.push_str(detail);
    }
    text
}
