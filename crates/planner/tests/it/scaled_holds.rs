//! Scaling while a rollout has pause points ahead, and what a hold keeps.

use std::time::Duration;

use ordereddeployment_api::PausePoint;
use ordereddeployment_planner::{Point, Purpose};
use serde_json::json;

use crate::model::Cluster;

fn rolling(replicas: i32, surge: i32, unavailable: i32) -> Cluster {
    Cluster::running(&json!({
        "replicas": replicas,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
        },
    }))
}

/// Ten pods in a rollout whose new pods never become ready; the third pod of the order has a pause point.
fn running(side: PausePoint) -> (Cluster, String) {
    let mut cluster = rolling(10, 1, 1);
    cluster.prioritize(&[9, 8, 7]);
    let name = cluster.pause_at(2, side);
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.status().hold, None);
    (cluster, name)
}

/// The new pods become ready after all.
fn make_ready(cluster: &mut Cluster) {
    cluster.broken.clear();
    let now = cluster.now;
    for pod in &mut cluster.pods {
        pod.facts.ready = true;
        pod.facts.ready_since.get_or_insert(now);
    }
}

#[test]
fn the_split_over_old_sets_yields_to_the_points() {
    let mut cluster = rolling(8, 2, 2);
    // Two pods of the first revision stay at their points.
    cluster.prioritize(&[0, 0, 9, 9, 9, 9, 9, 9]);
    cluster.pause_at(0, PausePoint::Before);
    cluster.pause_at(1, PausePoint::Before);
    cluster.broken.insert("v3".into());
    cluster.set_image("v2");
    cluster.settle();
    assert!(cluster.status().hold.is_some());
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (2, 6));
    cluster.set_image("v3");
    cluster.settle();
    let deleted = cluster.deleted.len();
    cluster.edit(|spec| spec.replicas = 4);
    cluster.settle();
    assert_eq!(cluster.of_image("v1"), 2, "the pods with points stay");
    let scaled = cluster.deleted[deleted..].iter().filter(|(_, purpose)| *purpose == Purpose::Scale);
    assert!(scaled.count() > 0);
    // It becomes idle: no pod is created in one old set and deleted in the other.
    let before = (cluster.count, cluster.deleted.len());
    cluster.tick(5);
    cluster.settle();
    assert_eq!((cluster.count, cluster.deleted.len()), before);
}

#[test]
fn if_only_pods_with_points_are_left_the_first_one_is_the_barrier() {
    let mut cluster = rolling(4, 1, 1);
    cluster.prioritize(&[9, 8, 7, 6]);
    let names: Vec<_> = (0..4).map(|index| cluster.pause_at(index, PausePoint::Before)).collect();
    cluster.set_image("v2");
    cluster.edit(|spec| spec.replicas = 2);
    cluster.settle();
    let hold = cluster.status().hold.unwrap();
    assert!(names.contains(&hold.pod));
    assert!(cluster.active().any(|pod| pod.name == hold.pod), "the held pod goes last");
    assert!(cluster.of_image("v1") > 0);
}

#[test]
fn a_point_after_is_kept_when_scaling_deletes_the_pods_behind_it() {
    let mut cluster = rolling(4, 1, 1);
    cluster.prioritize(&[9, 5, 4, 3]);
    let name = cluster.pause_at(2, PausePoint::After);
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.status().hold), (3, None));
    cluster.edit(|spec| spec.replicas = 1);
    cluster.settle();
    let hold = cluster.status().hold.expect("it is held before nothing is left behind the point");
    assert_eq!(hold.pod, name);
    make_ready(&mut cluster);
    cluster.settle();
    assert!(cluster.status().hold.is_some() && cluster.of_image("v1") > 0);
}

/// Held at a point of ten minutes; another point, without a duration, follows.
fn timed_before_untimed() -> (Cluster, String) {
    let mut cluster = rolling(10, 1, 1);
    cluster.prioritize(&[0, 0, 0, 0, 0, 9, 8]);
    let timed = Point::At { side: PausePoint::Before, duration: Ok(Some(Duration::from_secs(600))) };
    cluster.pod(6).point = timed;
    let name = cluster.pause_at(1, PausePoint::Before);
    cluster.set_image("v2");
    (cluster, name)
}

#[test]
fn an_untimed_point_survives_scaling_in_a_timed_hold() {
    for replicas in [2, 1, 0] {
        let (mut cluster, name) = timed_before_untimed();
        cluster.settle();
        assert!(cluster.status().hold.unwrap().until.is_some());
        cluster.edit(|spec| spec.replicas = replicas);
        cluster.settle();
        cluster.edit(|spec| spec.replicas = 10);
        cluster.settle();
        cluster.tick(3600);
        cluster.settle();
        let hold = cluster.status().hold.unwrap_or_else(|| panic!("{replicas}"));
        assert_eq!((hold.pod, hold.until), (name, None), "{replicas}");
        assert!(cluster.of_image("v1") > 0, "{replicas}");
    }
}

#[test]
fn a_remaining_timed_point_does_not_replace_an_untimed_one() {
    let mut cluster = rolling(4, 0, 1);
    cluster.prioritize(&[9, 8, 7, 6]);
    let timed = Point::At { side: PausePoint::Before, duration: Ok(Some(Duration::from_secs(600))) };
    cluster.pod(1).point = timed;
    let name = cluster.pause_at(2, PausePoint::After);
    cluster.set_image("v2");
    // None of the pods behind the point stays.
    cluster.edit(|spec| spec.replicas = 2);
    cluster.settle();
    cluster.tick(3600);
    cluster.settle();
    let hold = cluster.status().hold.expect("it is not resumed");
    assert_eq!((hold.pod, hold.until), (name, None));
    assert!(cluster.of_image("v1") > 0);
}

#[test]
fn scaling_holds_at_no_point_of_a_set_that_is_being_deleted() {
    let mut cluster = rolling(10, 1, 1);
    cluster.prioritize(&[9, 9, 9, 9, 9]);
    let name = cluster.pause_at(5, PausePoint::Before);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.status().hold.unwrap().pod, name);
    let second = cluster.sets.iter().find(|set| cluster.image_of(set) == "v2").unwrap().uid.clone();
    for pod in cluster.pods.iter_mut().filter(|pod| pod.set == second) {
        pod.facts.priority = Some(20);
    }
    cluster.broken.insert("v3".into());
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!(cluster.status().hold, None);
    let first = cluster.sets.iter().position(|set| set.uid != second && cluster.image_of(set) == "v1");
    cluster.sets[first.unwrap()].terminating = true;
    cluster.edit(|spec| spec.replicas = 8);
    cluster.settle();
    assert_eq!(cluster.status().hold, None, "the garbage collector takes {name}, not scaling");
}

#[test]
fn a_pause_scaled_to_zero_during_another_scaling_keeps_its_split() {
    let (mut cluster, _) = running(PausePoint::Before);
    let old = cluster.of_image("v1");
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    cluster.edit(|spec| spec.replicas = 5);
    // Some evictions were accepted, and the budget refuses the next.
    cluster.pods.remove(9);
    cluster.pods.remove(8);
    cluster.edit(|spec| spec.replicas = 0);
    cluster.settle();
    cluster.edit(|spec| spec.replicas = 10);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), old), (8, 9), "without the surge");
}

#[test]
fn a_pause_scaled_to_zero_is_not_complete_and_keeps_its_old_set() {
    let mut cluster = rolling(10, 1, 1);
    cluster.edit(|spec| spec.revision_history_limit = 0);
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    let old = cluster.of_image("v1");
    assert!(old > 0);
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    cluster.edit(|spec| spec.replicas = 0);
    cluster.settle();
    assert_eq!(cluster.active().count(), 0);
    assert!(!cluster.is_complete());
    cluster.edit(|spec| spec.replicas = 10);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), old), (8, 9), "without the surge");
}

#[test]
fn a_set_that_is_being_deleted_costs_no_pod_of_another_in_a_hold() {
    for mark in [true, false] {
        let mut cluster = rolling(8, 2, 2);
        cluster.prioritize(&[0, 0, 9, 9, 9, 9, 9, 9]);
        let name = cluster.pause_at(0, PausePoint::Before);
        cluster.pause_at(1, PausePoint::Before);
        cluster.broken.insert("v3".into());
        cluster.set_image("v2");
        cluster.settle();
        cluster.set_image("v3");
        cluster.settle();
        if !mark {
            cluster.edit(|spec| spec.paused = true);
            cluster.settle();
        }
        assert!(cluster.active().any(|pod| pod.name == name));
        let deleted = cluster.deleted.len();
        let image: Vec<_> = cluster.sets.iter().map(|set| cluster.image_of(set)).collect();
        let second = image.iter().position(|image| image == "v2").unwrap();
        assert!(cluster.of_image("v2") > 0);
        cluster.sets[second].terminating = true;
        cluster.settle();
        assert_eq!(cluster.of_image("v1"), 2, "the pods with points stay");
        assert_eq!(cluster.deleted.len(), deleted);
    }
}
