//! The status: the clock of the progress deadline, the counts, the passed points.

use std::time::Duration;

use jiff::Timestamp;
use ordereddeployment_api::{ConditionStatus, PausePoint, names::condition, names::reason};
use ordereddeployment_planner::{Decision, DryRun, FailureKind, Snapshot, decide};
use serde_json::{Value, json};

use crate::model::Cluster;

fn rolling(replicas: i32, surge: i32, unavailable: i32) -> Value {
    json!({
        "replicas": replicas,
        "progressDeadlineSeconds": 100,
        "minReadySeconds": 0,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge,
        "maxUnavailable": unavailable}},
    })
}

/// A rollout at its floor that makes no progress.
fn stuck() -> Cluster {
    let mut cluster = Cluster::running(&rolling(4, 1, 1));
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (3, 2));
    cluster
}

fn progressing(cluster: &Cluster) -> (String, Timestamp) {
    let status = cluster.status();
    let found = status.condition(condition::PROGRESSING).unwrap();
    (found.reason.clone(), found.last_update_time.0)
}

fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap()
}

#[test]
fn only_progress_restarts_the_clock_of_the_deadline() {
    let ready = |cluster: &mut Cluster, image: &str| {
        let index = cluster.active().position(|pod| cluster.image(pod) == image && !pod.facts.ready).unwrap();
        let now = cluster.now;
        let pod = cluster.pod(index);
        (pod.facts.ready, pod.facts.ready_since) = (true, Some(now));
    };
    let lose = |cluster: &mut Cluster, image: &str| {
        let uid = cluster.active().find(|pod| cluster.image(pod) == image).unwrap().facts.uid.clone();
        cluster.delete(&uid);
    };
    // Ready but not available yet; an old pod gone; a new pod ready.
    let mut cluster = stuck();
    let before = progressing(&cluster).1;
    cluster.tick(10);
    cluster.rest();
    assert_eq!(progressing(&cluster).1, before, "time alone is no progress");
    cluster.edit(|spec| spec.min_ready_seconds = 50);
    cluster.rest();
    assert_eq!(progressing(&cluster).1, before, "an edit is none");
    ready(&mut cluster, "v2");
    cluster.rest();
    assert_eq!(progressing(&cluster).1, whole(cluster.now), "a pod that got ready is");
    let readied = progressing(&cluster).1;
    cluster.tick(49);
    cluster.rest();
    assert_eq!(progressing(&cluster).1, readied);
    cluster.tick(1);
    cluster.step();
    cluster.rest();
    assert_eq!(progressing(&cluster).1, whole(cluster.now), "and one that became available");

    let mut cluster = stuck();
    cluster.edit(|spec| spec.paused = true);
    cluster.rest();
    cluster.edit(|spec| spec.paused = false);
    cluster.tick(5);
    cluster.rest();
    assert_eq!(progressing(&cluster), (reason::DEPLOYMENT_RESUMED.into(), whole(cluster.now)));

    let mut cluster = stuck();
    cluster.tick(10);
    // Otherwise the pod would be replaced before the status is written.
    cluster.quota = Some(0);
    lose(&mut cluster, "v1");
    cluster.step();
    cluster.rest();
    assert_eq!(progressing(&cluster).1, whole(cluster.now), "an old pod less is progress too");
}

#[test]
fn the_first_pods_of_a_rollout_are_its_first_progress() {
    // The stored counts are of the template before.
    assert_eq!(progressing(&stuck()).0, reason::REPLICA_SET_UPDATED);
}

#[test]
fn the_deadline_passes_at_its_second_and_progress_revokes_it() {
    let mut cluster = stuck();
    let start = progressing(&cluster).1;
    let deadline = start.as_second() + 100;
    cluster.tick(deadline - 1 - cluster.now.as_second());
    cluster.rest();
    assert_ne!(progressing(&cluster).0, reason::PROGRESS_DEADLINE_EXCEEDED);
    assert!(cluster.wake.unwrap() >= Timestamp::from_second(deadline).unwrap());
    assert!(cluster.wake.unwrap() <= Timestamp::from_second(deadline + 1).unwrap());
    cluster.tick(1);
    while progressing(&cluster).0 != reason::PROGRESS_DEADLINE_EXCEEDED {
        assert!(cluster.step());
    }
    // The consequences follow at once.
    assert!(cluster.wake.unwrap() < Timestamp::from_second(deadline + 1).unwrap());
    cluster.rest();
    assert_eq!(progressing(&cluster).0, reason::PROGRESS_DEADLINE_EXCEEDED);
    let status = cluster.status();
    let condition = status.condition(condition::PROGRESSING).unwrap();
    assert_eq!(condition.status, ConditionStatus::False);
    assert!(condition.message.contains("100 seconds"), "{}", condition.message);
    cluster.broken.clear();
    for pod in &mut cluster.pods {
        (pod.facts.ready, pod.facts.ready_since) = (true, pod.facts.created);
    }
    cluster.rest();
    assert_eq!(progressing(&cluster).0, reason::REPLICA_SET_UPDATED);
}

#[test]
fn after_completion_neither_scaling_nor_a_lost_pod_runs_the_clock() {
    let mut cluster = Cluster::running(&rolling(4, 1, 1));
    let uid = cluster.pod(0).facts.uid.clone();
    cluster.broken.insert("v1".into());
    cluster.delete(&uid);
    cluster.edit(|spec| spec.replicas = 6);
    for _ in 0..3 {
        cluster.settle();
        cluster.tick(200);
    }
    cluster.rest();
    assert!(!cluster.is_complete());
    assert_eq!(progressing(&cluster).0, reason::NEW_REPLICA_SET_AVAILABLE);
    // A rollout does.
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_ne!(progressing(&cluster).0, reason::NEW_REPLICA_SET_AVAILABLE);
}

#[test]
fn a_deadline_of_the_largest_number_never_passes() {
    let mut spec = rolling(4, 1, 1);
    spec["progressDeadlineSeconds"] = json!(i32::MAX);
    let mut cluster = Cluster::running(&spec);
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.wake, None);
}

#[test]
fn before_a_hold_the_clock_runs_while_wanted_updated_pods_are_unavailable() {
    let mut cluster = Cluster::running(&rolling(4, 1, 1));
    cluster.prioritize(&[5, 4]);
    cluster.pause_at(1, PausePoint::Before);
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.status().hold, None);
    cluster.tick(200);
    cluster.rest();
    assert_eq!(progressing(&cluster).0, reason::PROGRESS_DEADLINE_EXCEEDED);
    for pod in &mut cluster.pods {
        (pod.facts.ready, pod.facts.ready_since) = (true, pod.facts.created);
    }
    cluster.rest();
    let status = cluster.status();
    let condition = status.condition(condition::PROGRESSING).unwrap();
    assert_eq!(
        (condition.reason.as_str(), condition.status),
        (reason::ROLLOUT_HELD, ConditionStatus::Unknown)
    );
    assert_eq!(cluster.wake, None, "a stopped clock wakes nothing");
}

#[test]
fn the_passed_points_are_dropped_only_when_the_rollout_is_complete() {
    let mut cluster = Cluster::running(&rolling(4, 1, 1));
    cluster.prioritize(&[5]);
    let name = cluster.pause_at(0, PausePoint::Before);
    let uid = cluster.pod(0).facts.uid.clone();
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.status().hold.as_ref().unwrap().pod, name);
    cluster.resume();
    cluster.settle();
    let passed = cluster.status().passed.unwrap();
    assert_eq!(passed.iter().map(|passed| &*passed.pod_uid).collect::<Vec<_>>(), [&*uid]);
    for pod in &mut cluster.pods {
        (pod.facts.ready, pod.facts.ready_since) = (true, pod.facts.created);
    }
    cluster.broken.clear();
    cluster.settle();
    assert!(cluster.is_complete());
    assert_eq!(cluster.status().passed, None);
}

#[test]
fn the_counts_are_those_of_the_active_pods() {
    let mut cluster = stuck();
    let uid = cluster.active().find(|pod| cluster.image(pod) == "v1").unwrap().facts.uid.clone();
    cluster.pods.iter_mut().find(|pod| pod.facts.uid == uid).unwrap().facts.ready = false;
    cluster.rest();
    let status = cluster.status();
    let counts = (status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas);
    assert_eq!(counts, (Some(5), Some(2), Some(2), Some(2)));
    assert_eq!((status.unavailable_replicas, status.terminating_replicas), (Some(2), Some(0)));
    let available = status.condition(condition::AVAILABLE).unwrap();
    assert_eq!(
        (available.status, available.reason.as_str()),
        (ConditionStatus::False, "MinimumReplicasUnavailable")
    );
    assert_eq!(status.observed_generation, cluster.deployment.metadata.generation);
    // Terminating and finished pods are not active.
    cluster.delete(&uid);
    cluster.rest();
    let status = cluster.status();
    assert_eq!(status.terminating_replicas, Some(1));
    cluster.pods.iter_mut().find(|pod| pod.facts.uid == uid).unwrap().finished = true;
    cluster.rest();
    assert_eq!(cluster.status().terminating_replicas, Some(0));
}

#[test]
fn under_recreate_available_needs_all_pods() {
    let mut cluster = Cluster::running(&json!({"replicas": 4, "strategy": {"type": "Recreate"}}));
    let holds = |cluster: &Cluster| cluster.status().condition(condition::AVAILABLE).unwrap().status;
    assert_eq!(holds(&cluster), ConditionStatus::True);
    cluster.pod(0).facts.ready = false;
    cluster.rest();
    assert_eq!(holds(&cluster), ConditionStatus::False);
}

#[test]
fn each_failure_has_its_own_reason() {
    let table = [
        (FailureKind::Claim, reason::FAILED_CLAIM),
        (FailureKind::Create, reason::FAILED_CREATE),
        (FailureKind::Delete, reason::FAILED_DELETE),
        (FailureKind::Evict, reason::EVICTION_REFUSED),
        (FailureKind::EvictAmbiguous, reason::SEVERAL_BUDGETS),
    ];
    for (what, expected) in table {
        let mut cluster = stuck();
        let since = cluster.now;
        cluster.failure = Some(ordereddeployment_planner::Failure { what, message: "why".into(), since });
        let Decision::Act(act) =
            decide(&Snapshot { live: true, dry_run: DryRun::Accepted, ..cluster.observed() })
        else {
            panic!()
        };
        let condition = act.status.condition(condition::REPLICA_FAILURE).unwrap();
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), (expected, "why"));
        // Only a problem that no retry solves stalls it.
        let stalled = act.status.condition(condition::STALLED).unwrap();
        let stalled_reason = if what == FailureKind::EvictAmbiguous { expected } else { reason::NOT_STALLED };
        assert_eq!(
            (stalled.reason.as_str(), stalled.status == ConditionStatus::True),
            (stalled_reason, stalled_reason == expected)
        );
    }
}

#[test]
fn a_stalled_rollout_has_a_short_requeue_time() {
    let mut spec = rolling(4, 0, 1);
    spec["progressDeadlineSeconds"] = json!(i32::MAX);
    let mut cluster = Cluster::running(&spec);
    cluster.refused.insert("v2".into());
    cluster.set_image("v2");
    cluster.rest();
    let wait = cluster.wake.unwrap().duration_since(cluster.now);
    assert_eq!(wait.unsigned_abs(), Duration::from_secs(10));
}

#[test]
fn a_point_is_lost_only_if_the_rollout_has_not_reached_it() {
    let start = || {
        let mut cluster = Cluster::running(&rolling(4, 1, 1));
        cluster.prioritize(&[5, 4, 3]);
        let names = [0, 1, 2].map(|index| cluster.pause_at(index, PausePoint::Before));
        cluster.set_image("v2");
        cluster.settle();
        assert_eq!(cluster.status().hold.as_ref().unwrap().pod, names[0]);
        (cluster, names)
    };
    let lose = |cluster: &mut Cluster, name: &str| {
        let uid = cluster.pods.iter().find(|pod| pod.name == name).unwrap().facts.uid.clone();
        cluster.delete(&uid);
        cluster.settle();
        cluster.count_events(reason::PAUSE_POINT_LOST)
    };
    // The held one is not lost: its hold continues.
    let (mut cluster, names) = start();
    assert_eq!(lose(&mut cluster, &names[0]), 0);
    // A later one is lost, once.
    assert_eq!(lose(&mut cluster, &names[2]), 1);
    // A point with a removed annotation is not lost, nor one that a resume of all points has passed.
    let (mut cluster, names) = start();
    cluster.pods.iter_mut().find(|pod| pod.name == names[2]).unwrap().point =
        ordereddeployment_planner::Point::None;
    cluster.settle();
    assert_eq!(lose(&mut cluster, &names[2]), 0);
    cluster.request_resume("*@2");
    let uid = cluster.pods.iter().find(|pod| pod.name == names[1]).unwrap().facts.uid.clone();
    cluster.delete(&uid);
    cluster.settle();
    assert_eq!(cluster.count_events(reason::PAUSE_POINT_LOST), 0);
    assert!(cluster.is_complete());
}

#[test]
fn with_no_replicas_nothing_is_created_regardless_of_the_surge() {
    let mut cluster = Cluster::running(&rolling(4, 3, 1));
    cluster.set_image("v2");
    cluster.step();
    cluster.edit(|spec| spec.replicas = 0);
    cluster.settle();
    assert_eq!(cluster.active().count(), 0);
    let count = cluster.steps;
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    assert_eq!(cluster.active().count(), 0);
    assert!(cluster.steps > count);
}

/// At a pause point, with two updated pods wanted, neither of which is ready.
fn held_and_waiting() -> Cluster {
    let mut spec = rolling(6, 1, 2);
    spec["minReadySeconds"] = json!(50);
    let mut cluster = Cluster::running(&spec);
    cluster.tick(100);
    cluster.settle();
    cluster.prioritize(&[5, 5, 4]);
    cluster.pause_at(2, PausePoint::Before);
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (4, 2));
    cluster
}

#[test]
fn an_updated_pod_that_becomes_available_is_progress_while_another_one_is_unavailable() {
    let mut cluster = held_and_waiting();
    let index = cluster.active().position(|pod| cluster.image(pod) == "v2").unwrap();
    let now = cluster.now;
    let pod = cluster.pod(index);
    (pod.facts.ready, pod.facts.ready_since) = (true, Some(now));
    cluster.rest();
    let readied = progressing(&cluster).1;
    assert_eq!(readied, whole(cluster.now));
    cluster.tick(51);
    cluster.rest();
    assert_eq!(progressing(&cluster), (reason::REPLICA_SET_UPDATED.into(), whole(cluster.now)));
}

#[test]
fn a_pause_that_ends_in_a_hold_starts_the_clock_of_the_pods_it_waits_for() {
    let mut cluster = held_and_waiting();
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    assert_eq!(progressing(&cluster).0, reason::DEPLOYMENT_PAUSED);
    cluster.edit(|spec| spec.paused = false);
    cluster.rest();
    assert_eq!(progressing(&cluster), (reason::DEPLOYMENT_RESUMED.into(), whole(cluster.now)));
}

#[test]
fn a_pause_is_reported_although_the_rollout_is_complete() {
    let mut cluster = Cluster::running(&rolling(3, 1, 0));
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    assert!(cluster.is_complete());
    assert_eq!(progressing(&cluster).0, reason::DEPLOYMENT_PAUSED);
}

#[test]
fn more_available_pods_than_replicas_leave_none_unavailable() {
    let mut cluster = stuck();
    for pod in &mut cluster.pods {
        (pod.facts.ready, pod.facts.ready_since) = (true, pod.facts.created);
    }
    let snapshot = Snapshot { live: true, dry_run: DryRun::Accepted, ..cluster.observed() };
    let Decision::Act(act) = decide(&snapshot) else { panic!() };
    assert_eq!((act.status.available_replicas, act.status.unavailable_replicas), (Some(5), Some(0)));
}

#[test]
fn after_an_invalid_spec_and_after_a_migration_progress_is_reported_and_the_clock_restarts() {
    type Change = fn(&mut Cluster);
    let table: [(&str, Change, Change); 2] = [
        (
            reason::INVALID_SPEC,
            |cluster| cluster.edit(|spec| spec.min_ready_seconds = -1),
            |cluster| cluster.edit(|spec| spec.min_ready_seconds = 0),
        ),
        (
            reason::HANDING_BACK,
            |cluster| {
                let key = "ordereddeployment.io/handing-back".to_owned();
                cluster.deployment.metadata.annotations = Some([(key, "step-7".to_owned())].into());
            },
            |cluster| cluster.deployment.metadata.annotations = None,
        ),
    ];
    for (why, begin, end) in table {
        let mut cluster = stuck();
        begin(&mut cluster);
        cluster.rest();
        assert_eq!(progressing(&cluster).0, why);
        // Longer than the deadline.
        cluster.tick(200);
        cluster.rest();
        end(&mut cluster);
        cluster.rest();
        assert_eq!(progressing(&cluster), (reason::REPLICA_SET_UPDATED.into(), whole(cluster.now)), "{why}");
        cluster.tick(101);
        cluster.rest();
        assert_eq!(progressing(&cluster).0, reason::PROGRESS_DEADLINE_EXCEEDED);
    }
}
