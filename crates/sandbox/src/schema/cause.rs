//! One error in an object, as in `status.details.causes` of the response.

use std::fmt::Display;

use serde::Serialize;
use serde_json::Value;

/// One validation error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Cause {
    /// Machine-readable: `FieldValueInvalid`, `FieldValueRequired`, …
    pub(crate) reason: &'static str,
    /// Human-readable, without the field.
    pub(crate) message: String,
    /// Path of the field, such as `spec.replicas`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) field: String,
}

impl Cause {
    fn new(reason: &'static str, field: &str, message: String, detail: &str) -> Self {
        let message = if detail.is_empty() { message } else { format!("{message}: {detail}") };
        Self { reason, message, field: field.to_owned() }
    }

    /// A value that breaks a rule: `Invalid value: "x": detail`.
    pub(crate) fn invalid(field: &str, value: &Value, detail: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {value}"), detail)
    }

    /// A value of the wrong type.
    pub(crate) fn type_invalid(field: &str, value: &Value, detail: &str) -> Self {
        Self { reason: "FieldValueTypeInvalid", ..Self::invalid(field, value, detail) }
    }

    /// A required value that is missing.
    pub(crate) fn required(field: &str, detail: &str) -> Self {
        Self::new("FieldValueRequired", field, "Required value".to_owned(), detail)
    }

    /// A duplicate of a value that must be unique.
    pub(crate) fn duplicate(field: &str, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {value}"), "")
    }

    /// A value outside an enumeration.
    pub(crate) fn not_supported<T: Display>(field: &str, value: &Value, supported: &[T]) -> Self {
        let list: Vec<String> = supported.iter().map(|v| format!("\"{v}\"")).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", list.join(", "));
        Self::new("FieldValueNotSupported", field, message, "")
    }

    /// A field that must not be set or changed.
    pub(crate) fn forbidden(field: &str, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, "Forbidden".to_owned(), detail)
    }

    /// A text with more bytes than it may have.
    pub(crate) fn too_long(field: &str, max: impl Display) -> Self {
        let message = format!("Too long: may not be more than {max} bytes");
        Self::new("FieldValueTooLong", field, message, "")
    }

    /// `field: message`.
    #[cfg(test)]
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }
}
