//! Random requests: for each kind a table of valid and invalid changes, and the ways to send them.

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::side::{JSON, Kind, MERGE, PATCH, STRATEGIC, Step};
use crate::policies::merged;

const LABELS: [&str; 8] = ["a=1", "a=2", "a!=1", "a+in+(1,2)", "!a", "a", "a=,", "x/y/z=1"];
const FIELDS: [&str; 4] = ["metadata.name=a", "metadata.name!=a", "status.phase=Pending", "spec.colour=red"];
/// Not a 32-bit number. The JSON decoder of 1.20 accepts some larger ones, such as 5000000000, modulo 2^32.
const TOO_LARGE: i64 = 3_000_000_000;

fn any<T: Clone>(rng: &mut StdRng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())].clone()
}

/// A request for one of few objects: whether it exists depends on the previous requests.
pub fn step(rng: &mut StdRng) -> Step {
    let kind =
        any(rng, &[Kind::ConfigMap, Kind::Gadget, Kind::Gadget, Kind::ReplicaSet, Kind::Pod, Kind::Pod]);
    let name = any(rng, &["a", "a", "a", "b", "c"]);
    let label = format!("{kind:?} {name}");
    let (version, uid) = (format!("{{resourceVersion:{label}}}"), format!("{{uid:{label}}}"));
    let old = format!("{{resourceVersion:old {label}}}");
    let version = any(rng, &[version.clone(), version, String::new(), old, "garbage".to_owned()]);
    let part = any(rng, &["", "", "", "/status", "/scale"]);
    let as_if = if rng.random_bool(0.1) { "?dryRun=All" } else { "" };
    let whole = merged(kind.named(name), &edit(rng, kind));
    let one = |method| Step::new(&label, kind, method, &format!("/{name}{part}{as_if}"));
    let of = |method, rest: &str| Step::new(&label, kind, method, &format!("/{name}{rest}"));
    let versioned = |object| merged(object, &json!({"metadata": {"resourceVersion": version}}));
    match rng.random_range(0..24) {
        0..4 => Step::new(&label, kind, "POST", as_if).with(kind.named(name)),
        4..6 => Step::new(&label, kind, "POST", as_if).with(whole),
        6..11 => one("PUT").with(versioned(whole)),
        11..13 => one("PATCH").of(MERGE).with(edit(rng, kind)),
        13..15 => {
            // For a null in an absent map, 1.20 stores an empty string, newer versions store nothing.
            let edit = Some(edit(rng, kind)).filter(|edit| !edit["metadata"].to_string().contains("null"));
            one("PATCH").of(STRATEGIC).with(edit.unwrap_or_default())
        }
        15..17 => one("PATCH").of(PATCH).with(any(rng, &operations(kind))),
        17 => of("GET", "/scale"),
        18 => {
            let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
                "metadata": {"name": name, "namespace": "{ns}"},
                "spec": {"replicas": rng.random_range(-1..4)}});
            of("PUT", "/scale").with(versioned(scale))
        }
        19 => {
            let eviction = json!({"apiVersion": "policy/v1beta1", "kind": "Eviction",
                "metadata": {"name": name},
                "deleteOptions": {"preconditions": preconditions(rng, &uid, &version)}});
            Step { kind: Kind::Pod, ..of("POST", "/eviction") }.with(eviction)
        }
        20 => {
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "silent"}});
            Step { kind: Kind::Pod, ..of("POST", "/binding") }.with(binding)
        }
        21..23 => {
            let mut options = json!({"preconditions": preconditions(rng, &uid, &version)});
            options["propagationPolicy"] = any(rng, &[Value::Null, "Background".into(), "Sometimes".into()]);
            options["gracePeriodSeconds"] =
                any(rng, &[Value::Null, 0.into(), 1.into(), 60.into(), (-1).into()]);
            of("DELETE", as_if).with(options)
        }
        _ => {
            let (labels, fields) = (any(rng, &LABELS), any(rng, &FIELDS));
            let chosen = any(rng, &[format!("?labelSelector={labels}"), format!("?fieldSelector={fields}")]);
            Step::new("list", kind, any(rng, &["GET", "GET", "DELETE"]), &chosen).of(JSON)
        }
    }
}

fn preconditions(rng: &mut StdRng, uid: &str, version: &str) -> Value {
    let uid = any(rng, &[Value::Null, uid.into(), "00000000-0000-0000-0000-000000000000".into()]);
    let version = Some(version).filter(|_| rng.random_bool(0.2));
    json!({"uid": uid, "resourceVersion": version})
}

/// A change, as a merge patch.
fn edit(rng: &mut StdRng, kind: Kind) -> Value {
    let own = match kind {
        Kind::ConfigMap => of_config_maps(),
        Kind::Gadget => of_gadgets(),
        Kind::ReplicaSet => of_replica_sets(),
        Kind::Pod | Kind::PodTemplate => of_pods(),
    };
    let all = [own, metadata().into_iter().map(|metadata| json!({"metadata": metadata})).collect()].concat();
    any(rng, &all)
}

fn operations(kind: Kind) -> Vec<Value> {
    let replaced = match kind {
        Kind::Pod => json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "web:3"}]),
        _ => json!([{"op": "replace", "path": "/spec/replicas", "value": 2}]),
    };
    vec![
        json!([]),
        json!([{"op": "test", "path": "/metadata/labels/a", "value": "1"},
            {"op": "replace", "path": "/metadata/labels/a", "value": "2"}]),
        json!([{"op": "remove", "path": "/metadata/labels/none"}]),
        json!([{"op": "add", "path": "/metadata/annotations", "value": {"n": "y"}}]),
        replaced,
        json!([{"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b"}]),
        json!([{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/d"}]),
        json!([{"op": "add", "path": "/metadata/finalizers", "value": ["test.example/one"]}]),
        json!({"op": "add", "path": "/spec", "value": {}}),
    ]
}

fn metadata() -> Vec<Value> {
    vec![
        json!({"labels": {"a": "1"}}),
        json!({"labels": {"a": "2"}, "annotations": {"n": "x"}}),
        json!({"labels": {"a": null}}),
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
        json!({"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}]}),
    ]
}

fn of_config_maps() -> Vec<Value> {
    vec![
        json!({"data": {"k": "1", "l": ""}}),
        json!({"data": {"k": 1}}),
        json!({"data": {"bad key": "x"}}),
        json!({"data": null, "unknown": {"x": 1}}),
        json!({"binaryData": {"b": "not base64"}}),
        json!({"kind": "Other"}),
        json!({"apiVersion": "v7"}),
    ]
}

fn of_gadgets() -> Vec<Value> {
    vec![
        json!({"spec": {"replicas": 2, "colour": "red"}}),
        json!({"spec": {"replicas": -1}}),
        json!({"spec": {"replicas": "x"}}),
        json!({"spec": {"replicas": 1.5}}),
        json!({"spec": {"replicas": TOO_LARGE}}),
        json!({"spec": {"replicas": null, "unknown": 1}}),
        json!({"spec": {"colour": "far longer than the twenty characters there may be"}}),
        json!({"spec": null}),
        json!({"spec": {"shade": "loud"}}),
        json!({"status": {"replicas": 1, "selector": "a=1", "unknown": 1}}),
        json!({"status": {"replicas": "x"}}),
        json!({"kind": "Other"}),
        json!({"apiVersion": "v7"}),
    ]
}

fn of_replica_sets() -> Vec<Value> {
    vec![
        json!({"spec": {"replicas": 3, "minReadySeconds": 5}}),
        json!({"spec": {"replicas": -1}}),
        json!({"spec": {"replicas": "x"}}),
        json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}}),
        json!({"spec": {"template": {"spec": {"containers": null}}}}),
        json!({"spec": {"template": {"metadata": {"annotations": {"x": "y"}}}}}),
        json!({"status": {"replicas": 3, "observedGeneration": 1}}),
        json!({"status": {"replicas": 1, "readyReplicas": 2}}),
        json!({"status": {"replicas": -1}}),
    ]
}

fn of_pods() -> Vec<Value> {
    vec![
        json!({"spec": {"containers": [{"name": "main", "image": "web:2"}]}}),
        json!({"spec": {"containers": [{"name": "other", "image": "web:2"}]}}),
        json!({"spec": {"containers": [{"image": "web:2"}]}}),
        json!({"spec": {"nodeName": "silent"}}),
        json!({"spec": {"restartPolicy": "Sometimes"}}),
        json!({"spec": {"containers": []}}),
        json!({"status": {"phase": "Running"}}),
        json!({"status": {"phase": "Failed", "reason": "x"}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    ]
}
