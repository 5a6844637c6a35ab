//! A status that somebody else wrote: whoever may patch it can stop a rollout and pass its pause points, and nothing else.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::model::Cluster;

/// Four pods of `v3`; `v1` and `v2` were complete before.
fn third(spec: &Value) -> Cluster {
    let mut cluster = Cluster::running(spec);
    for image in ["v2", "v3"] {
        cluster.set_image(image);
        cluster.settle();
    }
    assert!(cluster.is_complete());
    cluster
}

fn of_four() -> Value {
    json!({"replicas": 4, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}})
}

/// Replaces fields of the status, as `kubectl patch --subresource=status --type=merge` does.
fn patch(cluster: &mut Cluster, fields: &Value) {
    cluster.forged = true;
    let mut status = serde_json::to_value(cluster.status()).unwrap();
    merge(&mut status, fields);
    cluster.deployment.status = Some(serde_json::from_value(status).unwrap());
}

fn merge(into: &mut Value, patch: &Value) {
    for (key, value) in patch.as_object().unwrap() {
        match value {
            Value::Null => drop(into.as_object_mut().unwrap().remove(key)),
            Value::Object(_) if into[key].is_object() => merge(&mut into[key], value),
            value => into[key] = value.clone(),
        }
    }
}

fn hash_of(cluster: &Cluster, image: &str) -> String {
    cluster.sets.iter().find(|set| cluster.image_of(set) == image).unwrap().hash.clone()
}

fn images(cluster: &Cluster) -> BTreeSet<String> {
    cluster.active().map(|pod| cluster.image(pod)).collect()
}

#[test]
fn forged_sizes_of_a_hold_start_no_pod_of_a_revision_outside_the_rollout() {
    let mut cluster = third(&of_four());
    let (old, new) = (hash_of(&cluster, "v1"), hash_of(&cluster, "v3"));
    let hold = json!({
        "id": "x@3", "pod": "x", "podUID": "x", "point": "Before", "revision": 3,
        "since": "2023-11-14T22:13:20Z", "replicas": 4, "sizes": {old: 4, new: 4},
    });
    patch(&mut cluster, &json!({"hold": hold}));
    cluster.settle();
    assert_eq!(images(&cluster), BTreeSet::from(["v3".to_owned()]));
    assert!(cluster.active().count() <= 5, "{} pods", cluster.active().count());
}

#[test]
fn a_forged_revision_does_not_reach_the_sets() {
    for forged in [i64::MAX, i64::MAX - 1, 1_000_000, -1, i64::MIN, 0, 1] {
        let mut cluster = third(&of_four());
        patch(&mut cluster, &json!({"rollout": {"revision": forged}}));
        cluster.settle();
        cluster.set_image("v4");
        cluster.settle();
        let revisions: Vec<i64> = cluster.sets.iter().map(|set| set.revision).collect();
        assert_eq!(revisions, [1, 2, 3, 4], "{forged}");
    }
}

#[test]
fn an_abort_goes_to_the_revision_that_served_whatever_the_status_says() {
    let mut cluster = third(&of_four());
    cluster.broken.insert("v4".to_owned());
    cluster.set_image("v4");
    cluster.settle();
    let forged = json!({"revision": 1, "templateHash": hash_of(&cluster, "v1")});
    patch(&mut cluster, &json!({"rollout": {"from": forged}}));
    cluster.request_abort(4);
    cluster.settle();
    assert_eq!(images(&cluster), BTreeSet::from(["v3".to_owned()]));
    assert_eq!(cluster.status().aborted.unwrap().to, 3);
    // The same, where the abort itself is forged.
    let forged = json!({"to": 1, "templateHash": hash_of(&cluster, "v1")});
    patch(&mut cluster, &json!({"aborted": forged}));
    cluster.settle();
    assert_eq!(images(&cluster), BTreeSet::from(["v3".to_owned()]));
    assert_eq!(cluster.status().aborted.unwrap().to, 3);
}
