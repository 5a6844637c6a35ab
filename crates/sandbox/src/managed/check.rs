//! Checks a configuration against the shape of its type: unknown fields, wrong types, repeated items.
//!
//! The messages are those of structured-merge-diff (`typed/validate.go`), except that wrong values are shown as JSON.

use std::collections::BTreeSet;

use serde_json::Value;

use super::element::{Element, shown};
use super::shape::{Kind, Shape};

/// The error in one text; `None` for a valid configuration.
pub(crate) fn check(config: &Value, shape: &Shape<'_>) -> Option<String> {
    let mut errors = Vec::new();
    visit(config, shape, &mut Vec::new(), &mut errors);
    match errors.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn visit(value: &Value, shape: &Shape<'_>, path: &mut Vec<Element>, errors: &mut Vec<String>) {
    if let Some(error) = wrong_type(value, shape) {
        errors.push(at(path, &error));
        return;
    }
    let kind = shape.kind(value);
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                path.push(Element::field(name));
                match shape.field(name) {
                    Some(field) => visit(inner, &field.shape, path, errors),
                    None => errors.push(at(path, "field not declared in schema")),
                }
                path.pop();
            }
        }
        Value::Array(items) => {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let step = match &kind {
                    Kind::Set | Kind::Keyed(_) => match shape.element(&kind, item) {
                        Ok(step) => step,
                        Err(error) => {
                            errors.push(at(path, &format!("element {index}: {error}")));
                            continue;
                        }
                    },
                    _ => Element::Index(u64::try_from(index).unwrap_or_default()),
                };
                if !seen.insert(step.clone()) {
                    errors.push(at(path, &format!("duplicate entries for key {step}")));
                }
                path.push(step);
                visit(item, &shape.items(), path, errors);
                path.pop();
            }
        }
        _ => {}
    }
}

fn wrong_type(value: &Value, shape: &Shape<'_>) -> Option<String> {
    let wanted = match (shape.scalar(), value) {
        (_, Value::Null)
        | ("object", Value::Object(_))
        | ("array", Value::Array(_))
        | ("string", Value::String(_))
        | ("integer" | "number", Value::Number(_))
        | ("boolean", Value::Bool(_)) => return None,
        ("object", _) => "map",
        ("array", _) => "list",
        ("string", _) => "string",
        ("integer" | "number", _) => "numeric (int or float)",
        ("boolean", _) => "boolean",
        _ => return None,
    };
    Some(format!("expected {wanted}, got {value}"))
}

fn at(path: &[Element], error: &str) -> String {
    if path.is_empty() { error.to_owned() } else { format!("{}: {error}", shown(path)) }
}
