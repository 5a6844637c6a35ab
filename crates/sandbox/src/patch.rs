//! Applies a patch to an object: JSON patch, JSON merge patch, strategic merge patch.
//!
//! The handler applies defaults, validates the result and compares resource versions; this module does not.

use serde_json::{Map, Value};

use crate::object::map_mut;
use crate::status::Failure;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// The patch types, by content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`, for built-in kinds only.
    Strategic,
}

/// Applies the patch and returns the new object.
pub(crate) fn apply(kind: PatchKind, original: &Value, patch: &Value) -> Result<Value, Failure> {
    let mut result = original.clone();
    match kind {
        PatchKind::Json => json(&mut result, patch)?,
        PatchKind::Merge | PatchKind::Strategic if !patch.is_object() => {
            return Err(Failure::bad_request(
                "error decoding patch: json: cannot unmarshal array into Go value of type \
                 map[string]interface {}",
            ));
        }
        PatchKind::Merge => json_patch::merge(&mut result, patch),
        PatchKind::Strategic => {
            merge_map(map_mut(&mut result), patch.as_object().unwrap_or(&Map::new()), "")?;
        }
    }
    Ok(result)
}

fn json(object: &mut Value, patch: &Value) -> Result<(), Failure> {
    let Some(list) = patch.as_array() else {
        let what = if patch.is_object() { "object" } else { "value" };
        return Err(Failure::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {what} into Go value of type []handlers.jsonPatchOp"
        )));
    };
    let known = ["add", "remove", "replace", "move", "copy", "test"];
    if let Some(odd) = list.iter().find(|operation| !known.iter().any(|op| operation["op"] == *op)) {
        return Err(Failure::bad_request(format!("invalid operation {odd}: unsupported operation")));
    }
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
    // Without rollback on failure: the copy is dropped then, and the rollback of a move to the root panics.
    json_patch::patch_unsafe(object, &operations).map_err(|_| {
        // The API server does not report which operation failed.
        Failure::plain(422, "Invalid", "the server rejected our request due to an error in our request")
    })
}

/// How a list merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListMerge {
    Replace,
    ByKey(&'static str),
    Set,
}

/// How the list `field` merges in an object that is the field `parent` of its own parent. A field name has
/// the same meaning in all types that can be there, so the lookup does not need the type.
fn list_merge(parent: &str, field: &str) -> ListMerge {
    let in_container = matches!(parent, "containers" | "initContainers");
    ListMerge::ByKey(match (parent, field) {
        ("metadata", "finalizers") => return ListMerge::Set,
        ("metadata", "ownerReferences") => "uid",
        ("spec", "containers" | "initContainers" | "volumes" | "imagePullSecrets") => "name",
        ("spec", "topologySpreadConstraints") => "topologyKey",
        ("spec", "ports") => "port",
        (_, "env") if in_container => "name",
        (_, "ports") if in_container => "containerPort",
        (_, "volumeMounts") if in_container => "mountPath",
        ("status", "conditions" | "addresses") => "type",
        ("status", "podIPs" | "hostIPs") => "ip",
        _ => return ListMerge::Replace,
    })
}

/// A strategic merge patch of a built-in kind: lists merge by keys; directives delete. A list keeps its
/// order: new items come last.
fn merge_map(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    parent: &str,
) -> Result<(), Failure> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(directive) if directive == "delete" => {
            target.clear();
            return Ok(());
        }
        Some(other) => {
            return Err(Failure::bad_request(format!(
                "the sandbox does not know the directive $patch: {other}"
            )));
        }
    }
    if let Some(retain) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        target.retain(|key, _| retain.iter().any(|retained| retained == key));
    }
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix(DELETE_FROM) {
            if let (Some(Value::Array(list)), Some(gone)) = (target.get_mut(field), value.as_array()) {
                list.retain(|item| !gone.contains(item));
            }
        } else if key != RETAIN_KEYS && !key.starts_with(ORDER) {
            merge_field(target, key, value, parent)?;
        }
    }
    Ok(())
}

fn merge_field(
    target: &mut Map<String, Value>,
    key: &str,
    value: &Value,
    parent: &str,
) -> Result<(), Failure> {
    match value {
        Value::Null => {
            target.remove(key);
        }
        Value::Object(patch) => {
            // The patch merges into an empty object, so directives and nulls are not stored.
            let slot = target.entry(key).or_insert_with(|| Value::Object(Map::new()));
            merge_map(map_mut(slot), patch, key)?;
            if patch.get(DIRECTIVE).is_some() {
                target.remove(key);
            }
        }
        Value::Array(patch) => {
            let slot = target.entry(key).or_insert(Value::Null);
            let merge = list_merge(parent, key);
            if let Value::Array(list) = slot {
                merge_list(list, patch, merge, key)?;
            } else {
                // There is no list to merge with, so items without a key are kept unchanged.
                let keyed = |item: &Value| match merge {
                    ListMerge::ByKey(key) => item.get(key).is_some(),
                    _ => true,
                };
                let (merged, taken): (Vec<Value>, Vec<Value>) = patch.iter().cloned().partition(keyed);
                let mut list = Vec::new();
                merge_list(&mut list, &merged, merge, key)?;
                list.extend(taken);
                *slot = list.into();
            }
        }
        scalar => {
            target.insert(key.to_owned(), scalar.clone());
        }
    }
    Ok(())
}

fn merge_list(list: &mut Vec<Value>, patch: &[Value], merge: ListMerge, field: &str) -> Result<(), Failure> {
    let key = match merge {
        ListMerge::Replace => {
            *list = patch.to_vec();
            return Ok(());
        }
        ListMerge::Set => {
            for item in patch {
                if !list.contains(item) {
                    list.push(item.clone());
                }
            }
            return Ok(());
        }
        ListMerge::ByKey(key) => key,
    };
    for item in patch {
        let (Some(fields), Some(id)) = (item.as_object(), item.get(key)) else {
            // The API server returns the same internal error.
            return Err(Failure::internal(format!("map: {item} does not contain declared merge key: {key}")));
        };
        let known = list.iter().position(|old| old.get(key) == Some(id));
        if fields.get(DIRECTIVE).is_some_and(|directive| directive == "delete") {
            list.retain(|old| old.get(key) != Some(id));
            continue;
        }
        if known.is_none() {
            list.push(Value::Object(Map::new()));
        }
        let place = known.unwrap_or(list.len() - 1);
        merge_map(map_mut(&mut list[place]), fields, field)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
