//! A rollout that cannot reach its pause point: only unavailable pods at or behind the point could be deleted.

use std::time::Duration;

use ordereddeployment_api::{ConditionStatus, PausePoint, names::condition, names::reason};
use ordereddeployment_planner::Point;
use serde_json::json;

use crate::model::Cluster;

/// Ten pods with `maxUnavailable: 0`, the third one with a pause point, one of them unready.
fn blocked(side: PausePoint, unready: usize, mode: &str) -> (Cluster, String) {
    let mut cluster = Cluster::running(&json!({
        "replicas": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "deletionOrder": {"unavailablePods": mode},
    }));
    cluster.prioritize(&[9, 8, 7]);
    let name = cluster.pause_at(2, side);
    cluster.pod(unready).facts.ready = false;
    cluster.set_image("v2");
    cluster.settle();
    (cluster, format!("{name}@2"))
}

/// The message of the condition, if it is true.
fn blocked_message(cluster: &Cluster) -> Option<String> {
    let status = cluster.status();
    let stalled = status.condition(condition::STALLED).filter(|found| found.reason == reason::BLOCKED)?;
    assert_eq!(stalled.status, ConditionStatus::True);
    Some(stalled.message.clone())
}

fn wait_out_the_grace_time(cluster: &mut Cluster) {
    assert_eq!(blocked_message(cluster), None, "a minute of grace");
    cluster.settle_when_asked();
    assert!(cluster.wake.is_some(), "it asks to be woken");
    cluster.tick(60);
    cluster.settle();
}

#[test]
fn a_quota_blocks_at_no_pause_point() {
    let mut cluster = Cluster::running(&json!({"replicas": 3}));
    cluster.prioritize(&[9, 8, 7]);
    cluster.pause_at(1, PausePoint::Before);
    cluster.quota = Some(3);
    cluster.set_image("v2");
    for _ in 0..4 {
        cluster.settle();
        cluster.tick(60);
    }
    assert_eq!(blocked_message(&cluster), None, "no old pod is unavailable");
    assert_eq!(cluster.status().blocked, None);
    assert!(cluster.status().condition(condition::REPLICA_FAILURE).is_some(), "it tells of the quota");
}

#[test]
fn a_blocked_rollout_reports_it_after_a_minute_and_is_not_held() {
    for (side, mode, unready) in [
        (PausePoint::Before, "WhenBlocked", 9),
        (PausePoint::Before, "InOrder", 9),
        (PausePoint::Before, "WhenBlocked", 2),
        (PausePoint::After, "WhenBlocked", 9),
    ] {
        let (mut cluster, id) = blocked(side, unready, mode);
        wait_out_the_grace_time(&mut cluster);
        let message = blocked_message(&cluster).unwrap();
        let unready = cluster.pod(unready).name.clone();
        for part in [&id, &unready, "maxUnavailable", "undo web", &format!("resume web {id}")] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!((cluster.status().hold, cluster.count_events(reason::PAUSE_POINT_REACHED)), (None, 0));
        assert_eq!(cluster.deleted, []);
    }
}

#[test]
fn a_blocked_rollout_continues_by_itself_and_still_pauses_at_its_point() {
    for grace in [0, 100] {
        let (mut cluster, id) = blocked(PausePoint::Before, 9, "WhenBlocked");
        cluster.tick(grace);
        cluster.settle();
        cluster.pod(9).facts.ready = true;
        cluster.settle();
        assert_eq!((cluster.status().blocked, blocked_message(&cluster)), (None, None));
        let hold = cluster.status().hold.unwrap();
        assert_eq!((hold.id, cluster.deleted.len()), (id, 2), "no point is used up");
    }
}

#[test]
fn the_time_of_a_timed_point_does_not_run_while_the_rollout_is_blocked() {
    let (mut cluster, id) = blocked(PausePoint::Before, 9, "WhenBlocked");
    cluster.pod(2).point =
        Point::At { side: PausePoint::Before, duration: Ok(Some(Duration::from_secs(300))) };
    cluster.tick(1000);
    cluster.settle();
    cluster.pod(9).facts.ready = true;
    cluster.settle();
    let hold = cluster.status().hold.unwrap();
    assert_eq!(hold.id, id);
    assert_eq!(hold.until.unwrap().0.duration_since(hold.since.0).as_secs(), 300);
}

#[test]
fn a_resume_passes_the_point_only_while_the_condition_names_it() {
    let (mut cluster, id) = blocked(PausePoint::Before, 9, "WhenBlocked");
    cluster.request_resume(&id);
    cluster.settle();
    assert_eq!(
        (cluster.status().passed, cluster.count_events(reason::RESUME_IGNORED)),
        (None, 1),
        "too early"
    );
    cluster.tick(60);
    cluster.settle();
    assert!(blocked_message(&cluster).is_some());
    cluster.request_resume("web-other@2");
    cluster.settle();
    assert_eq!(
        (cluster.status().passed, cluster.count_events(reason::RESUME_IGNORED)),
        (None, 2),
        "another one"
    );
    cluster.request_resume(&id);
    cluster.settle();
    assert!(cluster.is_complete());
    assert_eq!(cluster.count_events(reason::PAUSE_POINT_REACHED), 0);
}

#[test]
fn a_resume_of_all_points_passes_a_blocked_one() {
    let (mut cluster, _) = blocked(PausePoint::Before, 9, "WhenBlocked");
    cluster.request_resume("*@2");
    cluster.settle();
    assert!(cluster.is_complete());
}

#[test]
fn a_restart_does_not_restart_the_grace_time() {
    let (mut cluster, _) = blocked(PausePoint::Before, 9, "WhenBlocked");
    for _ in 0..3 {
        cluster.tick(20);
        cluster.restart();
        cluster.rest();
    }
    assert!(blocked_message(&cluster).is_some());
}

#[test]
fn a_rollout_that_wants_no_more_updated_pods_is_blocked_below_the_ceiling_too() {
    let mut cluster = Cluster::running(&json!({
        "replicas": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 0}},
    }));
    cluster.prioritize(&[9, 8]);
    cluster.pause_at(1, PausePoint::Before);
    cluster.pod(8).facts.ready = false;
    cluster.pod(9).facts.ready = false;
    cluster.set_image("v2");
    cluster.settle();
    wait_out_the_grace_time(&mut cluster);
    assert!(blocked_message(&cluster).is_some());
    assert_eq!(cluster.active().count(), 11);
}

#[test]
fn a_hold_ends_what_was_blocked() {
    let (mut cluster, _) = blocked(PausePoint::Before, 9, "WhenBlocked");
    wait_out_the_grace_time(&mut cluster);
    assert!(cluster.status().blocked.is_some());
    let first = cluster.pause_at(0, PausePoint::Before);
    while cluster.status().hold.is_none() {
        cluster.step();
    }
    let status = cluster.status();
    assert_eq!((status.hold.unwrap().id, status.blocked), (format!("{first}@2"), None));
    cluster.settle();
    assert_eq!(blocked_message(&cluster), None);
}
