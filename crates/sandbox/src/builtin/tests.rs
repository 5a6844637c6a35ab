use serde_json::{Value, json};

use super::*;
use crate::resource::builtin;

fn pod(more: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "d"},
        "spec": {"containers": [{"name": "a", "image": "web:1"}]}});
    json_patch::merge(&mut pod, more);
    pod
}

fn errors(kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut object = object.clone();
    prepare(&builtin(kind), &mut object, old).iter().map(Cause::line).collect()
}

#[test]
fn defaults_once_given_stay() {
    let mut object = pod(&json!({}));
    assert!(prepare(&builtin("Pod"), &mut object, None).is_empty());
    let mut again = object.clone();
    assert_eq!(prepare(&builtin("Pod"), &mut again, Some(&object)), []);
    assert_eq!(again, object);
}

#[test]
fn only_images_of_a_pod_can_change() {
    let mut old = pod(&json!({}));
    assert!(prepare(&builtin("Pod"), &mut old, None).is_empty());
    let mut containers = old["spec"]["containers"].clone();
    containers[0]["image"] = json!("web:2");
    for (patch, wanted) in [
        (json!({"spec": {"containers": containers}}), None),
        (json!({"metadata": {"labels": {"a": "b"}}}), None),
        (json!({"spec": {"nodeName": "n1"}}), Some("spec: Forbidden: the sandbox changes only images")),
        (json!({"spec": {"activeDeadlineSeconds": 5}}), Some("spec: Forbidden: ")),
        (
            json!({"spec": {"containers": []}}),
            Some("spec.containers: Forbidden: pod updates may not add or remove containers"),
        ),
    ] {
        let mut new = old.clone();
        json_patch::merge(&mut new, &patch);
        let found = errors("Pod", &new, Some(&old));
        let is_as_wanted = match wanted {
            None => found.is_empty(),
            Some(wanted) => found.iter().any(|line| line.starts_with(wanted)),
        };
        assert!(is_as_wanted, "{patch}: {found:?}");
    }
}

#[test]
fn invalid_deployments_have_the_messages_of_the_api_server() {
    let deployment = |more: Value| {
        let mut object = json!({"metadata": {"name": "d"}, "spec": {
            "selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "a", "image": "web:1"}]}}}});
        json_patch::merge(&mut object, &more);
        object
    };
    let good = deployment(json!({}));
    assert_eq!(errors("Deployment", &good, None), [""; 0]);
    for (change, wanted) in [
        (
            json!({"spec": {"template": {"metadata": {"labels": {"app": "y"}}}}}),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"y\"}: `selector` does not match \
             template `labels`",
        ),
        (
            json!({"spec": {"template": {"spec": {"restartPolicy": "Never"}}}}),
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ),
        (
            json!({"spec": {"replicas": -1}}),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
    ] {
        assert_eq!(errors("Deployment", &deployment(change), None), [wanted]);
    }
    let moved = deployment(json!({"spec": {"selector": {"matchLabels": {"app": "x", "b": "c"}},
        "template": {"metadata": {"labels": {"b": "c"}}}}}));
    let found = errors("Deployment", &moved, Some(&good));
    assert!(found[0].ends_with("field is immutable"), "{found:?}");
}

#[test]
fn unknown_fields_of_builtins_are_dropped_and_reported() {
    let mut object =
        pod(&json!({"junk": 1, "spec": {"containers": [{"name": "a", "imag": "x", "image": null}],
        "priority": 3}}));
    let unknown = decode(&builtin("Pod"), &mut object).unwrap();
    assert_eq!(unknown, ["junk", "spec.containers[0].imag"]);
    assert_eq!(object["spec"], json!({"containers": [{"name": "a"}], "priority": 3}));
}

#[test]
fn events_and_config_maps_are_validated() {
    let event = |note: &str| {
        json!({"metadata": {"name": "e", "namespace": "d"}, "involvedObject": {"namespace": "d"},
            "message": note,
            "eventTime": "2024-01-01T00:00:00.000000Z", "reportingComponent": "a.b/c",
            "reportingInstance": "i",
            "action": "Do", "reason": "Because", "type": "Normal"})
    };
    let elsewhere = json!({"metadata": {"namespace": "d"}, "involvedObject": {"namespace": "e"}});
    assert_eq!(errors("Event", &event("hi"), None), [""; 0]);
    for (kind, object, wanted) in [
        ("Event", event(&"x".repeat(1025)), "message: Invalid value: \"\": can have at most 1024"),
        (
            "Event",
            elsewhere,
            "involvedObject.namespace: Invalid value: \"e\": does not match event.namespace",
        ),
        ("ConfigMap", json!({"data": {"a b": ""}}), "data[a b]: Invalid value: \"a b\": a valid config key"),
    ] {
        let found = errors(kind, &object, None);
        assert!(found.len() == 1 && found[0].starts_with(wanted), "{found:?} is not {wanted}");
    }
}
