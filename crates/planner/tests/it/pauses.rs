//! Pause points: where a rollout pauses, and what makes it continue.

use std::time::Duration;

use ordereddeployment_api::{PausePoint, names::condition, names::reason};
use ordereddeployment_planner::{Malformed, Point, Set, make_hashes_unique};
use serde_json::json;

use crate::model::Cluster;

/// Ten pods of priorities 5, 5, 3 and 0s, with a pause point on the 3.
fn ten(side: PausePoint) -> (Cluster, String) {
    let mut cluster = Cluster::running(&json!({
        "replicas": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
    }));
    cluster.prioritize(&[5, 5, 3]);
    let name = cluster.pause_at(2, side);
    cluster.set_image("v2");
    cluster.settle();
    (cluster, name)
}

#[test]
fn a_point_before_holds_with_the_pods_ahead_of_it_replaced() {
    let (cluster, name) = ten(PausePoint::Before);
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (8, 2));
    let hold = cluster.status().hold.unwrap();
    assert_eq!((hold.pod.as_str(), hold.point), (name.as_str(), PausePoint::Before));
    assert_eq!(hold.id, format!("{name}@2"));
    assert_eq!(cluster.count_events(reason::PAUSE_POINT_REACHED), 1);
    let held = cluster.status().condition(condition::HELD).cloned().unwrap();
    assert!(held.message.contains("kubectl ordered resume web"), "{}", held.message);
}

#[test]
fn a_point_after_holds_once_its_pod_is_deleted() {
    let (cluster, name) = ten(PausePoint::After);
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (7, 3));
    let hold = cluster.status().hold.unwrap();
    assert_eq!((hold.pod.as_str(), hold.point), (name.as_str(), PausePoint::After));
    assert_eq!(cluster.deleted.last().unwrap().0, name);
}

#[test]
fn a_point_after_on_the_last_old_pod_holds_nothing() {
    let mut cluster = Cluster::running(&json!({"replicas": 3}));
    cluster.prioritize(&[0, 0, -1]);
    cluster.pause_at(2, PausePoint::After);
    cluster.set_image("v2");
    cluster.settle();
    assert!(cluster.is_complete());
    assert_eq!(cluster.count_events(reason::PAUSE_POINT_REACHED), 0);
}

#[test]
fn a_resume_naming_the_hold_continues_and_any_other_is_ignored_with_a_warning() {
    let (mut cluster, name) = ten(PausePoint::Before);
    for wrong in ["", "web", &format!("{name}@1"), "other@2", "*@1", "*@3", "*", &name] {
        cluster.request_resume(wrong);
        cluster.settle();
        assert!(cluster.status().hold.is_some(), "{wrong}");
        assert_eq!(cluster.status().resume_requested, None);
    }
    assert_eq!(cluster.count_events(reason::RESUME_IGNORED), 8);
    cluster.resume();
    cluster.settle();
    assert!(cluster.is_complete());
    assert_eq!(cluster.of_image("v2"), 10);
    assert_eq!(cluster.count_events(reason::PAUSE_POINT_RESUMED), 1);
}

#[test]
fn a_late_resume_never_skips_another_point() {
    let (mut cluster, _) = ten(PausePoint::Before);
    let first = cluster.status().hold.unwrap().id;
    let second = cluster.active().find(|pod| pod.facts.priority.is_none()).unwrap().name.clone();
    cluster.pods.iter_mut().find(|pod| pod.name == second).unwrap().point =
        Point::At { side: PausePoint::Before, duration: Ok(None) };
    cluster.request_resume(&first);
    cluster.settle();
    assert_eq!(cluster.status().hold.unwrap().pod, second);
    cluster.request_resume(&first);
    cluster.settle();
    assert_eq!(cluster.status().hold.unwrap().pod, second);
    assert_eq!(cluster.count_events(reason::RESUME_IGNORED), 1);
}

#[test]
fn a_resume_of_all_points_ends_this_hold_and_passes_all_later_points_of_the_rollout() {
    let (mut cluster, _) = ten(PausePoint::Before);
    let last = cluster.active().filter(|pod| pod.facts.priority.is_none()).last().unwrap().name.clone();
    cluster.pods.iter_mut().find(|pod| pod.name == last).unwrap().point =
        Point::At { side: PausePoint::Before, duration: Ok(None) };
    cluster.request_resume("*@2");
    cluster.settle();
    assert!(cluster.is_complete());
    // The next rollout holds again.
    cluster.pause_at(4, PausePoint::Before);
    cluster.set_image("v3");
    cluster.settle();
    assert!(cluster.status().hold.is_some());
}

#[test]
fn a_hold_stays_without_its_pod_and_replaces_lost_pods_in_every_set() {
    let (mut cluster, name) = ten(PausePoint::Before);
    let uid = cluster.pods.iter().find(|pod| pod.name == name).unwrap().facts.uid.clone();
    cluster.delete(&uid);
    cluster.settle();
    assert_eq!(cluster.status().hold.unwrap().pod, name);
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (8, 2));
    cluster.resume();
    cluster.settle();
    assert!(cluster.is_complete());
}

#[test]
fn a_hold_ends_when_its_annotation_is_removed_but_not_when_it_is_malformed_or_the_order_changes() {
    let (mut cluster, name) = ten(PausePoint::Before);
    let held = |cluster: &mut Cluster, point: Point| {
        let pod = cluster.pods.iter_mut().find(|pod| pod.name == name).unwrap();
        pod.point = point;
        pod.facts.priority = Some(-7);
        cluster.settle();
        cluster.status().hold.is_some()
    };
    assert!(held(&mut cluster, Point::Malformed));
    assert!(held(&mut cluster, Point::At { side: PausePoint::After, duration: Err(Malformed) }));
    assert!(!held(&mut cluster, Point::None));
    assert!(cluster.is_complete());
}

#[test]
fn a_timed_pause_follows_its_annotation_and_ends_by_itself_even_while_paused() {
    let mut cluster = Cluster::running(&json!({"replicas": 4}));
    cluster.prioritize(&[5]);
    let timed =
        |seconds| Point::At { side: PausePoint::Before, duration: Ok(Some(Duration::from_secs(seconds))) };
    cluster.pod(0).point = timed(600);
    cluster.set_image("v2");
    cluster.settle();
    let hold = cluster.status().hold.unwrap();
    assert_eq!(hold.until.unwrap().0.as_second() - hold.since.0.as_second(), 600);
    cluster.pods.iter_mut().find(|pod| pod.name == hold.pod).unwrap().point = timed(60);
    cluster.edit(|spec| spec.paused = true);
    cluster.tick(30);
    cluster.settle();
    assert!(cluster.status().hold.is_some());
    cluster.tick(60);
    cluster.settle();
    assert_eq!(cluster.status().hold, None);
    assert_eq!(cluster.of_image("v2"), 0, "spec.paused still holds");
    cluster.edit(|spec| spec.paused = false);
    cluster.settle();
    assert!(cluster.is_complete());
}

#[test]
fn a_new_template_clears_the_hold_before_any_resume_and_holds_again() {
    let (mut cluster, name) = ten(PausePoint::Before);
    let id = cluster.status().hold.unwrap().id;
    cluster.set_image("v3");
    cluster.request_resume(&id);
    cluster.settle();
    let hold = cluster.status().hold.unwrap();
    assert_eq!((hold.pod.as_str(), hold.revision), (name.as_str(), 3));
    assert_eq!(cluster.count_events(reason::RESUME_IGNORED), 0);
}

#[test]
fn an_undo_of_a_release_that_served_is_a_rollout_whose_own_points_hold() {
    let (mut cluster, _) = ten(PausePoint::Before);
    cluster.resume();
    cluster.settle();
    assert!(cluster.is_complete());
    let updated = cluster.active().find(|pod| cluster.image(pod) == "v2").unwrap().name.clone();
    cluster.pods.iter_mut().find(|pod| pod.name == updated).unwrap().point =
        Point::At { side: PausePoint::Before, duration: Ok(None) };
    cluster.set_image("v1");
    cluster.settle();
    let hold = cluster.status().hold.unwrap();
    assert_eq!((hold.pod, hold.revision), (updated, 3));
}

#[test]
fn a_hold_stops_the_clock_of_the_progress_deadline_until_it_is_resumed() {
    let (mut cluster, _) = ten(PausePoint::Before);
    cluster.tick(3600);
    cluster.settle();
    let progressing = cluster.status().condition(condition::PROGRESSING).cloned().unwrap();
    assert_eq!(progressing.reason, reason::ROLLOUT_HELD);
    cluster.broken.insert("v2".into());
    cluster.resume();
    cluster.tick(1);
    cluster.rest();
    let progressing = cluster.status().condition(condition::PROGRESSING).cloned().unwrap();
    assert_ne!(progressing.reason, reason::PROGRESS_DEADLINE_EXCEEDED);
}

#[test]
fn a_point_lost_before_it_was_reached_is_reported() {
    let mut cluster = Cluster::running(&json!({
        "replicas": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
    }));
    cluster.prioritize(&[5, 5, 3, 0, 0, 0, 0, 0, 0, -1]);
    cluster.pause_at(2, PausePoint::Before);
    let last = cluster.pause_at(9, PausePoint::Before);
    cluster.set_image("v2");
    cluster.settle();
    assert!(cluster.events.iter().any(|event| event.message.contains("2 pause points")));
    let uid = cluster.pods.iter().find(|pod| pod.name == last).unwrap().facts.uid.clone();
    cluster.delete(&uid);
    cluster.settle();
    assert_eq!(cluster.count_events(reason::PAUSE_POINT_LOST), 1);
    cluster.settle();
    assert_eq!(cluster.count_events(reason::PAUSE_POINT_LOST), 1, "published once");
}

#[test]
fn recreate_honours_pause_points_and_does_not_refill_what_a_hold_leaves() {
    let mut cluster = Cluster::running(&json!({"replicas": 6, "strategy": {"type": "Recreate"}}));
    cluster.prioritize(&[5, 5, 3]);
    cluster.pause_at(2, PausePoint::Before);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (4, 0));
    assert_eq!(cluster.count_events(reason::HOLD_BELOW_REPLICAS), 1);
    cluster.resume();
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 6);
}

#[test]
fn a_set_deleted_by_hand_ends_no_hold() {
    let (mut cluster, _) = ten(PausePoint::Before);
    let hold = cluster.status().hold.unwrap();
    // Another template has had a collision since.
    cluster.deployment.status.get_or_insert_default().collision_count = Some(1);
    cluster.delete_set(1);
    cluster.settle();
    assert_eq!(cluster.status().hold.unwrap().id, hold.id);
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (8, 2));
}

#[test]
fn an_older_set_of_the_same_hash_that_is_being_deleted_ends_no_hold() {
    let (mut cluster, _) = ten(PausePoint::Before);
    let (hold, rollout) = (cluster.status().hold, cluster.status().rollout);
    let current = cluster.sets[1].clone();
    // It was adopted from another deployment.
    let older = Set {
        name: "api".to_owned(),
        uid: "older".into(),
        created: cluster.sets[0].created,
        replicas: 0,
        terminating: true,
        ..current
    };
    cluster.sets.push(older);
    make_hashes_unique(&mut cluster.sets);
    cluster.rest();
    assert_eq!((cluster.status().hold, cluster.status().rollout), (hold, rollout));
}

#[test]
fn under_recreate_a_hold_keeps_no_more_than_replicas() {
    let mut cluster = Cluster::running(&json!({"replicas": 10, "strategy": {"type": "Recreate"}}));
    cluster.prioritize(&[5, 5, 3]);
    cluster.pause_at(2, PausePoint::Before);
    cluster.set_image("v2");
    cluster.edit(|spec| spec.replicas = 5);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (5, 0));
    cluster.edit(|spec| spec.replicas = 0);
    cluster.settle();
    cluster.edit(|spec| spec.replicas = 5);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (5, 0));
}

#[test]
fn unavailable_pods_ahead_of_the_point_are_deleted_before_the_rollout_counts_as_blocked() {
    let mut cluster = Cluster::running(&json!({
        "replicas": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
    }));
    cluster.prioritize(&[9, 8, 7]);
    let second = cluster.pod(1).name.clone();
    cluster.pause_at(2, PausePoint::Before);
    cluster.pod(1).facts.ready = false;
    cluster.pod(9).facts.ready = false;
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.deleted[0].0, second);
}

#[test]
fn a_hold_that_leaves_all_pods_warns_of_nothing() {
    let mut cluster = Cluster::running(&json!({"replicas": 3, "strategy": {"type": "Recreate"}}));
    cluster.prioritize(&[5]);
    cluster.pause_at(0, PausePoint::Before);
    cluster.set_image("v2");
    cluster.settle();
    assert!(cluster.status().hold.is_some());
    assert_eq!(cluster.count_events(reason::HOLD_BELOW_REPLICAS), 0);
}

#[test]
fn the_end_of_a_pause_is_a_whole_second_and_never_too_early() {
    let mut cluster = Cluster::running(&json!({"replicas": 4}));
    cluster.prioritize(&[5]);
    cluster.pod(0).point =
        Point::At { side: PausePoint::Before, duration: Ok(Some(Duration::from_millis(1500))) };
    cluster.set_image("v2");
    while cluster.status().hold.is_none() {
        assert!(cluster.step());
    }
    let hold = cluster.status().hold.unwrap();
    assert_eq!(hold.until.unwrap().0.as_second() - hold.since.0.as_second(), 2);
    cluster.tick(1);
    cluster.rest();
    assert!(cluster.status().hold.is_some());
    cluster.tick(1);
    cluster.rest();
    assert_eq!(cluster.status().hold, None);
}

#[test]
fn a_malformed_duration_neither_ends_a_hold_nor_moves_its_end() {
    let mut cluster = Cluster::running(&json!({"replicas": 4}));
    cluster.prioritize(&[5]);
    cluster.pod(0).point =
        Point::At { side: PausePoint::Before, duration: Ok(Some(Duration::from_secs(60))) };
    cluster.set_image("v2");
    cluster.settle();
    let hold = cluster.status().hold.unwrap();
    let pod = cluster.pods.iter_mut().find(|pod| pod.name == hold.pod).unwrap();
    pod.point = Point::At { side: PausePoint::Before, duration: Err(Malformed) };
    cluster.settle();
    assert_eq!(cluster.status().hold.unwrap().until, hold.until);
    // Without a duration it lasts until it is resumed.
    cluster.pods.iter_mut().find(|pod| pod.name == hold.pod).unwrap().point =
        Point::At { side: PausePoint::Before, duration: Ok(None) };
    cluster.settle();
    assert_eq!(cluster.status().hold.unwrap().until, None);
    let held = cluster.status().condition(condition::HELD).cloned().unwrap();
    assert!(held.message.contains("until it is resumed"), "{}", held.message);
}

#[test]
fn a_hold_replaces_its_last_old_pod_and_stays_without_an_old_set() {
    let (mut cluster, _) = ten(PausePoint::Before);
    cluster.edit(|spec| spec.replicas = 1);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (1, 0));
    let uid = cluster.pod(0).facts.uid.clone();
    cluster.delete(&uid);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.status().hold.is_some()), (1, true));
    // The set itself is deleted: nobody has passed the point.
    cluster.delete_set(0);
    cluster.settle();
    assert!(cluster.status().hold.is_some());
    cluster.resume();
    cluster.settle();
    assert!(cluster.is_complete());
}
