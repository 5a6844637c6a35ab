//! Fields of an object, for cells.

use serde_json::Value;

/// The string at a path; empty if absent.
pub(super) fn at<'a>(object: &'a Value, path: &str) -> &'a str {
    found(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a path; 0 if absent.
pub(super) fn count(object: &Value, path: &str) -> i64 {
    found(object, path).and_then(Value::as_i64).unwrap_or(0)
}

/// The items of a list at a path.
pub(super) fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    found(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn found<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, key| value.get(key))
}

/// `<none>` if the text is empty.
pub(super) fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}
