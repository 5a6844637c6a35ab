//! Helpers that read, default and check fields of an object.

use serde_json::{Map, Value};

use crate::schema::Cause;

/// The object at a key; created if absent or null.
pub(super) fn entry<'a>(parent: &'a mut Value, key: &str) -> &'a mut Value {
    if !parent.is_object() {
        *parent = Value::Object(Map::new());
    }
    let slot = &mut parent[key];
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot
}

/// Sets a field that is absent or null.
pub(super) fn fill(parent: &mut Value, key: &str, default: impl Into<Value>) {
    if parent.get(key).is_none_or(Value::is_null)
        && let Some(map) = parent.as_object_mut()
    {
        map.insert(key.to_owned(), default.into());
    }
}

/// The items of a list, mutable.
pub(super) fn items<'a>(parent: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    parent.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

pub(super) fn list<'a>(parent: &'a Value, key: &str) -> &'a [Value] {
    parent.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn text<'a>(parent: &'a Value, key: &str) -> &'a str {
    parent.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn not_negative(parent: &Value, key: &str, path: &str, causes: &mut Vec<Cause>) {
    if parent[key].as_i64().is_some_and(|n| n < 0) {
        causes.push(Cause::invalid(
            &format!("{path}.{key}"),
            &parent[key],
            "must be greater than or equal to 0",
        ));
    }
}

pub(super) fn one_of(value: &Value, field: &str, allowed: &[&str], causes: &mut Vec<Cause>) {
    if value.as_str().is_some_and(|v| !allowed.contains(&v)) {
        causes.push(Cause::not_supported(field, value, allowed));
    }
}
