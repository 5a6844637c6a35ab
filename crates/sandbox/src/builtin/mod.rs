//! Built-in kinds: decoding, defaults, and the checks that clients depend on. A real API server checks more.
//!
//! This module has the rules of each kind; `server` has the rules of `metadata`, which apply to every kind.
//! Other objects, such as owners or namespaces, are not checked here.

mod decoding;
mod defaults;
mod pods;
mod quantity;
mod workloads;

pub use decoding::decode;

use serde_json::{Map, Value, json};

use crate::object::text;
use crate::{resource::ResourceInfo, schema::Cause};

/// Sets the defaults of a built-in kind and validates the object; `old` is the stored object on an update.
pub fn prepare(info: &ResourceInfo, object: &mut Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (info.group.as_str(), info.kind.as_str()) {
        ("", "Pod") => pods::prepare(object, old, &mut causes),
        ("", "PodTemplate") => workloads::prepare_pod_template(object, &mut causes),
        ("apps", "Deployment") => workloads::prepare_deployment(object, old, &mut causes),
        ("apps", "ReplicaSet") => workloads::prepare_replica_set(object, old, &mut causes),
        ("", "ConfigMap") => check_keys(object, &mut causes),
        // In force at once. Nothing counts what is used: the server counts the pods on each create.
        ("", "ResourceQuota") => object["status"] = json!({"hard": object["spec"]["hard"], "used": {}}),
        ("", "Event") => check_event(object, &mut causes),
        _ => {}
    }
    causes
}

/// Keys are file names in pods that mount the object.
fn check_keys(map: &Value, causes: &mut Vec<Cause>) {
    for field in ["data", "binaryData"] {
        for key in map[field].as_object().into_iter().flat_map(Map::keys) {
            if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
                causes.push(Cause::invalid(&format!("{field}[{key}]"), &key.as_str().into(), detail));
            }
        }
    }
}

/// An event is in the namespace of its object, or in `default`. One with an `eventTime` has a reporter and a
/// reason.
fn check_event(event: &Value, causes: &mut Vec<Cause>) {
    let (own, other) = (text(&event["metadata"], "namespace"), text(&event["involvedObject"], "namespace"));
    if own != if other.is_empty() { "default" } else { other } {
        let detail = "does not match event.namespace";
        causes.push(Cause::invalid("involvedObject.namespace", &other.into(), detail));
    }
    if text(event, "eventTime").is_empty() {
        return;
    }
    for field in ["reportingComponent", "reportingInstance", "action", "reason"] {
        match text(event, field).len() {
            0 => causes.push(Cause::required(field, "")),
            1..=128 => {}
            _ => causes.push(Cause::invalid(field, &"".into(), "can have at most 128 characters")),
        }
    }
    if text(event, "message").len() > 1024 {
        causes.push(Cause::invalid("message", &"".into(), "can have at most 1024 characters"));
    }
}

#[cfg(test)]
mod tests;
