//! Converts live objects: a Deployment to an OrderedDeployment, a ReplicaSet to an OrderedReplicaSet, and
//! back.
//!
//! It uses raw JSON, so that unknown fields are kept. It sends no request.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::core::{DynamicObject, ObjectMeta};
use ordereddeployment_api::names::annotation;
use ordereddeployment_api::names::label::{self, POD_TEMPLATE_HASH as HASH};
use ordereddeployment_api::{Template, template_hash};
use serde_json::{Map, Value, json};

use super::objects::{Kind, annotation_of};
use super::template::LAST_APPLIED;
use crate::commands::convert::remove_ours;

const REVISION: &str = "deployment.kubernetes.io/revision";
const OF_THE_DEPLOYMENT_CONTROLLER: &str = "deployment.kubernetes.io/";
/// A finalizer that the API server refuses in pods: a ReplicaSet with it in its template adopts pods and
/// creates none.
const CLOSED: &str = "ordereddeployment.io/closed/until-all-pods-are-here";

/// The OrderedDeployment that adopts from these; its template is the given one or the Deployment's.
pub(crate) fn ordered(
    deployment: &DynamicObject,
    sources: &[String],
    template: Option<&Value>,
) -> DynamicObject {
    let mut object = renamed(deployment, Kind::OrderedDeployment);
    let mut names = vec![format!("deployments/{}", deployment.name_any())];
    names.extend(sources.iter().map(|name| format!("replicasets/{name}")));
    object.annotations_mut().extend([
        (annotation::ADOPTING.to_owned(), names.join(",")),
        (annotation::ADOPTED_GENERATION.to_owned(), generation(deployment)),
    ]);
    object.data = json!({"spec": deployment.data.get("spec")});
    if let Some(template) = template {
        object.data["spec"]["template"] = template.clone();
    }
    object
}

/// The UID and generation of the Deployment from which an OrderedDeployment was created.
pub(crate) fn generation(deployment: &DynamicObject) -> String {
    let uid = deployment.uid().unwrap_or_default();
    format!("{uid}/{}", deployment.metadata.generation.unwrap_or(0))
}

/// The Deployment, paused, so that it does nothing before its status is checked.
pub(crate) fn deployment(ordered: &DynamicObject) -> DynamicObject {
    let mut object = renamed(ordered, Kind::Deployment);
    object.labels_mut().insert(label::HANDING_BACK.to_owned(), "true".to_owned());
    let mut spec = ordered.data.get("spec").cloned().unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        remove_ours(spec);
        spec.insert("paused".to_owned(), true.into());
    }
    object.data = json!({"spec": spec});
    object
}

/// The OrderedReplicaSet for a ReplicaSet, with that template or its own. The controller adopts it.
pub(crate) fn set(replica_set: &DynamicObject, template: Option<&Value>) -> DynamicObject {
    let mut object = renamed(replica_set, Kind::OrderedReplicaSet);
    let revision = annotation_of(replica_set, REVISION).unwrap_or("0").to_owned();
    object.annotations_mut().retain(|key, _| !key.starts_with(OF_THE_DEPLOYMENT_CONTROLLER));
    object.annotations_mut().insert(annotation::REVISION.to_owned(), revision);
    object.data = json!({"spec": replica_set.data.get("spec")});
    if let Some(template) = template {
        let hash = replica_set.data.pointer(&format!("/spec/template/metadata/labels/{HASH}")).cloned();
        let mut template = template.clone();
        template["metadata"]["labels"][HASH] = hash.unwrap_or_default();
        object.data["spec"]["template"] = template;
    }
    object
}

/// The ReplicaSet for an OrderedReplicaSet. With a mark it is closed: it cannot create pods.
pub(crate) fn replica_set(set: &DynamicObject, replicas: i64, mark: Option<&str>) -> DynamicObject {
    let mut object = renamed(set, Kind::ReplicaSet);
    let annotations = object.annotations_mut();
    if let Some(revision) = annotations.remove(annotation::REVISION) {
        annotations.insert(REVISION.to_owned(), revision);
    }
    annotations.remove(annotation::SERVED);
    let mut spec = set.data.get("spec").cloned().unwrap_or_default();
    spec["replicas"] = replicas.into();
    if let Some(mark) = mark {
        annotations.insert(annotation::HANDING_BACK.to_owned(), mark.to_owned());
        let mut finalizers = finalizers(set).as_array().cloned().unwrap_or_default();
        finalizers.push(CLOSED.into());
        if !spec["template"]["metadata"].is_object() {
            spec["template"]["metadata"] = Map::new().into();
        }
        spec["template"]["metadata"]["finalizers"] = finalizers.into();
    }
    object.data = json!({"spec": spec});
    object
}

/// The merge patch that opens a closed ReplicaSet.
pub(crate) fn opened(set: &DynamicObject) -> Value {
    json!({
        "metadata": {"annotations": {annotation::HANDING_BACK: null}},
        "spec": {"template": {"metadata": {"finalizers": finalizers(set)}}},
    })
}

fn finalizers(set: &DynamicObject) -> Value {
    set.data.pointer("/spec/template/metadata/finalizers").cloned().unwrap_or_default()
}

/// Whether both have the same template, except for the hash.
pub(crate) fn same_template(first: &DynamicObject, second: &DynamicObject) -> bool {
    template(first).same_as(&template(second))
}

fn template(object: &DynamicObject) -> Template {
    Template::new(object.data.pointer("/spec/template").unwrap_or(&Value::Null)).without_hash()
}

/// An identifier of this attempt.
pub(crate) fn mark(ordered: &DynamicObject) -> String {
    let version = ordered.resource_version().unwrap_or_default();
    template_hash(&Template::new(&json!([ordered.uid(), version])), 0)
}

/// An object of that kind with the same name, labels and annotations.
fn renamed(object: &DynamicObject, kind: Kind) -> DynamicObject {
    let resource = kind.resource();
    let mut annotations: BTreeMap<String, String> = object.annotations().clone();
    for key in [annotation::ADOPTING, annotation::ADOPTED_GENERATION, annotation::HANDING_BACK] {
        annotations.remove(key);
    }
    if matches!(kind, Kind::Deployment | Kind::OrderedDeployment) {
        annotations.remove(REVISION);
    }
    if let Some(applied) = annotations.remove(LAST_APPLIED)
        && let Some(applied) = applied_as(&applied, &resource.api_version, &resource.kind)
    {
        annotations.insert(LAST_APPLIED.to_owned(), applied);
    }
    let mut labels = object.labels().clone();
    labels.remove(label::HANDING_BACK);
    let mut renamed = DynamicObject::new(&object.name_any(), &resource);
    renamed.metadata = ObjectMeta {
        name: Some(object.name_any()),
        namespace: object.namespace(),
        labels: Some(labels),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    renamed
}

/// The last applied configuration with the other kind, so that a later `kubectl apply` removes fields that
/// were removed from the manifest.
fn applied_as(text: &str, api_version: &str, kind: &str) -> Option<String> {
    let mut applied: Value = serde_json::from_str(text).ok()?;
    let object = applied.as_object_mut()?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    // kubectl ends it with a line break.
    serde_json::to_string(&applied).ok().map(|text| text + "\n")
}

#[cfg(test)]
mod tests;
