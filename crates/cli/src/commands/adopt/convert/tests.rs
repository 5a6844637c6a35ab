use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::{deployment, opened, ordered, replica_set, same_template, set};

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn spec() -> Value {
    json!({
        "replicas": 3, "minReadySeconds": 5, "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": "Recreate"}, "revisionHistoryLimit": 4,
        "template": {"metadata": {"labels": {"app": "web"}, "creationTimestamp": null},
                     "spec": {"containers": [], "futureField": {"deep": [1]}}},
    })
}

fn web() -> DynamicObject {
    let applied = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{}}"#;
    object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "d", "generation": 7, "resourceVersion": "9",
            "labels": {"team": "a"},
            "annotations": {"deployment.kubernetes.io/revision": "3", "note": "kept",
                            "kubectl.kubernetes.io/last-applied-configuration": applied},
            "managedFields": [],
        },
        "spec": spec(), "status": {"replicas": 3},
    }))
}

#[test]
fn a_deployment_is_converted_with_its_whole_spec_and_the_names_of_its_sources() {
    let converted = serde_json::to_value(ordered(&web(), &["web-5d9c".to_owned()], None)).unwrap();
    assert_eq!(
        converted,
        json!({
            "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
            "metadata": {
                "name": "web", "namespace": "shop", "labels": {"team": "a"},
                "annotations": {
                    "note": "kept",
                    "ordereddeployment.io/adopting": "deployments/web,replicasets/web-5d9c",
                    "ordereddeployment.io/adopted-generation": "d/7",
                    "kubectl.kubernetes.io/last-applied-configuration":
                        "{\"apiVersion\":\"ordereddeployment.io/v1alpha1\",\"kind\":\"OrderedDeployment\",\
                         \"metadata\":{\"name\":\"web\"},\"spec\":{}}\n",
                },
            },
            "spec": spec(),
        })
    );
}

#[test]
fn converted_back_it_is_paused_and_has_no_fields_of_ours() {
    let mut there = ordered(&web(), &[], None);
    there.data["spec"]["deletionOrder"] = json!({"unavailablePods": "InOrder"});
    there.data["spec"]["podDeletion"] = "Evict".into();
    there.data["spec"]["progressDeadlineAction"] = "Abort".into();
    there.data["spec"]["strategy"]["pausePoints"] = json!([{"name": "canary", "afterUpdated": 1}]);
    let mut expected = spec();
    expected["paused"] = true.into();
    let back = deployment(&there);
    assert_eq!(back.data, json!({"spec": expected}));
    assert_eq!(back.metadata.labels.unwrap()["ordereddeployment.io/handing-back"], "true");
    let annotations = back.metadata.annotations.unwrap();
    assert_eq!(annotations.len(), 2, "{annotations:?}");
}

#[test]
fn a_replica_set_keeps_its_hash_and_revision_in_both_directions() {
    let mut spec = spec();
    spec["selector"]["matchLabels"]["pod-template-hash"] = "5d9c".into();
    spec["template"]["metadata"]["labels"]["pod-template-hash"] = "5d9c".into();
    let original = object(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": "web-5d9c", "uid": "r", "labels": {"pod-template-hash": "5d9c"},
            "annotations": {"deployment.kubernetes.io/revision": "3", "kubernetes.io/change-cause": "why",
                            "deployment.kubernetes.io/desired-replicas": "3"},
        },
        "spec": spec,
    }));
    let there = set(&original, None);
    let annotations = there.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["ordereddeployment.io/revision"], "3");
    assert_eq!(annotations.len(), 2, "{annotations:?}");
    assert!(same_template(&there, &web()));
    let back = replica_set(&there, 3, None);
    assert_eq!(back.data, original.data);
    assert_eq!(back.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"], "3");
}

#[test]
fn an_opened_replica_set_has_its_original_finalizers() {
    for finalizers in [Value::Null, json!(["example.com/own"])] {
        let mut web = web();
        web.data["spec"]["template"]["metadata"]["finalizers"] = finalizers.clone();
        let there = set(&web, None);
        let closed = replica_set(&there, 3, Some("m"));
        let written = closed.data["spec"]["template"]["metadata"]["finalizers"].as_array().unwrap().clone();
        let last = written.last().unwrap().as_str().unwrap();
        assert_eq!(last.matches('/').count(), 2, "an API server would accept {last}");
        assert_eq!(written.len(), finalizers.as_array().map_or(1, |own| own.len() + 1));
        assert_eq!(opened(&there)["spec"]["template"]["metadata"]["finalizers"], finalizers);
    }
}
