//! Sets the defaults of a structural schema.
//!
//! An object is not created only because its fields have defaults.

use serde_json::Value;

use super::node::Node;

/// Sets defaults from the top down, so that a default object gets the defaults of its fields.
pub(super) fn default(value: &mut Value, node: &Node) {
    match value {
        Value::Object(map) => {
            for (name, property) in &node.properties {
                if let Some(default) = &property.default
                    && !map.contains_key(name)
                {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (key, inner) in map.iter_mut() {
                if let Some(schema) = node.of_key(key) {
                    replace_null(inner, schema);
                    default(inner, schema);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for inner in list {
                    replace_null(inner, items);
                    default(inner, items);
                }
            }
        }
        _ => {}
    }
}

/// Drops nulls of known properties that are not nullable: the API server treats them as absent.
pub(super) fn drop_nulls(value: &mut Value, node: &Node) {
    match value {
        Value::Object(map) => {
            map.retain(|key, inner| !node.properties.get(key).is_some_and(|p| is_wrong_null(inner, p)));
            for (key, inner) in map.iter_mut() {
                if let Some(schema) = node.of_key(key) {
                    drop_nulls(inner, schema);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for inner in list {
                    drop_nulls(inner, items);
                }
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, node: &Node) {
    if is_wrong_null(value, node)
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
}

fn is_wrong_null(value: &Value, node: &Node) -> bool {
    value.is_null() && !node.nullable
}
