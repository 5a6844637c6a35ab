//! The objects that a decision creates: a set with a template, a pod of a set.
//!
//! Pure construction: the caller passes names, hashes and revisions. No field of a template is dropped.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use ordereddeployment_api::names::{annotation, label};
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet, OrderedReplicaSetSpec, Template};
use serde_json::{Map, Value, json};

use crate::family::Family;

/// A new set of the deployment's current template.
#[must_use]
pub fn new_set(
    deployment: &OrderedDeployment,
    name: &str,
    hash: &str,
    revision: i64,
    replicas: i32,
) -> OrderedReplicaSet {
    let spec = &deployment.spec;
    let template = spec.template.with_hash(hash);
    let mut annotations = BTreeMap::from([
        (annotation::REVISION.to_owned(), revision.to_string()),
        (annotation::SERVED.to_owned(), "0".to_owned()),
    ]);
    let own = deployment.metadata.annotations.as_ref();
    if let Some(cause) = own.and_then(|annotations| annotations.get(annotation::CHANGE_CAUSE)) {
        annotations.insert(annotation::CHANGE_CAUSE.to_owned(), cause.clone());
    }
    let owner = deployment
        .controller_owner_ref(&())
        .map(|owner| OwnerReference { block_owner_deletion: Some(true), ..owner });
    OrderedReplicaSet {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(template.labels()),
            annotations: Some(annotations),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: OrderedReplicaSetSpec {
            replicas,
            min_ready_seconds: spec.min_ready_seconds,
            selector: spec.selector.with_label(label::POD_TEMPLATE_HASH, hash),
            template,
        },
        status: None,
    }
}

/// A new pod of a set. `template` is the set's own, with the `pod-template-hash`. Raw JSON, so that the spec
/// reaches the API server as the user wrote it.
#[must_use]
pub fn new_pod(
    family: Family,
    set_name: &str,
    set_uid: &str,
    template: &Template,
    name: &str,
    namespace: &str,
) -> Value {
    let template = template.value();
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    if family == Family::Plain {
        // The ReplicaSet controller lets the API server make the name. Tools group pods by this field.
        metadata.insert("generateName".to_owned(), json!(format!("{set_name}-")));
    }
    metadata.insert("namespace".to_owned(), json!(namespace));
    for key in ["labels", "annotations", "finalizers"] {
        let value = template.get("metadata").and_then(|metadata| metadata.get(key));
        if let Some(value) = value.filter(|value| !value.is_null()) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let owner = json!({
        "apiVersion": family.api_version(),
        "kind": family.set_kind(),
        "name": set_name,
        "uid": set_uid,
        "controller": true,
        "blockOwnerDeletion": true,
    });
    metadata.insert("ownerReferences".to_owned(), json!([owner]));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
    })
}

/// The request that creates an object, unless it has fields that the API server does not know. kube has no
/// parameter for it; API servers before 1.25 drop such fields. With `dry_run` the object is only validated.
///
/// # Errors
/// The path is no valid part of an address.
pub fn strict_create(path: &str, object: &Value, dry_run: bool) -> http::Result<http::Request<Vec<u8>>> {
    let dry_run = if dry_run { "&dryRun=All" } else { "" };
    http::Request::post(format!("{path}?fieldValidation=Strict{dry_run}"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes())
}

/// The set's `pod-template-hash`.
pub(crate) fn hash_of(set: &OrderedReplicaSet) -> Option<&str> {
    set.metadata.labels.as_ref()?.get(label::POD_TEMPLATE_HASH).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use ordereddeployment_api::OrderedDeployment;
    use serde_json::{Value, json};

    use super::{Family, Template, new_pod, new_set};

    fn deployment(template: &Value) -> OrderedDeployment {
        serde_json::from_value(json!({
            "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "d1",
                         "annotations": {"kubernetes.io/change-cause": "new image", "other": "x"}},
            "spec": {"replicas": 3, "minReadySeconds": 7, "selector": {"matchLabels": {"app": "web"}},
                     "template": template},
        }))
        .unwrap()
    }

    fn template() -> Value {
        json!({
            "metadata": {"labels": {"app": "web", "tier": "front"}, "annotations": {"a": "b"},
                         "finalizers": ["example.com/f"], "creationTimestamp": null, "newField": 1},
            "spec": {"containers": [{"name": "c", "futureField": {"deep": true}}], "anotherFutureField": [1]},
        })
    }

    #[test]
    fn a_new_set_has_hash_revision_cause_and_owner() {
        let deployment = deployment(&template());
        let set = new_set(&deployment, "web-h", "h", 4, 2);
        let json = serde_json::to_value(&set).unwrap();
        assert_eq!(
            json["metadata"],
            json!({
                "name": "web-h", "namespace": "shop",
                "labels": {"app": "web", "tier": "front", "pod-template-hash": "h"},
                "annotations": {"ordereddeployment.io/revision": "4", "ordereddeployment.io/served": "0",
                "kubernetes.io/change-cause": "new image"},
                "ownerReferences": [{"apiVersion": "ordereddeployment.io/v1alpha1",
                "kind": "OrderedDeployment",
                                     "name": "web", "uid": "d1", "controller": true,
                                     "blockOwnerDeletion": true}],
            })
        );
        assert_eq!(json["spec"]["replicas"], 2);
        assert_eq!(json["spec"]["minReadySeconds"], 7);
        assert_eq!(
            json["spec"]["selector"],
            json!({"matchLabels": {"app": "web", "pod-template-hash": "h"}})
        );
        assert_eq!(json["spec"]["template"]["metadata"]["labels"]["pod-template-hash"], "h");
        assert_eq!(Family::Ordered.deployment_of(&set.metadata).unwrap().uid, "d1");
        assert!(set.spec.template.without_hash().same_as(&deployment.spec.template));
    }

    #[test]
    fn a_new_pod_has_every_field_of_the_template() {
        let set = new_set(&deployment(&template()), "web-h", "h", 4, 2);
        let pod = new_pod(Family::Ordered, "web-h", "s1", &set.spec.template, "web-h-x", "shop");
        assert_eq!(
            pod["metadata"],
            json!({
                "name": "web-h-x", "namespace": "shop",
                "labels": {"app": "web", "tier": "front", "pod-template-hash": "h"},
                "annotations": {"a": "b"}, "finalizers": ["example.com/f"],
                "ownerReferences": [{"apiVersion": "ordereddeployment.io/v1alpha1",
                "kind": "OrderedReplicaSet",
                                     "name": "web-h", "uid": "s1", "controller": true,
                                     "blockOwnerDeletion": true}],
            })
        );
        assert_eq!(pod["spec"], template()["spec"]);
    }

    #[test]
    fn a_template_without_labels_compares_equal_after_the_round_trip() {
        for template in [json!({"spec": {}}), json!({"metadata": null, "spec": {}})] {
            let deployment = deployment(&template);
            let set = new_set(&deployment, "web-h", "h", 1, 1);
            assert_eq!(set.spec.template.labels()["pod-template-hash"], "h");
            assert!(set.spec.template.without_hash().same_as(&deployment.spec.template), "{template}");
        }
    }

    #[test]
    fn a_template_of_an_unexpected_type_is_not_changed() {
        let odd = Template::new(&json!({"metadata": "text"}));
        assert_eq!(odd.without_hash(), odd);
    }
}
