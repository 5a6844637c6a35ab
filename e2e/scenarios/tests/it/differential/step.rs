//! A request for both servers.

use serde_json::Value;

use super::side::Kind;

/// The media types of bodies.
pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const PATCH: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// One request. In path and body, `{ns}` is the namespace, and `{KEY:LABEL}` is this key of the metadata in
/// the last response to a step with this label (`{KEY:old LABEL}`: in the first one).
#[derive(Clone, Debug)]
pub struct Step {
    pub label: String,
    pub kind: Kind,
    pub method: &'static str,
    pub path: String,
    pub form: &'static str,
    pub body: Value,
    /// Whether the messages of errors are compared too.
    pub has_words: bool,
}

impl Step {
    /// A request for the objects of a kind; `rest` is what follows in the path.
    pub fn new(label: &str, kind: Kind, method: &'static str, rest: &str) -> Self {
        let path = kind.collection() + rest;
        Self { label: label.to_owned(), kind, method, path, form: JSON, body: Value::Null, has_words: false }
    }

    pub fn with(self, body: Value) -> Self {
        Self { body, ..self }
    }

    pub fn of(self, form: &'static str) -> Self {
        Self { form, ..self }
    }

    pub fn at(self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    /// The request in one line, for reports.
    pub fn line(&self) -> String {
        let Self { label, method, path, form, body, .. } = self;
        let form = form.trim_start_matches("application/");
        format!("{label}: {method} {path} {form} {body}")
    }
}
