//! Decodes objects into the Kubernetes types. A value of the wrong type is a bad request; an unknown field is
//! dropped.
//!
//! Values are not rewritten: numbers and times keep the form that the client sent.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        coordination::v1::Lease,
        core::v1::{
            ConfigMap, Event, Namespace, Node, Pod, PodTemplate, ResourceQuota, Secret, Service,
            ServiceAccount,
        },
        policy::v1::PodDisruptionBudget,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::resource::{Origin, ResourceInfo};

/// Drops the fields that the type of a built-in kind does not have, and returns their paths. The error is the
/// message of a 400 for an object that does not decode. Custom resources remain unchanged.
pub fn decode(info: &ResourceInfo, object: &mut Value) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    if let Some(known) = typed(info, object)? {
        keep_known(object, &known, "", &mut unknown);
    }
    Ok(unknown)
}

/// The object as its type represents it.
fn typed(info: &ResourceInfo, object: &Value) -> Result<Option<Value>, String> {
    if info.origin == Origin::Crd {
        return Ok(None);
    }
    let known = match (info.group.as_str(), info.kind.as_str()) {
        ("", "Namespace") => through::<Namespace>(object),
        ("", "Node") => through::<Node>(object),
        ("", "Pod") => through::<Pod>(object),
        ("", "PodTemplate") => through::<PodTemplate>(object),
        ("", "Event") => through::<Event>(object),
        ("", "ConfigMap") => through::<ConfigMap>(object),
        ("", "Secret") => through::<Secret>(object),
        ("", "ServiceAccount") => through::<ServiceAccount>(object),
        ("", "ResourceQuota") => through::<ResourceQuota>(object),
        ("", "Service") => through::<Service>(object),
        ("apps", "Deployment") => through::<Deployment>(object),
        ("apps", "ReplicaSet") => through::<ReplicaSet>(object),
        ("coordination.k8s.io", "Lease") => through::<Lease>(object),
        ("policy", "PodDisruptionBudget") => through::<PodDisruptionBudget>(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => through::<CustomResourceDefinition>(object),
        _ => return Ok(None),
    };
    known.map(Some).map_err(|err| {
        let (kind, version) = (&info.kind, &info.version);
        format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {err}")
    })
}

fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, String> {
    let typed = T::deserialize(object).map_err(|err| format!("json: cannot unmarshal: {err}"))?;
    serde_json::to_value(typed).map_err(|err| err.to_string())
}

fn keep_known(value: &mut Value, known: &Value, path: &str, unknown: &mut Vec<String>) {
    match (value, known) {
        (Value::Object(map), Value::Object(known)) => map.retain(|key, inner| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match known.get(key) {
                Some(known) => keep_known(inner, known, &path, unknown),
                // A known field that is null is absent here too, and has no effect.
                None if inner.is_null() => return false,
                None => {
                    unknown.push(path);
                    return false;
                }
            }
            true
        }),
        (Value::Array(list), Value::Array(known)) => {
            for (i, (inner, known)) in list.iter_mut().zip(known).enumerate() {
                keep_known(inner, known, &format!("{path}[{i}]"), unknown);
            }
        }
        _ => {}
    }
}
