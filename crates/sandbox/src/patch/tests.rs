use serde_json::{Value, json};

use super::*;

fn pod(patch: &Value) -> Value {
    let original = json!({
        "metadata": {"labels": {"a": "1"}, "finalizers": ["x", "y"]},
        "spec": {
            "containers": [
                {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B",
                "value": "2"}]},
                {"name": "proxy", "ports": [{"containerPort": 80, "name": "a"}]}],
            "tolerations": [{"key": "old"}],
            "volumes": [{"name": "v", "emptyDir": {}}]},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    apply(PatchKind::Strategic, &original, patch).unwrap()
}

#[test]
fn strategic_lists_merge_by_their_keys() {
    let got = pod(&json!({
        "metadata": {"labels": {"a": null, "b": "2"}, "finalizers": ["z", "x"]},
        "spec": {
            "$setElementOrder/containers": [{"name": "web"}, {"name": "proxy"}, {"name": "new"}],
            "containers": [
                {"name": "web", "image": "web:2", "env": [{"name": "B", "value": "3"}, {"name": "A",
                "$patch": "delete"}]},
                {"name": "proxy", "ports": [{"containerPort": 80, "name": "b"}]},
                {"name": "new", "image": "new:1"}],
            "tolerations": [{"key": "new"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other",
        "status": "True"}]}}));
    assert_eq!(got["metadata"], json!({"labels": {"b": "2"}, "finalizers": ["x", "y", "z"]}));
    assert_eq!(
        got["spec"]["containers"],
        json!([{"name": "web", "image": "web:2", "env": [{"name": "B", "value": "3"}]},
            {"name": "proxy", "ports": [{"containerPort": 80, "name": "b"}]}, {"name": "new",
            "image": "new:1"}])
    );
    assert_eq!(got["spec"]["tolerations"], json!([{"key": "new"}]));
    assert_eq!(got["status"]["conditions"].as_array().unwrap().len(), 2);
}

#[test]
fn directives_delete_and_are_not_stored() {
    let got = pod(&json!({
        "metadata": {"labels": {"$patch": "delete"}, "$deleteFromPrimitiveList/finalizers": ["x"]},
        "spec": {
            "containers": [{"name": "web", "$patch": "delete"}],
            "volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}],
            "new": {"$retainKeys": ["a"], "a": "b", "c": null}}}));
    assert_eq!(got["metadata"], json!({"finalizers": ["y"]}));
    assert_eq!(got["spec"]["containers"].as_array().unwrap().len(), 1);
    assert_eq!(got["spec"]["volumes"], json!([{"name": "v", "configMap": {"name": "c"}}]));
    assert_eq!(got["spec"]["new"], json!({"a": "b"}));
    let replace = json!({"metadata": {"$patch": "replace"}});
    assert_eq!(apply(PatchKind::Strategic, &json!({}), &replace).unwrap_err().code, 400);
}

#[test]
fn a_failed_json_patch_has_the_code_of_its_error() {
    let original = json!({"metadata": {"name": "a", "labels": {"app": "a"}}});
    let run = |patch: Value| apply(PatchKind::Json, &original, &patch);
    assert_eq!(
        run(json!([{"op": "add", "path": "/b", "value": 2}])).unwrap(),
        json!({"metadata": {"name": "a", "labels": {"app": "a"}}, "b": 2})
    );
    assert_eq!(run(json!([{"op": "test", "path": "/metadata/name", "value": 2}])).unwrap_err().code, 422);
    assert_eq!(run(json!({"op": "x"})).unwrap_err().code, 400);
    let to_the_root = json!([
        {"op": "move", "from": "/metadata", "path": ""},
        {"op": "add", "path": "/metadata/labels/app", "value": null},
    ]);
    assert_eq!(run(to_the_root).unwrap_err().code, 422);
}
