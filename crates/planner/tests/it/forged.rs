//! A status that somebody else wrote: whoever may patch it can stop a rollout and pass its pause points, and
//! nothing else.

use std::collections::BTreeSet;

use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_planner::{Decision, DryRun, SetChange};
use serde_json::{Value, json};

use crate::model::Cluster;
use crate::play::{histories, rolling};

/// Four pods of `v3`; `v1` and `v2` were complete before.
fn third(spec: &Value) -> Cluster {
    let mut cluster = Cluster::running(spec);
    cluster.play("image v2\n image v3 => complete");
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
    cluster.play("broken v4, image v4");
    let forged = json!({"revision": 1, "templateHash": hash_of(&cluster, "v1")});
    patch(&mut cluster, &json!({"rollout": {"from": forged}}));
    cluster.play("abort 4");
    assert_eq!(images(&cluster), BTreeSet::from(["v3".to_owned()]));
    assert_eq!(cluster.status().aborted.unwrap().to, 3);
    // The same, where the abort itself is forged.
    let forged = json!({"to": 1, "templateHash": hash_of(&cluster, "v1")});
    patch(&mut cluster, &json!({"aborted": forged}));
    cluster.settle();
    assert_eq!(images(&cluster), BTreeSet::from(["v3".to_owned()]));
    assert_eq!(cluster.status().aborted.unwrap().to, 3);
}

#[test]
fn a_corrected_field_is_named_in_one_event() {
    let mut cluster = third(&of_four());
    cluster.set_image("v4");
    cluster.step();
    let from = json!({"revision": 1, "templateHash": hash_of(&cluster, "v1")});
    patch(&mut cluster, &json!({"rollout": {"from": from, "revision": 1_000_000}}));
    cluster.settle();
    let events: Vec<_> =
        cluster.events.iter().filter(|event| event.reason == reason::STATUS_CORRECTED).collect();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].message.ends_with(": rollout.revision, rollout.from"), "{}", events[0].message);
    assert!(cluster.is_complete());
}

#[test]
fn what_is_too_long_in_a_status_is_cut() {
    let mut cluster = third(&of_four());
    let passed = json!({"podUID": "x", "resumedAt": "2023-11-14T22:13:20Z"});
    let selector = "x".repeat(1_000_000);
    patch(&mut cluster, &json!({"passed": vec![passed; 5000], "selector": selector}));
    cluster.step();
    assert_eq!(cluster.status().passed, None);
    cluster.settle();
    assert!(!cluster.status().limit());
    assert_eq!(cluster.count_events(reason::STATUS_CORRECTED), 1);
}

#[test]
fn a_rollout_marks_its_set_as_served_together_with_its_final_size() {
    let mut cluster = Cluster::running(&of_four());
    cluster.set_image("v2");
    let mut marks = Vec::new();
    for _ in 0..40 {
        let (_, decision) = cluster.decide(|_| DryRun::Accepted);
        if let Decision::Act(act) = decision {
            let records = |change: &SetChange| matches!(change, SetChange::Update { served: Some(_), .. });
            let complete = act.status.condition(condition::COMPLETE).map(|complete| complete.status);
            let is_early = act.sets.iter().any(records) && complete == Some(ConditionStatus::True);
            assert!(!is_early, "complete before it is recorded: a change now goes back to an older revision");
            marks.extend(act.sets.into_iter().filter_map(|change| match change {
                SetChange::Update { served: Some(served), replicas, .. } => Some((served, replicas)),
                _ => None,
            }));
        }
        cluster.step();
        cluster.tick(1);
    }
    assert_eq!(marks, [(2, Some(4))]);
    let served: Vec<_> = cluster.sets.iter().map(|set| set.served).collect();
    assert_eq!(served, [Some(1), Some(2)]);
}

histories! {
    a_template_without_pods_has_not_served:
        rolling(4, 1, 0, "") => "
            scale 0
            image v2 => complete
            broken v2, scale 4
            abort 2 => v1=4 active=4";
    an_abort_goes_to_what_served_last_although_an_undo_gave_an_older_set_a_larger_revision:
        rolling(4, 1, 0, "") => "
            image v2
            broken v1, image v1
            broken v3, image v3
            abort 4 => v2=4 active=4";
}

/// Sets that somebody else made say nothing of what served.
fn as_before(cluster: &mut Cluster) {
    cluster.sets.iter_mut().for_each(|set| set.served = None);
}

#[test]
fn sets_without_a_record_are_marked_as_the_status_says_and_can_be_gone_back_to() {
    // At rest, both are marked.
    let mut cluster = third(&of_four());
    as_before(&mut cluster);
    cluster.settle();
    let served: Vec<_> = cluster.sets.iter().map(|set| set.served).collect();
    assert_eq!(served, [None, Some(2), Some(3)]);
    // In a rollout, an abort goes to what the status named.
    cluster.play("broken v4, image v4");
    as_before(&mut cluster);
    cluster.play("abort 4");
    assert_eq!(images(&cluster), BTreeSet::from(["v3".to_owned()]));
    // The template changed while no controller ran: the status says that the one before was complete.
    let mut cluster = third(&of_four());
    as_before(&mut cluster);
    cluster.play("broken v4, image v4");
    cluster.play("abort 4");
    assert_eq!(images(&cluster), BTreeSet::from(["v3".to_owned()]));
}
