//! Strategic merge patches of built-in kinds: lists merge by keys; directives delete, replace and order.
//!
//! Custom resources are not handled here; the API server rejects these patches for them.

use serde_json::{Map, Value};

use super::{
    error::PatchError,
    keys::{ListMerge, list_merge},
};
use crate::resource::ResourceInfo;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Applies a patch to a complete object.
pub(super) fn apply(info: &ResourceInfo, original: &Value, patch: &Value) -> Result<Value, PatchError> {
    let (Some(original), Some(patch)) = (original.as_object(), patch.as_object()) else {
        return Err(PatchError::bad_request("the patch and the object must be JSON objects"));
    };
    let mut result = original.clone();
    let root = Place { kind: &info.kind, parent: "" };
    merge_map(&mut result, patch, root)?;
    Ok(Value::Object(result))
}

/// The position of the merge in the object.
#[derive(Clone, Copy)]
struct Place<'a> {
    kind: &'a str,
    /// The field name of this object, or of the list that contains it, in its parent.
    parent: &'a str,
}

impl<'a> Place<'a> {
    fn below(self, field: &'a str) -> Self {
        Self { parent: field, ..self }
    }

    fn list_merge(self, field: &str) -> ListMerge {
        match (self.kind, self.parent, field) {
            // Only a ServiceAccount has secrets at the top level.
            (kind, "", "secrets") if kind != "ServiceAccount" => ListMerge::Replace,
            (_, parent, field) => list_merge(parent, field),
        }
    }
}

fn merge_map(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    at: Place,
) -> Result<(), PatchError> {
    match patch.get(DIRECTIVE).map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => {
            target.clear();
            target.extend(
                patch.iter().filter(|(key, _)| *key != DIRECTIVE).map(|(k, v)| (k.clone(), v.clone())),
            );
            return Ok(());
        }
        Some(Some("delete")) => {
            target.clear();
            return Ok(());
        }
        Some(other) => {
            let other = other.unwrap_or_default();
            return Err(PatchError::bad_request(format!("Unknown patch type: {other}")));
        }
    }
    if let Some(retain) = patch.get(RETAIN_KEYS) {
        let keys = retain.as_array().ok_or_else(|| bad_directive(RETAIN_KEYS))?;
        target.retain(|key, _| keys.iter().any(|k| k == key));
    }
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix(DELETE_FROM) {
            let gone = value.as_array().ok_or_else(|| bad_directive(DELETE_FROM))?;
            if let Some(Value::Array(list)) = target.get_mut(field) {
                list.retain(|item| !gone.contains(item));
            }
        }
    }
    let mut orders = Vec::new();
    for (key, order) in patch {
        if let Some(field) = key.strip_prefix(ORDER) {
            let order = order.as_array().ok_or_else(|| bad_directive(ORDER))?;
            let before = target.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
            orders.push((field, order, before));
        }
    }
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        merge_field(target, key, value, at)?;
    }
    for (field, order, before) in orders {
        if let Some(Value::Array(list)) = target.get_mut(field) {
            set_order(list, order, &before, at.list_merge(field));
        }
    }
    Ok(())
}

fn merge_field(
    target: &mut Map<String, Value>,
    key: &str,
    value: &Value,
    at: Place,
) -> Result<(), PatchError> {
    match value {
        Value::Null => {
            target.remove(key);
        }
        Value::Object(patch) => {
            // The patch merges into an empty object, so directives and nulls are not stored.
            let slot = target.entry(key).or_insert_with(|| Value::Object(Map::new()));
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            if let Value::Object(inner) = slot {
                merge_map(inner, patch, at.below(key))?;
            }
            if patch.get(DIRECTIVE).is_some_and(|d| d == "delete") {
                target.remove(key);
            }
        }
        Value::Array(patch) => {
            let slot = target.entry(key).or_insert(Value::Null);
            if let Value::Array(list) = slot {
                merge_list(list, patch, at.list_merge(key), at.below(key))?;
            } else {
                // There is no list to merge with, so items without a key are kept unchanged.
                let keyed = |item: &Value| match at.list_merge(key) {
                    ListMerge::ByKey(key) => item.get(key).is_some() || item.get(DIRECTIVE).is_some(),
                    _ => true,
                };
                let (merged, taken): (Vec<Value>, Vec<Value>) = patch.iter().cloned().partition(keyed);
                let mut list = Vec::new();
                merge_list(&mut list, &merged, at.list_merge(key), at.below(key))?;
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

fn merge_list(list: &mut Vec<Value>, patch: &[Value], merge: ListMerge, at: Place) -> Result<(), PatchError> {
    let replaces = |item: &Value| item[DIRECTIVE] == "replace";
    let key = match merge {
        ListMerge::Replace => {
            *list = patch.iter().filter(|item| item.get(DIRECTIVE).is_none()).cloned().collect();
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
    if patch.iter().any(replaces) {
        *list = patch.iter().filter(|item| !replaces(item)).cloned().collect();
        return Ok(());
    }
    for item in patch {
        let Some(fields) = item.as_object() else {
            return Err(PatchError::bad_request("items of a list that merges by key must be objects"));
        };
        let Some(id) = fields.get(key) else {
            // The API server returns the same internal error.
            let message = format!("map: {item} does not contain declared merge key: {key}");
            return Err(PatchError { code: 500, message });
        };
        if fields.get(DIRECTIVE).is_some_and(|d| d == "delete") {
            list.retain(|old| old.get(key) != Some(id));
            continue;
        }
        let known = list.iter().position(|old| old.get(key) == Some(id));
        let place = known.unwrap_or(list.len());
        if known.is_none() {
            list.push(Value::Object(Map::new()));
        }
        if let Some(Value::Object(old)) = list.get_mut(place) {
            merge_map(old, fields, at)?;
        }
    }
    Ok(())
}

/// Sorts the items that `order` lists. Each other item stays ahead of the first listed item that it preceded in
/// `before`.
fn set_order(list: &mut Vec<Value>, order: &[Value], before: &[Value], merge: ListMerge) {
    let id = |item: &Value| match merge {
        ListMerge::ByKey(key) => item.get(key).cloned().unwrap_or_default(),
        _ => item.clone(),
    };
    let wanted: Vec<Value> = order.iter().map(id).collect();
    let before: Vec<Value> = before.iter().map(id).collect();
    let was_ahead = |a: &Value, b: &Value| {
        let place = |item: &Value| before.iter().position(|old| *old == id(item));
        place(a).zip(place(b)).is_some_and(|(a, b)| a < b)
    };
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        std::mem::take(list).into_iter().partition(|item| wanted.contains(&id(item)));
    named.sort_by_key(|item| wanted.iter().position(|w| *w == id(item)));
    let mut others = others.into_iter().peekable();
    for item in named {
        while let Some(other) = others.next_if(|other| was_ahead(other, &item)) {
            list.push(other);
        }
        list.push(item);
    }
    list.extend(others);
}

fn bad_directive(directive: &str) -> PatchError {
    PatchError::bad_request(format!("the value of {} must be a list", directive.trim_end_matches('/')))
}
