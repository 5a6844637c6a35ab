//! JSON merge patches (RFC 7386) with only the fields that differ. This module does not apply patches: the
//! API server does.

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
    use serde_json::{Value, json};

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
            (json!({}), json!({"a": {"x": 1}}), Some(json!({"a": {"x": 1}}))),
        ];
        for (old, new, expected) in table {
            assert_eq!(diff(&old, &new), expected, "{old} -> {new}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_patch_applied_gives_the_new_value(
            old in values(3), new in values(3)
        ) {
            let mut patched = old.clone();
            if let Some(patch) = diff(&old, &new) {
                json_patch::merge(&mut patched, &patch);
            }
            proptest::prop_assert_eq!(patched, new);
        }
    }

    /// Nested objects of small numbers and lists; no nulls, which a status never has.
    fn values(depth: u32) -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            (0..3).prop_map(Value::from),
            proptest::collection::vec(0..2, 0..2).prop_map(Value::from)
        ];
        let inner = leaf.prop_recursive(depth, 12, 3, |inner| {
            proptest::collection::btree_map("[abc]", inner, 0..3)
                .prop_map(|map| map.into_iter().collect::<Value>())
        });
        proptest::collection::btree_map("[abc]", inner, 0..3)
            .prop_map(|map| map.into_iter().collect::<Value>())
    }
}
