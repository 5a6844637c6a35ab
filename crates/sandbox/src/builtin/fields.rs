//! Helpers that read and default fields of an object.

use serde_json::Value;

/// The object at a key; created if absent or null.
pub(super) fn entry<'a>(parent: &'a mut Value, key: &str) -> &'a mut Value {
    let slot = crate::object::field_mut(parent, key);
    crate::object::map_mut(slot);
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
