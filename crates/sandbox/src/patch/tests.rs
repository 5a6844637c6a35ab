use serde_json::{Value, json};

use super::*;
use crate::resource::builtins;

fn info(kind: &str) -> ResourceInfo {
    builtins().into_iter().find(|i| i.kind == kind).unwrap()
}

fn pod(patch: &Value) -> Value {
    let original = json!({
        "metadata": {"labels": {"a": "1"}, "finalizers": ["x", "y"]},
        "spec": {
            "containers": [
                {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                {"name": "proxy", "image": "proxy:1"}],
            "tolerations": [{"key": "old"}],
            "volumes": [{"name": "v", "emptyDir": {}}]},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    apply(PatchKind::Strategic, &info("Pod"), &original, patch).unwrap()
}

#[test]
fn strategic_lists_merge_by_their_keys() {
    let got = pod(&json!({
        "metadata": {"labels": {"a": null, "b": "2"}, "finalizers": ["z", "x"]},
        "spec": {
            "containers": [
                {"name": "web", "image": "web:2", "env": [{"name": "B", "value": "3"}, {"name": "A", "$patch": "delete"}]},
                {"name": "new", "image": "new:1"}],
            "tolerations": [{"key": "new"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]}}));
    assert_eq!(got["metadata"], json!({"labels": {"b": "2"}, "finalizers": ["x", "y", "z"]}));
    assert_eq!(
        got["spec"]["containers"],
        json!([{"name": "web", "image": "web:2", "env": [{"name": "B", "value": "3"}]},
            {"name": "proxy", "image": "proxy:1"}, {"name": "new", "image": "new:1"}])
    );
    assert_eq!(got["spec"]["tolerations"], json!([{"key": "new"}]));
    assert_eq!(got["status"]["conditions"].as_array().unwrap().len(), 2);
}

#[test]
fn directives_delete_replace_retain_and_order() {
    let containers = |patch: Value| -> Vec<String> {
        let got = pod(&json!({"spec": patch}));
        let all = got["spec"]["containers"].as_array().unwrap();
        all.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(containers(json!({"containers": [{"name": "web", "$patch": "delete"}]})), ["proxy"]);
    assert_eq!(containers(json!({"containers": [{"name": "only"}, {"$patch": "replace"}]})), ["only"]);
    assert_eq!(
        containers(json!({"$setElementOrder/containers": [{"name": "proxy"}, {"name": "web"}]})),
        ["proxy", "web"]
    );
    assert_eq!(
        containers(json!({"$setElementOrder/containers": [{"name": "new"}, {"name": "proxy"}],
            "containers": [{"name": "new"}]})),
        ["new", "web", "proxy"]
    );
    let got = pod(&json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"],
        "configMap": {"name": "c"}}]}, "metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}));
    assert_eq!(got["spec"]["volumes"], json!([{"name": "v", "configMap": {"name": "c"}}]));
    assert_eq!(got["metadata"]["finalizers"], json!(["y"]));
    let got = pod(&json!({"metadata": {"labels": {"$patch": "replace", "only": "me"}}}));
    assert_eq!(got["metadata"]["labels"], json!({"only": "me"}));
}

#[test]
fn directives_are_not_stored_in_new_fields() {
    let got = apply(
        PatchKind::Strategic,
        &info("Deployment"),
        &json!({}),
        &json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": null},
            "template": {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "a"}]}}}}),
    )
    .unwrap();
    assert_eq!(
        got,
        json!({"spec": {"strategy": {"type": "Recreate"}, "template": {"spec": {"containers": [{"name": "a"}]}}}})
    );
}

#[test]
fn the_ports_of_a_service_merge_by_port_and_those_of_a_container_by_container_port() {
    let patched = |kind: &str, original: Value, patch: Value| {
        apply(PatchKind::Strategic, &info(kind), &original, &patch).unwrap()
    };
    let service = patched(
        "Service",
        json!({"spec": {"ports": [{"port": 80, "name": "a"}]}}),
        json!({"spec": {"ports": [{"port": 80, "name": "b"}]}}),
    );
    assert_eq!(service["spec"]["ports"], json!([{"port": 80, "name": "b"}]));
    let pod = patched(
        "Pod",
        json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "a"}]}]}}),
        json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "b"}]}]}}),
    );
    assert_eq!(pod["spec"]["containers"][0]["ports"], json!([{"containerPort": 80, "name": "b"}]));
    let node = patched(
        "Node",
        json!({"spec": {"taints": [{"key": "a"}]}}),
        json!({"spec": {"taints": [{"key": "b"}]}}),
    );
    assert_eq!(node["spec"]["taints"], json!([{"key": "b"}]));
}

#[test]
fn an_item_without_its_key_cannot_be_merged_into_a_list() {
    let bad = json!({"spec": {"containers": [{"image": "x"}]}});
    let there = json!({"spec": {"containers": [{"name": "main"}]}});
    assert_eq!(apply(PatchKind::Strategic, &info("Pod"), &there, &bad).unwrap_err().code, 500);
    assert_eq!(apply(PatchKind::Strategic, &info("Pod"), &json!({}), &bad).unwrap(), bad);
}

#[test]
fn json_patches_are_atomic() {
    let original = json!({"a": 1});
    let run = |patch: Value| apply(PatchKind::Json, &info("Pod"), &original, &patch);
    assert_eq!(run(json!([{"op": "add", "path": "/b", "value": 2}])).unwrap(), json!({"a": 1, "b": 2}));
    assert_eq!(run(json!([{"op": "test", "path": "/a", "value": 2}])).unwrap_err().code, 422);
    assert_eq!(run(json!({"op": "x"})).unwrap_err().code, 400);
}

#[test]
fn merge_patches_replace_lists_and_drop_nulls() {
    let original = json!({"a": [1, 2], "b": {"c": 1, "d": 2}});
    let got = apply(PatchKind::Merge, &info("Pod"), &original, &json!({"a": [3], "b": {"c": null}})).unwrap();
    assert_eq!(got, json!({"a": [3], "b": {"d": 2}}));
}

#[test]
fn custom_resources_reject_strategic_merge_patches() {
    let custom = ResourceInfo { origin: Origin::Crd, ..info("Pod") };
    let refused = apply(PatchKind::Strategic, &custom, &json!({}), &json!({})).unwrap_err();
    assert_eq!(refused.code, 415);
    assert!(apply(PatchKind::Merge, &custom, &json!({}), &json!({"a": 1})).is_ok());
}

#[test]
fn a_json_patch_that_fails_after_a_move_to_the_root_is_rejected() {
    let pod = crate::resource::builtins().into_iter().find(|info| info.kind == "Pod").unwrap();
    let original = json!({"metadata": {"name": "a", "labels": {"app": "a"}}});
    let patch = json!([
        {"op": "move", "from": "/metadata", "path": ""},
        {"op": "add", "path": "/metadata/labels/app", "value": null},
    ]);
    assert_eq!(apply(PatchKind::Json, &pod, &original, &patch).unwrap_err().code, 422);
}
