//! Built-in kinds: decoding into their types, defaults, validation.
//!
//! The rules of `metadata` that hold for every kind are the server's; here are those of each kind.
//!
//! Never does: look at other objects; whether an owner or a namespace exists is not asked here.

mod container_defaults;
mod containers;
mod decoding;
pub(crate) mod names;
mod pods;
mod quantity;
mod small;
mod stored;
mod workloads;

pub use decoding::{decode, decode_error};

use serde_json::{Map, Value};

use crate::{resource::ResourceInfo, schema::Cause};

/// Fills in the defaults of a built-in kind and validates it; `old` is the stored object on an update.
pub fn prepare(info: &ResourceInfo, object: &mut Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (info.group.as_str(), info.kind.as_str()) {
        ("", "Pod") => pods::prepare(object, old, &mut causes),
        ("", "PodTemplate") => workloads::prepare_pod_template(object, &mut causes),
        ("apps", "Deployment") => workloads::prepare_deployment(object, old, &mut causes),
        ("apps", "ReplicaSet") => workloads::prepare_replica_set(object, old, &mut causes),
        ("", "Namespace") => small::check_label_name(object, &mut causes),
        ("", "Node") => small::check_node(object, &mut causes),
        ("", "Service") => small::prepare_service(object, &mut causes),
        ("", "Secret") => small::prepare_secret(object, &mut causes),
        ("", "ConfigMap") => small::check_keys(object, &["data", "binaryData"], &mut causes),
        ("", "Event") => small::check_event(object, &mut causes),
        ("events.k8s.io", "Event") if old.is_none() => small::check_new_event(object, &mut causes),
        ("coordination.k8s.io", "Lease") => small::check_lease(object, &mut causes),
        ("policy", "PodDisruptionBudget") => small::prepare_budget(object, old, &mut causes),
        _ => {}
    }
    causes
}

/// The object at a key, made if absent or null.
fn entry<'a>(parent: &'a mut Value, key: &str) -> &'a mut Value {
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
fn fill(parent: &mut Value, key: &str, default: impl Into<Value>) {
    if parent.get(key).is_none_or(Value::is_null)
        && let Some(map) = parent.as_object_mut()
    {
        map.insert(key.to_owned(), default.into());
    }
}

/// The items of a list, for changing.
fn items<'a>(parent: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    parent.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

fn list<'a>(parent: &'a Value, key: &str) -> &'a [Value] {
    parent.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(parent: &'a Value, key: &str) -> &'a str {
    parent.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn not_negative(parent: &Value, key: &str, path: &str, causes: &mut Vec<Cause>) {
    if parent[key].as_i64().is_some_and(|n| n < 0) {
        causes.push(Cause::invalid(
            &format!("{path}.{key}"),
            &parent[key],
            "must be greater than or equal to 0",
        ));
    }
}

fn one_of(value: &Value, field: &str, allowed: &[&str], causes: &mut Vec<Cause>) {
    if value.as_str().is_some_and(|v| !allowed.contains(&v)) {
        causes.push(Cause::not_supported(field, value, allowed));
    }
}

#[cfg(test)]
mod tests;
