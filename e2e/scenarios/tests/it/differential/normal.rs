//! Normalizes responses and events of two servers: UIDs and versions become ordinal numbers, times become a
//! placeholder, and generated names become their index.

use serde_json::{Map, Value, json};

use super::known;
use super::side::{Answer, Kind, Side};

/// A response in normalized form.
pub fn answer(side: &Side, kind: Kind, answer: &Answer) -> Value {
    let body = &answer.body;
    let mut shown = if body.get("kind") == Some(&json!("Status")) {
        status(kind, body)
    } else if body.get("items").is_some() {
        list(side, kind, body)
    } else {
        object(side, kind, body)
    };
    names(side, &mut shown);
    json!({"code": answer.code, "body": shown})
}

/// The error without its message, which differs between versions.
fn status(kind: Kind, body: &Value) -> Value {
    let details = body.get("details").cloned().unwrap_or_default();
    let mut causes: Vec<Value> = details
        .get("causes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|cause| json!([cause.get("reason"), cause.get("field")]))
        .collect();
    causes.sort_by_key(ToString::to_string);
    causes.dedup();
    if !known::compares_causes(kind) {
        causes.clear();
    }
    let of = |key: &str| details.get(key).cloned().unwrap_or_default();
    json!({
        "status": body.get("status"), "reason": body.get("reason"), "code": body.get("code"),
        "name": of("name"), "kind": of("kind"), "group": of("group"), "causes": causes,
        "retryAfterSeconds": of("retryAfterSeconds"),
    })
}

fn list(side: &Side, kind: Kind, body: &Value) -> Value {
    let items: Vec<Value> = body
        .get("items")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|item| object(side, kind, item))
        .collect();
    json!({
        "kind": body.get("kind"), "apiVersion": body.get("apiVersion"), "items": items,
        "continues": body.pointer("/metadata/continue").is_some_and(|token| token != ""),
        "remaining": body.pointer("/metadata/remainingItemCount"),
    })
}

/// An object in normalized form.
pub fn object(side: &Side, kind: Kind, object: &Value) -> Value {
    let mut object = object.clone();
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("selfLink");
        number(metadata, "resourceVersion", |version| {
            side.versions.get(&uid).and_then(|all| all.iter().position(|one| one == version))
        });
        number(metadata, "uid", |uid| side.uids.iter().position(|one| one == uid));
        for time in ["creationTimestamp", "deletionTimestamp"] {
            if let Some(time) = metadata.get_mut(time).filter(|time| time.is_string()) {
                *time = "a time".into();
            }
        }
    }
    // The time of the only condition that a server writes by itself, on a binding.
    for condition in
        object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
    {
        if let Some(time) = condition.get_mut("lastTransitionTime").filter(|time| time.is_string()) {
            *time = "a time".into();
        }
    }
    known::strip(kind, &mut object);
    object
}

fn number(metadata: &mut Map<String, Value>, key: &str, ordinal: impl Fn(&str) -> Option<usize>) {
    if let Some(value) = metadata.get_mut(key) {
        let found = value.as_str().and_then(ordinal);
        *value = found.map_or_else(|| "unheard of".into(), |number| json!(format!("number {number}")));
    }
}

/// Replaces generated names and the namespace by ordinal numbers, everywhere.
pub fn names(side: &Side, value: &mut Value) {
    match value {
        Value::String(text) => {
            for (kind, made) in &side.generated {
                for (index, name) in made.iter().enumerate() {
                    *text = text.replace(name.as_str(), &format!("made-{kind:?}-{index}"));
                }
            }
            *text = text.replace(side.namespace.as_str(), "the-namespace");
            for (index, uid) in side.uids.iter().enumerate() {
                *text = text.replace(uid.as_str(), &format!("uid-{index}"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| names(side, item)),
        Value::Object(map) => map.values_mut().for_each(|item| names(side, item)),
        _ => {}
    }
}

/// The differences of two values: the first few paths with both values.
pub fn difference(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => {
            let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let of = |map: &Map<String, Value>| map.get(key).cloned();
                match (of(one), of(other)) {
                    (Some(one), Some(other)) => difference(&format!("{path}/{key}"), &one, &other, found),
                    (one, other) => found.push(format!("{path}/{key}: sandbox {one:?}, real {other:?}")),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                difference(&format!("{path}/{index}"), one, other, found);
            }
        }
        (one, other) if one == other => {}
        (one, other) => found.push(format!("{path}: sandbox {one}, real {other}")),
    }
}
