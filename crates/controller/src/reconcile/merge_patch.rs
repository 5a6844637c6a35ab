//! JSON merge patches (RFC 7386) with only the fields that differ. The API server applies them.

use serde_json::{Map, Value};

/// The patch from `old` to `new`, with null for a removed field. `None`: they are equal.
pub(crate) fn diff(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut patch = Map::new();
            for (key, value) in new {
                match old.get(key) {
                    Some(before) => patch.extend(diff(before, value).map(|change| (key.clone(), change))),
                    None => {
                        patch.insert(key.clone(), value.clone());
                    }
                }
            }
            let removed = old.keys().filter(|key| !new.contains_key(*key));
            patch.extend(removed.map(|key| (key.clone(), Value::Null)));
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (old, new) => (old != new).then(|| new.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::diff;

    #[test]
    fn a_patch_has_only_the_fields_that_differ() {
        let table = [
            (json!({}), json!({}), None),
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 2}), Some(json!({"a": 2}))),
            (json!({"a": 1, "b": 2}), json!({"b": 2}), Some(json!({"a": null}))),
            (
                json!({"a": {"x": 1, "y": 2}}),
                json!({"a": {"x": 1, "z": 3}}),
                Some(json!({"a": {"y": null, "z": 3}})),
            ),
            (json!({"a": [1, 2]}), json!({"a": [2]}), Some(json!({"a": [2]}))),
            (json!({"a": {"x": 1}}), json!({"a": 5}), Some(json!({"a": 5}))),
            (json!({"a": 5}), json!({"a": {"x": 1}}), Some(json!({"a": {"x": 1}}))),
            (json!({"a": {"x": 1}}), json!({"a": {}}), Some(json!({"a": {"x": null}}))),
            (
                json!({"a": {"b": {"x": 1, "y": 2}, "c": 3}}),
                json!({"a": {"b": {"x": 2, "y": 2}, "c": 3}}),
                Some(json!({"a": {"b": {"x": 2}}})),
            ),
        ];
        for (old, new, expected) in table {
            let mut patched = old.clone();
            json_patch::merge(&mut patched, expected.as_ref().unwrap_or(&json!({})));
            assert_eq!((diff(&old, &new), &patched), (expected, &new), "{old} -> {new}");
        }
    }
}
