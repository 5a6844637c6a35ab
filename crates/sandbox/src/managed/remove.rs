//! Removes fields from an object.
//!
//! The rules are those of structured-merge-diff (`typed/remove.go`): of a map or list that becomes empty, a null stays.

use serde_json::{Map, Value};

use super::element::Element;
use super::set::{FieldSet, Node};
use super::shape::{Kind, Shape};

/// The object without these fields.
pub(crate) fn remove(value: &Value, fields: &FieldSet, shape: &Shape<'_>) -> Value {
    let kind = shape.kind(value);
    match (&kind, value) {
        (Kind::Map, Value::Object(map)) => {
            let kept: Map<String, Value> = map
                .iter()
                .filter_map(|(name, inner)| {
                    let node = fields.get(&Element::field(name));
                    let inner = kept(node, inner, &shape.known_field(name).shape)?;
                    Some((name.clone(), inner))
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Kind::Set | Kind::Keyed(_), Value::Array(items)) => {
            let inner = shape.items();
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let step = shape.element(&kind, item).ok();
                    kept(step.and_then(|step| fields.get(&step)), item, &inner)
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        _ => value.clone(),
    }
}

/// What stays of a value; `None` if it is removed.
fn kept(node: Option<&Node>, value: &Value, shape: &Shape<'_>) -> Option<Value> {
    match node {
        None => Some(value.clone()),
        Some(node) if node.owned => None,
        Some(node) => Some(remove(value, &node.below, shape)),
    }
}
