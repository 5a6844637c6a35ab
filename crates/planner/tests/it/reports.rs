//! The status: the clock of the progress deadline, the counts, the passed points.

use std::time::Duration;

use jiff::Timestamp;
use ordereddeployment_api::{ConditionStatus, names::condition, names::reason};
use ordereddeployment_planner::{Decision, DryRun, Failure, FailureKind, Snapshot, decide};

use crate::model::Cluster;
use crate::play::{histories, recreate, rolling};

/// A rollout at its floor that makes no progress.
fn stuck() -> Cluster {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("deadline 100, broken v2, image v2 => v1=3 v2=2");
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

histories! {
    // The stored counts are of the template before.
    the_first_pods_of_a_rollout_are_its_first_progress:
        stuck() => "=> Progressing=ReplicaSetUpdated";
    after_completion_neither_scaling_nor_a_lost_pod_runs_the_clock:
        rolling(4, 1, 1, "") => "
            deadline 100, broken v1, delete #0, scale 6
            wait 200, settle
            wait 200, settle => incomplete Progressing=NewReplicaSetAvailable
            broken v2, image v2 => Progressing=ReplicaSetUpdated";
    under_recreate_the_clock_runs_in_a_hold_without_a_pod:
        recreate(4, "") => "
            priorities 9 8, mark before #2, deadline 60, image v2 => held=mark v1=2
            delete set v1
            wait 100, settle => held active=0 Progressing=ProgressDeadlineExceeded";
    under_recreate_available_needs_all_pods:
        recreate(4, "") => "
            => Available=MinimumReplicasAvailable
            unready #0, rest => Available=MinimumReplicasUnavailable";
    a_pause_is_reported_although_the_rollout_is_complete:
        rolling(3, 1, 0, "") => "pause => complete Progressing=DeploymentPaused";
    // The held one is not lost: its hold continues. A later one is lost, once. Not one whose annotation was
    // removed, nor one that a resume of all points has passed.
    a_point_is_lost_only_if_the_rollout_has_not_reached_it:
        rolling(4, 1, 1, "") =>
            "priorities 5 4 3, mark before #0 #1 #2, image v2 => held
             delete #0 => PausePointLost=0
             delete #1 => PausePointLost=1" |
            "priorities 5 4 3, mark before #0 #1 #2, image v2 => held
             unmark #2
             delete #2 => PausePointLost=0
             resume all, delete #1 => PausePointLost=0 complete";
}

#[test]
fn only_progress_restarts_the_clock_of_the_deadline() {
    // Ready but not available yet; an old pod gone; a new pod ready.
    let mut cluster = stuck();
    let before = progressing(&cluster).1;
    cluster.play("wait 10, rest");
    assert_eq!(progressing(&cluster).1, before, "time alone is no progress");
    cluster.edit(|spec| spec.min_ready_seconds = 50);
    cluster.rest();
    assert_eq!(progressing(&cluster).1, before, "an edit is none");
    cluster.play("ready 1 v2, rest");
    assert_eq!(progressing(&cluster).1, whole(cluster.now), "a pod that got ready is");
    let readied = progressing(&cluster).1;
    cluster.play("wait 49, rest");
    assert_eq!(progressing(&cluster).1, readied);
    cluster.play("wait 1, step, rest");
    assert_eq!(progressing(&cluster).1, whole(cluster.now), "and one that became available");

    let mut cluster = stuck();
    cluster.play("pause, rest\n unpause, wait 5, rest");
    assert_eq!(progressing(&cluster), (reason::DEPLOYMENT_RESUMED.into(), whole(cluster.now)));

    // Without the quota, the pod would be replaced before the status is written.
    let mut cluster = stuck();
    cluster.play("wait 10, quota 0, delete 1 v1, step, rest");
    assert_eq!(progressing(&cluster).1, whole(cluster.now), "an old pod less is progress too");
}

#[test]
fn the_deadline_passes_at_its_second_and_progress_revokes_it() {
    let mut cluster = stuck();
    let start = progressing(&cluster).1;
    let deadline = start.as_second() + 100;
    cluster.tick(deadline - 1 - cluster.now.as_second());
    cluster.rest();
    assert_ne!(progressing(&cluster).0, reason::PROGRESS_DEADLINE_EXCEEDED);
    let at = |second| Timestamp::from_second(second).unwrap();
    assert!((at(deadline)..=at(deadline + 1)).contains(&cluster.wake.unwrap()));
    cluster.tick(1);
    cluster.play("until Progressing=ProgressDeadlineExceeded");
    // The consequences follow at once.
    assert!(cluster.wake.unwrap() < at(deadline + 1));
    cluster.play("rest => Progressing=ProgressDeadlineExceeded");
    let status = cluster.status();
    let condition = status.condition(condition::PROGRESSING).unwrap();
    assert_eq!(condition.status, ConditionStatus::False);
    assert!(condition.message.contains("100 seconds"), "{}", condition.message);
    cluster.play("mended, ready all, rest => Progressing=ReplicaSetUpdated");
}

#[test]
fn a_deadline_of_the_largest_number_never_passes() {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("deadline 2147483647, broken v2, image v2");
    assert_eq!(cluster.wake, None);
}

#[test]
fn before_a_hold_the_clock_runs_while_wanted_updated_pods_are_unavailable() {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play(
        "deadline 100, priorities 5 4, mark before #1, broken v2, image v2 => free
         wait 200, rest => Progressing=ProgressDeadlineExceeded
         ready all, rest => Progressing=RolloutHeld",
    );
    let status = cluster.status();
    assert_eq!(status.condition(condition::PROGRESSING).unwrap().status, ConditionStatus::Unknown);
    assert_eq!(cluster.wake, None, "a stopped clock wakes nothing");
}

#[test]
fn the_passed_points_are_dropped_only_when_the_rollout_is_complete() {
    let mut cluster = rolling(4, 1, 1, "");
    let uid = cluster.pod(0).facts.uid.clone();
    cluster.play("priorities 5, mark before #0, broken v2, image v2 => held=mark\n resume");
    let passed = cluster.status().passed.unwrap();
    assert_eq!(passed.iter().map(|passed| &*passed.pod_uid).collect::<Vec<_>>(), [&*uid]);
    cluster.play("mended, ready all => complete");
    assert_eq!(cluster.status().passed, None);
}

#[test]
fn the_counts_are_those_of_the_active_pods() {
    let mut cluster = stuck();
    let uid = cluster.pod(0).facts.uid.clone();
    cluster.play("unready #0, rest => Available=MinimumReplicasUnavailable");
    let status = cluster.status();
    let counts = (status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas);
    assert_eq!(counts, (Some(5), Some(2), Some(2), Some(2)));
    assert_eq!((status.unavailable_replicas, status.terminating_replicas), (Some(2), Some(0)));
    assert_eq!(status.condition(condition::AVAILABLE).unwrap().status, ConditionStatus::False);
    assert_eq!(status.observed_generation, cluster.deployment.metadata.generation);
    assert_eq!(status.selector.as_deref(), Some("app=web"));
    // Terminating and finished pods are not active.
    cluster.delete(&uid);
    cluster.rest();
    assert_eq!(cluster.status().terminating_replicas, Some(1));
    cluster.pods.iter_mut().find(|pod| pod.facts.uid == uid).unwrap().finished = true;
    cluster.rest();
    assert_eq!(cluster.status().terminating_replicas, Some(0));
}

#[test]
fn each_failure_has_its_own_reason() {
    for (what, expected) in [
        (FailureKind::Claim, reason::FAILED_CLAIM),
        (FailureKind::Create, reason::FAILED_CREATE),
        (FailureKind::Delete, reason::FAILED_DELETE),
        (FailureKind::Evict, reason::EVICTION_REFUSED),
        (FailureKind::EvictAmbiguous, reason::SEVERAL_BUDGETS),
    ] {
        let mut cluster = stuck();
        cluster.failure = Some(Failure { what, message: "why".into(), since: cluster.now });
        let snapshot = Snapshot { live: true, dry_run: DryRun::Accepted, ..cluster.observed() };
        let Decision::Act(act) = decide(&snapshot) else { panic!() };
        let condition = act.status.condition(condition::REPLICA_FAILURE).unwrap();
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), (expected, "why"));
        // Only a problem that no retry solves stalls it.
        let stalled = act.status.condition(condition::STALLED).unwrap();
        let is_stalled = what == FailureKind::EvictAmbiguous;
        assert_eq!(stalled.reason, if is_stalled { expected } else { reason::NOT_STALLED });
        assert_eq!(stalled.status == ConditionStatus::True, is_stalled);
    }
}

#[test]
fn a_stalled_rollout_has_a_short_requeue_time() {
    let mut cluster = rolling(4, 0, 1, "");
    cluster.play("deadline 2147483647, refused v2, image v2, rest");
    assert_eq!(cluster.wake.unwrap().duration_since(cluster.now).unsigned_abs(), Duration::from_secs(10));
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
        cluster.play("wait 200, rest");
        end(&mut cluster);
        cluster.rest();
        assert_eq!(progressing(&cluster), (reason::REPLICA_SET_UPDATED.into(), whole(cluster.now)), "{why}");
        cluster.play("wait 101, rest => Progressing=ProgressDeadlineExceeded");
    }
}

#[test]
fn an_updated_pod_that_becomes_available_is_progress_while_another_one_is_unavailable() {
    // At a pause point, with two updated pods wanted, neither of which is ready.
    let mut cluster = rolling(6, 1, 2, "");
    cluster.play(
        "deadline 100, min-ready 50, wait 100, settle
         priorities 5 5 4, mark before #2, broken v2, image v2 => v1=4 v2=2",
    );
    cluster.play("ready 1 v2, rest");
    assert_eq!(progressing(&cluster).1, whole(cluster.now));
    cluster.play("wait 51, rest");
    assert_eq!(progressing(&cluster), (reason::REPLICA_SET_UPDATED.into(), whole(cluster.now)));
}
