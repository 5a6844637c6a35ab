//! Accessors for objects in JSON. They are the same for every kind.

use serde_json::{Map, Value};

/// A string field of `metadata`; empty if absent.
pub(crate) fn meta<'a>(object: &'a Value, key: &str) -> &'a str {
    text(&object["metadata"], key)
}

pub(crate) fn name(object: &Value) -> &str {
    meta(object, "name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    meta(object, "namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    meta(object, "uid")
}

pub(crate) fn resource_version(object: &Value) -> &str {
    meta(object, "resourceVersion")
}

pub(crate) fn terminating(object: &Value) -> bool {
    !meta(object, "deletionTimestamp").is_empty()
}

/// `metadata`; replaced by an empty object if it is not an object.
pub(crate) fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_mut(field_mut(object, "metadata"))
}

/// Sets a field of `metadata`; null removes it.
pub(crate) fn set_meta(object: &mut Value, key: &str, value: Value) {
    let meta = meta_mut(object);
    if value.is_null() {
        meta.remove(key)
    } else {
        meta.insert(key.to_owned(), value)
    };
}

/// A field of an object; created if absent.
pub(crate) fn field_mut<'a>(object: &'a mut Value, key: &str) -> &'a mut Value {
    map_mut(object).entry(key).or_insert(Value::Null)
}

/// The map of an object; any other value is replaced by an empty object.
pub(crate) fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { unreachable!("made an object above") };
    map
}

/// Sets a field; `None` removes it.
pub(crate) fn set(object: &mut Value, key: &str, value: Option<&Value>) {
    let map = map_mut(object);
    match value {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}

pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let list = list(&object["metadata"], "finalizers").iter();
    list.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let value = if finalizers.is_empty() { Value::Null } else { finalizers.into() };
    set_meta(object, "finalizers", value);
}

pub(crate) fn owners(object: &Value) -> &[Value] {
    list(&object["metadata"], "ownerReferences")
}

/// The value at a path such as `.spec.replicas`.
pub(crate) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|step| !step.is_empty()).try_fold(object, |value, step| value.get(step))
}

/// Sets the value at such a path and creates missing objects on the path.
pub(crate) fn put_at(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        place = field_mut(place, step);
    }
    *place = value;
}

/// The object at a key; created if absent or null.
pub(crate) fn entry<'a>(parent: &'a mut Value, key: &str) -> &'a mut Value {
    let slot = field_mut(parent, key);
    map_mut(slot);
    slot
}

/// Sets a field that is absent or null.
pub(crate) fn fill(parent: &mut Value, key: &str, default: impl Into<Value>) {
    if parent.get(key).is_none_or(Value::is_null)
        && let Some(map) = parent.as_object_mut()
    {
        map.insert(key.to_owned(), default.into());
    }
}

/// The items of a list, mutable.
pub(crate) fn items<'a>(parent: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    parent.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

pub(crate) fn list<'a>(parent: &'a Value, key: &str) -> &'a [Value] {
    parent.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn text<'a>(parent: &'a Value, key: &str) -> &'a str {
    parent.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Removes nulls at all levels, as decoding into a typed struct does.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, member| !member.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// FNV-1a. Unlike the standard hasher, it is the same on every machine and in every run.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
