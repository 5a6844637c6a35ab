//! The `CustomResourceDefinition`s, made from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use crate::{OrderedDeployment, OrderedReplicaSet};

/// The definitions of both kinds, in the order in which they should be installed.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![without_nullable(OrderedDeployment::crd()), without_nullable(OrderedReplicaSet::crd())]
}

/// A definition as YAML, as it is committed in the chart.
#[must_use]
pub fn to_yaml(crd: &CustomResourceDefinition) -> String {
    // A definition made of plain structs always serializes.
    serde_saphyr::to_string(crd).unwrap_or_default()
}

/// Takes `nullable` out of the schema. The generator marks every optional field with it; without it a server prunes a
/// null, or puts the default in its place, before the rules run: in a rule, `has()` is then the only question to ask.
fn without_nullable(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    fn visit(value: &mut Value) {
        match value {
            Value::Object(object) => {
                if object.get("nullable") == Some(&Value::Bool(true)) {
                    object.remove("nullable");
                }
                if object.contains_key("x-kubernetes-int-or-string") {
                    // The generator leaves two empty schemas, which say nothing.
                    object.remove("anyOf");
                }
                object.values_mut().for_each(visit);
            }
            Value::Array(items) => items.iter_mut().for_each(visit),
            _ => {}
        }
    }
    let Ok(mut value) = serde_json::to_value(&crd) else { return crd };
    visit(&mut value);
    serde_json::from_value(value).unwrap_or(crd)
}
