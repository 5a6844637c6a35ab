//! The `CustomResourceDefinition`s, made from the types.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use crate::{OrderedDeployment, OrderedReplicaSet};

/// Deleting a definition deletes all its objects, and the garbage collector their pods. Helm keeps it where
/// it would remove it with a release (<https://helm.sh/docs/howto/charts_tips_and_tricks/>), and Argo CD does
/// not prune it (<https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/>).
const KEPT: [(&str, &str); 2] =
    [("argocd.argoproj.io/sync-options", "Prune=false"), ("helm.sh/resource-policy", "keep")];

/// The definitions of both kinds, in the order in which they should be installed.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![finished(OrderedDeployment::crd()), finished(OrderedReplicaSet::crd())]
}

/// A definition as YAML, as it is committed in the chart.
#[must_use]
pub fn to_yaml(crd: &CustomResourceDefinition) -> String {
    // A definition made of plain structs always serializes.
    serde_saphyr::to_string(crd).unwrap_or_default()
}

/// What the generator leaves to do.
fn finished(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let Ok(mut value) = serde_json::to_value(&crd) else { return crd };
    visit(&mut value);
    let mut finished: CustomResourceDefinition = serde_json::from_value(value).unwrap_or(crd);
    let kept = KEPT.map(|(key, value)| (key.to_owned(), value.to_owned()));
    finished.metadata.annotations = Some(BTreeMap::from(kept));
    finished
}

fn visit(value: &mut Value) {
    match value {
        Value::Object(object) => {
            // The generator marks every optional field with it. Without it a server prunes a null, or puts
            // the default in its place, before the rules run: in a rule, `has()` is then the only question to
            // ask.
            if object.get("nullable") == Some(&Value::Bool(true)) {
                object.remove("nullable");
            }
            if object.contains_key("x-kubernetes-int-or-string") {
                // The generator leaves two empty schemas, which say nothing.
                object.remove("anyOf");
            }
            // Kubernetes 1.20 takes it for null, and refuses the definition.
            if object.get("default").is_some_and(|default| default == "") {
                object.remove("default");
            }
            // Servers as old as 1.20 do not check the format, and store what our types cannot hold: one such
            // object would end every list of them all.
            if object.get("format").is_some_and(|format| format == "int32") {
                object.entry("minimum").or_insert_with(|| i32::MIN.into());
                object.entry("maximum").or_insert_with(|| i32::MAX.into());
            }
            object.values_mut().for_each(visit);
        }
        Value::Array(items) => items.iter_mut().for_each(visit),
        _ => {}
    }
}
