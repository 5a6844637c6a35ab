//! Built-in kinds: decoding, defaults and validation.
//!
//! This module has the rules of each kind; `server` has the rules of `metadata`, which apply to every kind. Other
//! objects, such as owners or namespaces, are not checked here.

mod container_defaults;
mod containers;
mod decoding;
mod fields;
pub(crate) mod names;
mod pods;
mod quantity;
mod small;
mod stored;
mod workloads;

pub use decoding::decode;

use serde_json::Value;

use crate::{resource::ResourceInfo, schema::Cause};

/// Sets the defaults of a built-in kind and validates the object; `old` is the stored object on an update.
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

#[cfg(test)]
mod tests;
