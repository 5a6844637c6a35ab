//! The changes of the requests: one list per kind with valid and invalid merge patches.

use serde_json::{Value, json};

use super::known;
use super::side::Kind;

/// The number of edits; shorter lists repeat.
pub const COUNT: usize = 40;

/// The edit with this number.
pub fn edit(kind: Kind, number: usize) -> Value {
    let mut all = vec![json!({})];
    all.extend(metadata());
    all.extend(match kind {
        Kind::ConfigMap => config_map(),
        Kind::Gadget => gadget(),
        Kind::ReplicaSet => replica_set(),
        Kind::Pod => pod(),
        Kind::PodTemplate => Vec::new(),
    });
    all[number % all.len()].clone()
}

/// The same edit as a JSON patch, for an object that has the required fields.
pub fn list(kind: Kind, number: usize) -> Value {
    let operations = match number % 9 {
        0 => json!([]),
        1 => json!([{"op": "test", "path": "/metadata/labels/a", "value": "1"},
                    {"op": "replace", "path": "/metadata/labels/a", "value": "2"}]),
        2 => json!([{"op": "remove", "path": "/metadata/labels/none"}]),
        3 => json!([{"op": "add", "path": "/metadata/annotations", "value": {"n": "y"}}]),
        4 => json!([{"op": "replace", "path": "/spec/replicas", "value": 2}]),
        5 => json!([{"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b"}]),
        6 => json!([{"op": "add", "path": "/metadata/finalizers", "value": ["test.example/one"]}]),
        // An unknown operation is a bad request only on newer servers and on the sandbox.
        7 => json!([{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/d"}]),
        _ => json!({"op": "add", "path": "/spec", "value": {}}),
    };
    if kind == Kind::Pod && number % 9 == 4 {
        return json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "web:3"}]);
    }
    operations
}

fn metadata() -> Vec<Value> {
    [
        json!({"labels": {"a": "1"}}),
        json!({"labels": {"a": "2"}}),
        json!({"labels": {"a": null}}),
        json!({"annotations": {"n": "x"}}),
        json!({"finalizers": ["test.example/one"]}),
        json!({"finalizers": ["test.example/two", "test.example/one"]}),
        json!({"finalizers": null}),
        json!({"finalizers": ["bad"]}),
        json!({"labels": {"bad key!": "x"}}),
        json!({"labels": {"a": "bad value!"}}),
        json!({"labels": {"a": 1}}),
        json!({"generation": 7}),
        json!({"creationTimestamp": null}),
        json!({"uid": "00000000-0000-0000-0000-000000000000"}),
        json!({"name": "other"}),
        json!({"namespace": "other"}),
        json!({"deletionTimestamp": "2020-01-01T00:00:00Z"}),
        json!({"deletionGracePeriodSeconds": 5}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}]}),
        json!({"ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1", "controller": true},
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "y", "uid": "2", "controller": true},
        ]}),
        json!({"generateName": "q-"}),
        json!({"annotations": {"n": null}, "labels": {"a": "1", "c": "1"}}),
    ]
    .into_iter()
    .map(|metadata| json!({"metadata": metadata}))
    .chain([json!({"kind": "Other"}), json!({"apiVersion": "v7"})])
    .collect()
}

fn config_map() -> Vec<Value> {
    vec![
        json!({"data": {"k": "1"}}),
        json!({"data": {"k": "2", "l": ""}}),
        json!({"data": {"k": 1}}),
        json!({"data": {"bad key": "x"}}),
        json!({"data": null}),
        json!({"unknown": {"x": 1}}),
        json!({"binaryData": {"b": "AAE="}}),
        json!({"binaryData": {"b": "not base64"}}),
        json!({"immutable": true}),
    ]
}

fn gadget() -> Vec<Value> {
    vec![
        json!({"spec": {"replicas": 2}}),
        json!({"spec": {"replicas": 3, "colour": "red"}}),
        json!({"spec": {"replicas": -1}}),
        json!({"spec": {"replicas": "x"}}),
        json!({"spec": {"replicas": 1.5}}),
        // Not a 32-bit number; see `known` for why it is not larger.
        json!({"spec": {"replicas": known::TOO_LARGE}}),
        json!({"spec": {"replicas": null}}),
        json!({"spec": {"colour": "far longer than the twenty characters there may be"}}),
        json!({"spec": {"unknown": 1}}),
        json!({"spec": null}),
        json!({"spec": {"shade": "dark"}}),
        json!({"spec": {"shade": "loud"}}),
        json!({"status": {"replicas": 1, "selector": "a=1"}}),
        json!({"status": {"note": "x", "unknown": 1}}),
        json!({"status": {"replicas": "x"}}),
    ]
}

fn replica_set() -> Vec<Value> {
    vec![
        json!({"spec": {"replicas": 2}}),
        json!({"spec": {"replicas": 3, "minReadySeconds": 5}}),
        json!({"spec": {"replicas": -1}}),
        json!({"spec": {"replicas": "x"}}),
        json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}}),
        json!({"spec": {"template": {"metadata": {"labels": {"app": "other"}}}}}),
        json!({"spec": {"template": {"spec": {"containers": null}}}}),
        json!({"spec": {"template": {"metadata": {"annotations": {"x": "y"}}}}}),
        json!({"spec": {"unknown": 1}}),
        json!({"status": {"replicas": 3, "observedGeneration": 1}}),
        json!({"status": {"replicas": 1, "readyReplicas": 2}}),
        json!({"status": {"replicas": -1}}),
    ]
}

fn pod() -> Vec<Value> {
    vec![
        json!({"spec": {"containers": [{"name": "main", "image": "web:2"}]}}),
        json!({"spec": {"containers": [{"name": "other", "image": "web:2"}]}}),
        json!({"spec": {"containers": [{"image": "web:2"}]}}),
        json!({"spec": {"nodeName": "silent"}}),
        json!({"spec": {"activeDeadlineSeconds": 10}}),
        json!({"spec": {"terminationGracePeriodSeconds": 7}}),
        json!({"spec": {"restartPolicy": "Never"}}),
        json!({"spec": {"restartPolicy": "Sometimes"}}),
        json!({"spec": {"containers": []}}),
        json!({"spec": {"unknown": 1}}),
        json!({"status": {"phase": "Running"}}),
        json!({"status": {"phase": "Failed", "reason": "x"}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        json!({"status": {"message": "x"}}),
    ]
}
