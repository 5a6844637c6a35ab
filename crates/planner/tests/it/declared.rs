//! Declared pause points: where a rollout pauses, and what scaling, edits and lost pods do to them.

use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_planner::rollout_order;
use serde_json::{Value, json};

use crate::model::Cluster;

fn cluster(replicas: i32, points: &Value) -> Cluster {
    Cluster::running(&json!({
        "replicas": replicas,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1},
            "pausePoints": points,
        },
    }))
}

fn rolling(replicas: i32, points: &Value) -> Cluster {
    let mut cluster = cluster(replicas, points);
    cluster.set_image("v2");
    cluster.settle();
    cluster
}

/// The id of the hold, and the numbers of pods of v1 and v2.
fn held(cluster: &Cluster) -> (String, usize, usize) {
    let hold = cluster.status().hold.map(|hold| hold.id).unwrap_or_default();
    (hold, cluster.of_image("v1"), cluster.of_image("v2"))
}

fn resume(cluster: &mut Cluster) {
    cluster.resume();
    cluster.settle();
}

#[test]
fn a_number_and_a_percentage_pause_with_so_many_updated_pods_and_all_replicas() {
    let mut cluster = rolling(
        12,
        &json!([{"name": "canary", "afterUpdated": 1}, {"name": "quarter", "afterUpdated": "25%"}]),
    );
    assert_eq!(held(&cluster), ("canary@2".to_owned(), 11, 1));
    resume(&mut cluster);
    assert_eq!(held(&cluster), ("quarter@2".to_owned(), 9, 3));
    resume(&mut cluster);
    assert!(cluster.is_complete());
    assert_eq!(cluster.count_events(reason::PAUSE_POINT_REACHED), 2);
    // The points of a complete rollout are forgotten: the next one pauses again.
    assert_eq!(cluster.status().passed_points, None);
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!(cluster.status().hold.unwrap().id, "canary@3");
}

#[test]
fn the_first_creation_meets_no_point() {
    let cluster =
        cluster(4, &json!([{"name": "canary", "afterUpdated": 1}, {"name": "all", "beforePriority": 9}]));
    assert!(cluster.is_complete());
    assert_eq!(cluster.count_events(reason::PAUSE_POINT_REACHED), 0);
}

#[test]
fn a_number_is_reached_only_when_its_updated_pods_are_available() {
    let mut cluster = cluster(4, &json!([{"name": "canary", "afterUpdated": 1}]));
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(held(&cluster), (String::new(), 3, 1));
    cluster.broken.clear();
    let now = cluster.now;
    for pod in cluster.pods.iter_mut().filter(|pod| !pod.facts.ready) {
        pod.facts.ready = true;
        pod.facts.ready_since = Some(now);
    }
    cluster.settle();
    assert_eq!(held(&cluster), ("canary@2".to_owned(), 3, 1));
}

#[test]
fn a_timed_point_goes_on_by_itself() {
    let mut cluster = cluster(4, &json!([{"name": "canary", "afterUpdated": 1, "duration": "30s"}]));
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(held(&cluster).0, "canary@2");
    cluster.tick(31);
    cluster.settle();
    assert!(cluster.is_complete());
}

#[test]
fn a_point_before_a_priority_pauses_before_the_first_pod_of_that_priority_or_a_lower_one() {
    let mut cluster = cluster(6, &json!([{"name": "leaders", "beforePriority": 1}]));
    cluster.prioritize(&[5, 5, 3, 1, 0, -2]);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(held(&cluster), ("leaders@2".to_owned(), 3, 3));
}

#[test]
fn a_point_before_nodes_pauses_before_their_first_pod() {
    let mut cluster = cluster(6, &json!([{"name": "pool", "beforeNodes": {"matchLabels": {"pool": "n2"}}}]));
    for (index, node) in ["n0", "n0", "n1", "n2", "n2", "n3"].into_iter().enumerate() {
        let pod = cluster.pod(index);
        pod.facts.node = Some(node.into());
        pod.facts.priority = Some(6 - i32::try_from(index).unwrap());
    }
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(held(&cluster), ("pool@2".to_owned(), 3, 3));
    assert_eq!(cluster.status().hold.unwrap().node.as_deref(), Some("n2"));
}

#[test]
fn groups_of_nodes_go_one_after_the_other_and_the_rollout_pauses_between_them() {
    let mut cluster = cluster(6, &json!([{"name": "each", "betweenNodeGroups": "pool"}]));
    for (index, node) in ["n2", "n0", "n3", "n1", "n0", "n2"].into_iter().enumerate() {
        cluster.pod(index).facts.node = Some(node.into());
    }
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(held(&cluster), ("each.n1@2".to_owned(), 4, 2));
    let mut snapshot = cluster.observed();
    snapshot.nodes = cluster.nodes.iter().map(|(name, facts)| (name.clone(), Some(facts.clone()))).collect();
    let why = rollout_order(&snapshot).places.into_iter().map(|place| place.why.to_string());
    assert_eq!(
        why.collect::<Vec<_>>(),
        [
            "priority 0, n1 before n2",
            "priority 0, tie: UID",
            "priority 0, n2 before no group",
            "priority 0, last"
        ]
    );
    resume(&mut cluster);
    assert_eq!(held(&cluster), ("each.n2@2".to_owned(), 3, 3));
    // The node n3 is gone: its pods have no group, and are last.
    resume(&mut cluster);
    assert_eq!(held(&cluster), ("each@2".to_owned(), 1, 5));
    resume(&mut cluster);
    assert!(cluster.is_complete());
}

#[test]
fn points_at_one_place_pause_in_the_order_of_the_list_and_before_the_point_of_the_pod() {
    let mut cluster =
        cluster(4, &json!([{"name": "two", "afterUpdated": 2}, {"name": "low", "beforePriority": 0}]));
    cluster.prioritize(&[5, 5, 0, 0]);
    let name = cluster.pause_at(2, ordereddeployment_api::PausePoint::Before);
    // The pod with the point is the first of its priority.
    cluster.pod(2).facts.priority = Some(0);
    cluster.pod(3).facts.priority = Some(-1);
    cluster.set_image("v2");
    cluster.settle();
    for id in ["two@2".to_owned(), "low@2".to_owned(), format!("{name}@2")] {
        assert_eq!(held(&cluster), (id, 2, 2));
        resume(&mut cluster);
    }
    assert!(cluster.is_complete());
}

#[test]
fn all_points_are_passed_by_one_request() {
    let mut cluster =
        rolling(8, &json!([{"name": "canary", "afterUpdated": 1}, {"name": "half", "afterUpdated": "50%"}]));
    cluster.request_resume("*@2");
    cluster.settle();
    assert!(cluster.is_complete());
    assert_eq!(cluster.count_events(reason::PAUSE_POINT_REACHED), 1);
}

#[test]
fn a_late_resume_passes_only_the_point_that_it_names() {
    let mut cluster =
        rolling(8, &json!([{"name": "canary", "afterUpdated": 1}, {"name": "half", "afterUpdated": "50%"}]));
    resume(&mut cluster);
    assert_eq!(held(&cluster).0, "half@2");
    for id in ["canary@2", "half@1", "half", "half@3"] {
        cluster.request_resume(id);
        cluster.settle();
        assert_eq!(held(&cluster), ("half@2".to_owned(), 4, 4), "{id}");
    }
}

#[test]
fn lost_pods_come_back_from_the_old_set_until_the_point_is_passed() {
    let mut cluster = rolling(6, &json!([{"name": "canary", "afterUpdated": 1}]));
    let lost: Vec<_> =
        cluster.active().filter(|pod| cluster.image(pod) == "v1").map(|pod| pod.facts.uid.clone()).collect();
    for uid in &lost {
        cluster.delete(uid);
    }
    cluster.settle();
    assert_eq!(held(&cluster), ("canary@2".to_owned(), 5, 1));
    resume(&mut cluster);
    assert!(cluster.is_complete());
}

#[test]
fn a_rollout_that_loses_all_old_pods_before_its_point_gets_them_back() {
    let mut cluster = cluster(4, &json!([{"name": "canary", "afterUpdated": 1}]));
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle();
    let lost: Vec<_> = cluster.active().map(|pod| pod.facts.uid.clone()).collect();
    for uid in &lost {
        cluster.delete(uid);
    }
    cluster.settle();
    assert_eq!(held(&cluster), (String::new(), 3, 1));
}

#[test]
fn a_percentage_follows_the_replicas_while_it_is_ahead_and_in_a_hold() {
    let mut cluster = rolling(
        10,
        &json!([{"name": "canary", "afterUpdated": 1}, {"name": "quarter", "afterUpdated": "25%"}]),
    );
    cluster.edit(|spec| spec.replicas = 20);
    cluster.settle();
    assert_eq!(held(&cluster), ("canary@2".to_owned(), 19, 1));
    resume(&mut cluster);
    assert_eq!(held(&cluster), ("quarter@2".to_owned(), 15, 5));
    for (replicas, old, new) in [(40, 30, 10), (10, 7, 3), (4, 3, 1), (1, 1, 1), (10, 7, 3)] {
        cluster.edit(|spec| spec.replicas = replicas);
        cluster.settle();
        assert_eq!(held(&cluster), ("quarter@2".to_owned(), old, new), "{replicas}");
    }
}

#[test]
fn scaling_a_running_rollout_passes_no_point() {
    let mut cluster =
        cluster(10, &json!([{"name": "half", "afterUpdated": 5}, {"name": "low", "beforePriority": -1}]));
    cluster.prioritize(&[0, 0, 0, 0, 0, 0, 0, 0, -1, -1]);
    cluster.set_image("v2");
    while cluster.of_image("v2") < 4 {
        cluster.rest();
        cluster.tick(1);
    }
    cluster.edit(|spec| spec.replicas = 2);
    cluster.settle();
    // Of equal numbers, the first of the list.
    assert_eq!(held(&cluster), ("half@2".to_owned(), 1, 1));
    resume(&mut cluster);
    assert_eq!(held(&cluster), ("low@2".to_owned(), 1, 1));
}

#[test]
fn a_rollout_scaled_to_zero_is_suspended_and_goes_on_where_it_was() {
    let mut cluster =
        rolling(10, &json!([{"name": "canary", "afterUpdated": 1}, {"name": "half", "afterUpdated": "50%"}]));
    cluster.resume();
    while cluster.of_image("v2") < 3 {
        cluster.rest();
        cluster.tick(1);
    }
    cluster.edit(|spec| spec.replicas = 0);
    cluster.settle();
    assert_eq!((cluster.pods.len(), cluster.status().hold), (0, None));
    assert!(!cluster.is_complete());
    cluster.edit(|spec| spec.replicas = 10);
    cluster.settle();
    assert_eq!(held(&cluster), ("half@2".to_owned(), 5, 5));
    assert_eq!(cluster.status().rollout.unwrap().suspended, None);
}

#[test]
fn removing_the_held_point_ends_the_hold_and_editing_it_does_not() {
    let mut cluster = rolling(10, &json!([{"name": "canary", "afterUpdated": 2}]));
    cluster.edit(|spec| {
        spec.strategy.pause_points.as_mut().unwrap()[0].after_updated =
            Some(serde_json::from_value(json!("80%")).unwrap());
    });
    cluster.settle();
    assert_eq!(held(&cluster), ("canary@2".to_owned(), 8, 2));
    cluster.edit(|spec| spec.strategy.pause_points = None);
    cluster.settle();
    assert!(cluster.is_complete());
}

#[test]
fn the_duration_of_a_held_point_follows_the_spec() {
    let mut cluster = rolling(4, &json!([{"name": "canary", "afterUpdated": 1}]));
    assert_eq!(cluster.status().hold.unwrap().until, None);
    cluster.edit(|spec| spec.strategy.pause_points.as_mut().unwrap()[0].duration = Some("20s".to_owned()));
    cluster.rest();
    assert!(cluster.status().hold.unwrap().until.is_some());
    cluster.tick(30);
    cluster.settle();
    assert!(cluster.is_complete());
}

#[test]
fn a_new_point_whose_number_is_exceeded_is_ahead() {
    let mut cluster = rolling(10, &json!([{"name": "half", "afterUpdated": 5}]));
    cluster.edit(|spec| {
        let point = json!([
            {"name": "canary", "afterUpdated": 1}, {"name": "half", "afterUpdated": 5}, {"name": "most", "afterUpdated": 8},
        ]);
        spec.strategy.pause_points = Some(serde_json::from_value(point).unwrap());
    });
    cluster.settle();
    assert_eq!(held(&cluster), ("half@2".to_owned(), 5, 5));
    resume(&mut cluster);
    assert_eq!(held(&cluster), ("canary@2".to_owned(), 5, 5));
    resume(&mut cluster);
    assert_eq!(held(&cluster), ("most@2".to_owned(), 2, 8));
}

#[test]
fn recreate_pauses_at_declared_places_of_the_order() {
    let mut cluster = Cluster::running(&json!({
        "replicas": 4,
        "strategy": {"type": "Recreate", "pausePoints": [{"name": "low", "beforePriority": 0}]},
    }));
    cluster.prioritize(&[3, 2]);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(held(&cluster), ("low@2".to_owned(), 2, 0));
    resume(&mut cluster);
    assert!(cluster.is_complete());
}

#[test]
fn the_history_records_each_hold_and_each_resume() {
    let mut cluster = rolling(4, &json!([{"name": "canary", "afterUpdated": 1}]));
    resume(&mut cluster);
    let history = cluster.status().history.unwrap();
    let entries: Vec<_> =
        history.iter().map(|entry| format!("{:?} {}", entry.action, entry.id.clone().unwrap())).collect();
    assert_eq!(entries, ["Held canary@2", "Resumed canary@2"]);
    assert_eq!(history[1].reason, "by request");
}

#[test]
fn the_condition_names_the_point_and_how_to_resume_it() {
    let cluster = rolling(4, &json!([{"name": "canary", "afterUpdated": 1}]));
    let held = cluster.status().condition(condition::HELD).cloned().unwrap();
    assert!(
        held.message.starts_with("Paused at pause point canary, rollout to revision 2"),
        "{}",
        held.message
    );
    assert!(held.message.contains("kubectl ordered resume web"), "{}", held.message);
}

#[test]
fn an_undo_in_the_middle_goes_back_without_a_pause() {
    let mut cluster =
        rolling(10, &json!([{"name": "canary", "afterUpdated": 1}, {"name": "half", "afterUpdated": 5}]));
    resume(&mut cluster);
    assert_eq!(held(&cluster), ("half@2".to_owned(), 5, 5));
    cluster.set_image("v1");
    cluster.settle();
    assert!(cluster.is_complete());
    assert_eq!(cluster.of_image("v1"), 10);
}

#[test]
fn a_point_that_is_declared_after_its_number_was_exceeded_brings_no_old_pod_back() {
    let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let mut cluster = Cluster::running(&json!({"replicas": 1, "strategy": strategy}));
    cluster.set_image("v2");
    cluster.pods.remove(0);
    cluster.step();
    // Both pods are updated: there is no old pod to replace.
    cluster.edit(|spec| spec.replicas = 2);
    cluster.settle();
    let points = json!([{"name": "canary", "afterUpdated": 1}]);
    cluster.edit(|spec| spec.strategy.pause_points = serde_json::from_value(points).unwrap());
    cluster.settle();
    assert!(cluster.deleted.is_empty(), "{:?}", cluster.deleted);
    assert_eq!(cluster.active().count(), 2);
}
