//! A status that somebody else wrote: whoever may patch it can stop a rollout and pass its pause points, and nothing else.

use std::collections::BTreeSet;

use ordereddeployment_api::OrderedDeploymentStatus;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fuzz::{config, counts, forged, status};
use crate::model::Cluster;
use crate::properties::{Happening, apply, finish, happening, spec};

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

/// A step of a history in which somebody writes the status.
#[derive(Clone, Debug)]
enum Step {
    Happening(Happening),
    /// Somebody replaces the status.
    Replaced(Value),
    /// Somebody replaces these fields of it: the bits say which.
    Patched(Value, u32),
    /// Somebody writes a status of before.
    Restored(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => happening().prop_map(Step::Happening),
        1 => status().prop_map(Step::Replaced),
        3 => (status(), any::<u32>()).prop_map(|(status, bits)| Step::Patched(status, bits)),
        1 => any::<usize>().prop_map(Step::Restored),
    ]
}

/// The status with some of these fields; one field in two where it is an object.
fn mixed(status: Value, forged: &Value, bits: u32) -> Value {
    let (Value::Object(mut status), Value::Object(forged)) = (status, forged) else { return forged.clone() };
    for (at, (key, value)) in forged.iter().enumerate() {
        if bits.rotate_right(u32::try_from(at).unwrap()) & 1 == 0 {
            continue;
        }
        let own = status.remove(key).filter(Value::is_object);
        let value = match own {
            Some(own) if value.is_object() => mixed(own, value, bits.rotate_right(7)),
            _ => value.clone(),
        };
        status.insert(key.clone(), value);
    }
    Value::Object(status)
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn no_status_breaks_a_rule_at_any_moment_and_the_cluster_settles(
        spec in spec(), steps in proptest::collection::vec(step(), 0..60),
    ) {
        let mut cluster = Cluster::new(&spec);
        cluster.forged = true;
        let mut before: Vec<OrderedDeploymentStatus> = Vec::new();
        for step in steps {
            before.push(cluster.status());
            match step {
                Step::Happening(happening) => apply(&mut cluster, happening),
                Step::Replaced(value) => cluster.deployment.status = Some(forged(&cluster, &value)),
                Step::Patched(value, bits) => {
                    let value = serde_json::to_value(forged(&cluster, &value)).unwrap();
                    let own = serde_json::to_value(cluster.status()).unwrap();
                    let mixed = serde_json::from_value(mixed(own, &value, bits)).ok();
                    cluster.deployment.status = mixed.or(cluster.deployment.status.take());
                }
                Step::Restored(at) => cluster.deployment.status = Some(before[at % before.len()].clone()),
            }
        }
        finish(&mut cluster, false);
        prop_assert!(cluster.is_complete(), "{:#?}", cluster.status());
        prop_assert!(counts(&cluster.status()).into_iter().all(|count| count >= 0));
        prop_assert!(!cluster.status().limit(), "{:#?}", cluster.status());
        let steps = cluster.steps;
        cluster.rest();
        prop_assert_eq!(cluster.steps, steps + 1, "at rest nothing is written");
    }
}
