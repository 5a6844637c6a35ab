//! Ways past a pause point, or into a standstill, that a review found.

use ordereddeployment_api::{
    AheadPoint, PausePoint, Share,
    names::{condition, reason},
};
use ordereddeployment_planner::Point;
use ordereddeployment_sorter::NodeFacts;
use serde_json::{Value, json};

use crate::model::{Cluster, Compares};

fn running(replicas: i32, surge: i32, unavailable: i32, points: &Value) -> Cluster {
    Cluster::running(&json!({
        "replicas": replicas,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            "pausePoints": points,
        },
    }))
}

fn declare(cluster: &mut Cluster, points: &Value) {
    write_points(cluster, points);
    cluster.settle();
}

/// The same without a decision about it.
fn write_points(cluster: &mut Cluster, points: &Value) {
    cluster.edit(|spec| spec.strategy.pause_points = serde_json::from_value(points.clone()).unwrap());
}

/// Rolls that image out until its first pod is there.
fn begin(cluster: &mut Cluster, image: &str) {
    cluster.set_image(image);
    while cluster.of_image(image) == 0 {
        cluster.step();
    }
}

#[track_caller]
fn assert_held_at(cluster: &Cluster, name: &str) {
    assert!(held(cluster).is_some_and(|id| id.starts_with(name)), "{:?}", cluster.status());
}

fn scale(cluster: &mut Cluster, replicas: i32) {
    cluster.edit(|spec| spec.replicas = replicas);
    cluster.settle();
}

fn held(cluster: &Cluster) -> Option<String> {
    cluster.status().hold.map(|hold| hold.id)
}

#[test]
fn an_image_and_no_replicas_together_keep_a_declared_place() {
    for point in [json!({"beforePriority": 0}), json!({"betweenNodeGroups": "pool"})] {
        let mut declared = point.clone();
        declared["name"] = json!("pool");
        let mut cluster = running(10, 1, 1, &json!([declared]));
        cluster.edit(|spec| spec.replicas = 0);
        cluster.set_image("v2");
        cluster.settle();
        scale(&mut cluster, 10);
        assert!(held(&cluster).is_some_and(|id| id.starts_with("pool")), "{point}: {:?}", cluster.status());
        assert!(cluster.of_image("v1") > 0, "{point}");
    }
}

#[test]
fn a_revision_that_somebody_gives_a_set_takes_no_point_away() {
    let mut cluster = running(6, 1, 1, &json!([]));
    cluster.prioritize(&[9, 8, 7]);
    let name = cluster.pause_at(2, PausePoint::Before);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(held(&cluster), Some(format!("{name}@2")));
    let lost = cluster.pods.iter().position(|pod| pod.name == name).unwrap();
    cluster.pods.remove(lost);
    cluster.sets[0].revision = 100;
    cluster.settle();
    assert_eq!((held(&cluster), cluster.of_image("v2")), (Some(format!("{name}@101")), 2));
}

#[test]
fn the_time_of_a_hold_counts_from_its_begin_without_the_time_at_zero() {
    let point = |duration: &str| json!([{"name": "canary", "afterUpdated": 1, "duration": duration}]);
    let mut cluster = running(4, 1, 1, &point("10m"));
    cluster.set_image("v2");
    cluster.settle();
    cluster.tick(300);
    scale(&mut cluster, 0);
    cluster.tick(3600);
    declare(&mut cluster, &point("1h"));
    scale(&mut cluster, 4);
    cluster.tick(600);
    cluster.settle();
    assert!(held(&cluster).is_some(), "an hour in all");
    cluster.tick(3000);
    cluster.settle();
    assert!(cluster.is_complete());
    // A duration that is added at zero.
    let mut cluster = running(4, 1, 1, &json!([{"name": "canary", "afterUpdated": 1}]));
    cluster.set_image("v2");
    cluster.settle();
    scale(&mut cluster, 0);
    cluster.tick(7200);
    declare(&mut cluster, &point("10m"));
    scale(&mut cluster, 4);
    cluster.tick(300);
    cluster.settle();
    assert!(held(&cluster).is_some(), "ten minutes with replicas");
}

#[test]
fn a_point_that_waits_with_one_replica_does_not_become_a_timed_hold() {
    let canary = json!([{"name": "canary", "afterUpdated": 1, "duration": "5m"}]);
    let mut cluster = running(1, 0, 1, &canary);
    cluster.set_image("v2");
    cluster.settle();
    declare(&mut cluster, &json!([{"name": "a", "afterUpdated": 5}, {"name": "b", "afterUpdated": 3}]));
    declare(&mut cluster, &canary);
    cluster.tick(3600);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), held(&cluster)), (1, None));
}

#[test]
fn an_invalid_list_stops_a_rollout_without_an_old_pod() {
    let wrong = json!([{"name": "a", "afterUpdated": 5}, {"name": "b", "afterUpdated": 3}]);
    let mut cluster = running(1, 0, 1, &json!([]));
    cluster.set_image("v2");
    cluster.settle();
    cluster.edit(|spec| spec.strategy.pause_points = serde_json::from_value(wrong.clone()).unwrap());
    cluster.pods.clear();
    cluster.set_image("v1");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (0, 1));
}

#[test]
fn many_marks_beside_a_point_or_a_pod_of_the_same_name_hold_one_by_one() {
    let mut cluster = running(80, 1, 1, &json!([{"name": "canary", "afterUpdated": 1}]));
    // An adopted pod can have any name. The observer knows points by their names.
    cluster.forged = true;
    cluster.pod(3).name = "canary".to_owned();
    for at in 0..70 {
        cluster.pod(at).point = Point::At { side: PausePoint::Before, duration: Ok(None) };
    }
    cluster.set_image("v2");
    cluster.settle();
    let mut ids = Vec::new();
    while let Some(id) = held(&cluster) {
        ids.push(id);
        cluster.resume();
        cluster.settle();
        assert!(ids.len() < 200, "{ids:?}");
    }
    assert!(cluster.is_complete());
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len());
    for id in ["canary@2", "canary@2.2", "more@2"] {
        assert!(ids.iter().any(|one| one == id), "{id}: {ids:?}");
    }
}

#[test]
fn more_is_no_name_of_a_declared_point() {
    let mut cluster = running(3, 1, 1, &json!([{"name": "more", "afterUpdated": 1}]));
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 0);
    let stalled = cluster.status().condition("Stalled").unwrap().message.clone();
    assert!(stalled.contains("choose another name"), "{stalled}");
}

#[test]
fn pods_without_a_node_are_one_group_until_one_has_a_node() {
    let mut cluster = running(3, 1, 0, &json!([{"name": "zones", "betweenNodeGroups": "pool"}]));
    for pod in &mut cluster.pods {
        pod.facts.node = None;
        pod.facts.ready = false;
    }
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("zones@2"), 0));
    cluster.resume();
    cluster.settle();
    assert!(cluster.is_complete(), "{:?}", cluster.status());
}

#[test]
fn a_status_that_is_lost_in_a_rollout_begins_it_anew_without_a_hot_loop() {
    let mut cluster = running(6, 1, 1, &json!([{"name": "canary", "afterUpdated": 2}]));
    cluster.set_image("v2");
    cluster.settle();
    cluster.deployment.status = None;
    cluster.forged = true;
    cluster.settle();
    assert!(held(&cluster).is_some() && cluster.of_image("v2") == 2, "{:?}", cluster.status());
}

#[test]
fn pods_that_come_behind_a_mark_make_it_a_point() {
    let mut cluster = running(4, 1, 1, &json!([]));
    cluster.prioritize(&[4, 3, 2, 1]);
    let name = cluster.pause_at(3, PausePoint::After);
    cluster.set_image("v2");
    cluster.step();
    let at = cluster.pods.iter().position(|pod| pod.name == name).unwrap();
    cluster.pods[at].facts.priority = Some(100);
    cluster.settle();
    assert!(held(&cluster).is_some_and(|id| id.starts_with(&name)), "{:?}", cluster.status());
}

#[test]
fn a_forged_time_of_a_hold_is_no_overflow() {
    let mut cluster = running(4, 1, 1, &json!([{"name": "canary", "afterUpdated": 1}]));
    cluster.set_image("v2");
    cluster.settle();
    for elapsed in [i64::MIN, i64::MAX] {
        let hold = cluster.deployment.status.as_mut().unwrap().hold.as_mut().unwrap();
        hold.elapsed = Some(elapsed);
        cluster.settle();
        assert!(held(&cluster).is_some());
    }
    let points = cluster.deployment.status.as_mut().unwrap().rollout.as_mut().unwrap();
    let share = Some(Share { limit: i32::MAX, replicas: i32::MAX });
    points.points.as_mut().unwrap().push(AheadPoint { id: "x@2".into(), share, ..AheadPoint::default() });
    cluster.settle();
}

fn canary(number: i32) -> Value {
    json!([{"name": "canary", "afterUpdated": number}])
}

#[test]
fn a_release_that_somebody_took_back_gets_no_more_pods_and_has_its_points_again() {
    for replicas in [1, 2] {
        let mut cluster = running(replicas, 1, 0, &canary(1));
        cluster.set_image("v2");
        cluster.settle();
        assert!(held(&cluster).is_some());
        // Back, and more replicas: they are of what served.
        cluster.set_image("v1");
        cluster.step();
        scale(&mut cluster, 10);
        assert!(cluster.is_complete(), "{:?}", cluster.status());
        assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (10, 0));
        cluster.set_image("v2");
        cluster.settle();
        assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("canary@4"), 1));
    }
}

#[test]
fn no_template_gets_past_its_points_by_going_back_without_replicas() {
    let mut cluster = running(4, 1, 1, &canary(1));
    cluster.set_image("v2");
    cluster.settle();
    scale(&mut cluster, 0);
    cluster.set_image("v1");
    cluster.settle();
    cluster.set_image("v2");
    cluster.settle();
    scale(&mut cluster, 4);
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("canary@4"), 1));
}

#[test]
fn going_back_makes_no_pod_of_a_retired_revision() {
    let mut cluster = running(1, 1, 0, &json!([]));
    cluster.set_image("v2");
    cluster.settle();
    declare(&mut cluster, &canary(1));
    cluster.refused.insert("v3".to_owned());
    cluster.set_image("v3");
    cluster.settle();
    cluster.set_image("v2");
    cluster.settle();
    assert!(cluster.is_complete(), "{:?}", cluster.status());
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (0, 1));
    // The deadline does not abort it, to a revision that was replaced before.
    cluster.edit(|spec| spec.progress_deadline_action = ordereddeployment_api::ProgressDeadlineAction::Abort);
    cluster.set_image("v4");
    cluster.settle();
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.pods.clear();
    cluster.settle_when_asked();
    assert_eq!((cluster.status().aborted, cluster.of_image("v1")), (None, 0));
}

#[test]
fn going_back_replaces_lost_pods_while_paused_too() {
    for strategy in ["RollingUpdate", "Recreate"] {
        let mut cluster = Cluster::running(&json!({"replicas": 4, "strategy": {"type": strategy}}));
        cluster.set_image("v2");
        cluster.step();
        cluster.edit(|spec| spec.paused = true);
        cluster.set_image("v1");
        cluster.step();
        cluster.pods.clear();
        cluster.settle();
        assert_eq!(cluster.of_image("v1"), 4, "{strategy}: {:?}", cluster.status());
    }
}

#[test]
fn missing_pods_count_as_behind_a_place() {
    let place = json!([{"name": "gate", "beforePriority": 100}]);
    // A pod is lost just before.
    let mut cluster = running(10, 10, 0, &place);
    cluster.pods.remove(0);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate@2"), 0));
    // All are lost.
    let mut cluster = running(4, 1, 1, &place);
    cluster.pods.clear();
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate@2"), 0));
    // More replicas come with the image.
    let mut cluster = running(10, 5, 1, &place);
    cluster.edit(|spec| spec.replicas = 20);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate@2"), 0));
}

#[test]
fn a_place_that_no_pod_could_show_is_ahead_after_no_replicas() {
    let place = json!([{"name": "gate", "beforePriority": 100}]);
    // A number becomes a place.
    let mut cluster = running(4, 1, 1, &canary(1));
    cluster.set_image("v2");
    cluster.settle();
    scale(&mut cluster, 0);
    declare(&mut cluster, &place);
    scale(&mut cluster, 10);
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate@2"), 0));
    // A retry.
    let mut cluster = running(4, 1, 1, &place);
    cluster.set_image("v2");
    cluster.settle();
    cluster.request_abort(2);
    cluster.settle();
    scale(&mut cluster, 0);
    cluster.request_retry(2);
    cluster.settle();
    scale(&mut cluster, 4);
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate@3"), 0));
}

#[test]
fn a_mark_on_the_first_pod_lets_no_updated_pod_be_when_others_are_lost() {
    let mut cluster = running(10, 1, 1, &json!([]));
    cluster.prioritize(&[9]);
    let name = cluster.pause_at(0, PausePoint::Before);
    cluster.pods.truncate(6);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((held(&cluster), cluster.of_image("v2")), (Some(format!("{name}@2")), 0));
}

#[test]
fn a_point_ahead_of_a_retry_is_not_passed_by_fewer_replicas() {
    let mut cluster = running(10, 1, 1, &json!([{"name": "half", "afterUpdated": "50%"}]));
    cluster.set_image("v2");
    cluster.settle();
    cluster.request_abort(2);
    cluster.step();
    cluster.step();
    assert!(cluster.of_image("v2") > 1);
    cluster.edit(|spec| spec.replicas = 2);
    cluster.request_retry(2);
    cluster.settle();
    scale(&mut cluster, 10);
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("half@3"), 5));
}

#[test]
fn no_updated_pod_is_made_while_an_invalid_list_hides_a_number() {
    let mut cluster = running(4, 1, 1, &canary(1));
    cluster.set_image("v2");
    cluster.settle();
    let wrong = json!([{"name": "a", "afterUpdated": 5}, {"name": "b", "afterUpdated": 3}]);
    declare(&mut cluster, &wrong);
    scale(&mut cluster, 40);
    assert_eq!(cluster.of_image("v2"), 1);
    declare(&mut cluster, &canary(1));
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("canary@2"), 1));
}

#[test]
fn what_an_abort_goes_back_to_is_kept_until_another_revision_served() {
    let mut cluster = running(4, 1, 1, &json!([]));
    cluster.edit(|spec| spec.revision_history_limit = 0);
    scale(&mut cluster, 0);
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle();
    scale(&mut cluster, 4);
    cluster.request_abort(2);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (4, 0), "{:?}", cluster.status());
}

#[test]
fn who_waits_at_a_point_with_one_replica_is_not_aborted_by_the_deadline() {
    let mut cluster = running(1, 0, 1, &canary(1));
    cluster.edit(|spec| {
        spec.progress_deadline_seconds = 60;
        spec.progress_deadline_action = ordereddeployment_api::ProgressDeadlineAction::Abort;
    });
    cluster.set_image("v2");
    cluster.settle();
    cluster.tick(3600);
    cluster.settle();
    assert_eq!(cluster.status().aborted, None);
}

#[test]
fn a_mark_with_a_smaller_number_takes_the_place_of_a_larger_one() {
    let mut cluster = running(80, 1, 1, &json!([]));
    let priorities: Vec<i32> = (0..80).rev().collect();
    cluster.prioritize(&priorities);
    for at in 10..75 {
        cluster.pause_at(at, PausePoint::Before);
    }
    cluster.set_image("v2");
    cluster.step();
    let late = cluster.pause_at(5, PausePoint::Before);
    cluster.settle();
    assert_eq!(cluster.count_events("PausePointsJoined"), 1);
    assert_eq!((held(&cluster), cluster.of_image("v2")), (Some(format!("{late}@2")), 5));
    let mut ids = std::collections::BTreeSet::new();
    while let Some(id) = held(&cluster) {
        assert!(ids.insert(id.clone()), "{id} comes again");
        cluster.resume();
        cluster.settle();
    }
    assert!(cluster.is_complete());
    assert!(ids.len() >= 65, "{}", ids.len());
}

#[test]
fn more_groups_than_the_status_keeps_stop_nothing_else() {
    let groups = json!([{"name": "hosts", "betweenNodeGroups": "host"}]);
    let mut cluster = running(1030, 1, 1, &groups);
    cluster.forged = true;
    for at in 0..cluster.pods.len() {
        let node: std::sync::Arc<str> = format!("h{at:04}").into();
        let labels = [("host".to_owned(), node.to_string())].into();
        let facts = NodeFacts { labels, ..Default::default() };
        cluster.nodes.insert(std::sync::Arc::clone(&node), facts);
        cluster.pods[at].facts.node = Some(node);
    }
    cluster.set_image("v2");
    for _ in 0..6 {
        cluster.step();
    }
    let points = cluster.status().rollout.unwrap().points.unwrap();
    assert!(points.len() <= ordereddeployment_api::limits::POINTS, "{}", points.len());
}

#[test]
fn pods_that_have_no_node_yet_do_not_hide_a_place() {
    let place = json!([{"name": "gate", "beforeNodes": {"matchLabels": {"pool": "n1"}}}]);
    for strategy in ["RollingUpdate", "Recreate"] {
        let strategy = json!({"type": strategy, "pausePoints": place});
        let mut cluster = Cluster::running(&json!({"replicas": 4, "strategy": strategy}));
        cluster.pods.clear();
        cluster.set_image("v2");
        while cluster.pods.len() < 4 {
            cluster.step();
        }
        for pod in &mut cluster.pods {
            pod.facts.node = None;
            pod.facts.ready = false;
        }
        cluster.rest();
        assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate@2"), 0), "{strategy}");
    }
}

#[test]
fn a_place_is_ahead_where_the_api_server_refuses_old_pods() {
    let mut cluster = running(4, 1, 1, &json!([{"name": "gate", "beforePriority": 100}]));
    cluster.pods.clear();
    cluster.refused.insert("v1".to_owned());
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate@2"), 0));
    cluster.resume();
    cluster.settle();
    assert!(cluster.is_complete(), "{:?}", cluster.status());
}

#[test]
fn one_failed_request_does_not_show_a_place_as_empty() {
    let mut cluster = running(10, 10, 0, &json!([{"name": "gate", "beforePriority": 0}]));
    cluster.prioritize(&[5]);
    cluster.pods.truncate(1);
    cluster.set_image("v2");
    cluster.breaks_after = Some(0);
    cluster.step();
    cluster.step();
    cluster.breaks_after = None;
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate@2"), 1));
}

#[test]
fn a_set_that_is_gone_does_not_stop_the_way_back() {
    let mut cluster = running(4, 1, 1, &json!([]));
    cluster.set_image("v2");
    cluster.settle();
    declare(&mut cluster, &canary(1));
    cluster.set_image("v1");
    cluster.settle();
    cluster.set_image("v2");
    cluster.step();
    cluster.delete_set(0);
    cluster.settle();
    assert_eq!((held(&cluster), cluster.of_image("v2")), (None, 4), "{:?}", cluster.status());
}

#[test]
fn a_lost_canary_comes_back_in_a_hold_with_an_invalid_list() {
    let mut cluster = running(10, 0, 1, &canary(1));
    cluster.set_image("v2");
    cluster.settle();
    declare(&mut cluster, &json!([{"name": "a", "afterUpdated": 5}, {"name": "b", "afterUpdated": 3}]));
    let lost = cluster.pods.iter().position(|pod| cluster.image(pod) == "v2").unwrap();
    cluster.pods.remove(lost);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (9, 1));
}

#[test]
fn groups_of_nodes_are_ahead_when_no_pod_could_show_them() {
    let zones = json!([{"name": "zones", "betweenNodeGroups": "pool"}]);
    for strategy in ["RollingUpdate", "Recreate"] {
        let strategy = json!({"type": strategy, "pausePoints": zones});
        let mut cluster = Cluster::running(&json!({"replicas": 4, "strategy": strategy}));
        cluster.pods.clear();
        cluster.set_image("v2");
        cluster.settle();
        assert!(
            held(&cluster).is_some_and(|id| id.starts_with("zones")),
            "{strategy}: {:?}",
            cluster.status()
        );
        assert!(cluster.of_image("v1") > 0, "{strategy}");
    }
    let mut cluster = running(4, 1, 1, &canary(1));
    cluster.set_image("v2");
    cluster.settle();
    scale(&mut cluster, 0);
    declare(&mut cluster, &zones);
    scale(&mut cluster, 10);
    assert_held_at(&cluster, "zones");
}

#[test]
fn no_place_is_judged_empty_without_replicas() {
    let place = json!([{"name": "gate", "beforeNodes": {"matchLabels": {"pool": "n1"}}}]);
    let mut cluster = running(4, 1, 1, &place);
    let at = |cluster: &Cluster| cluster.pods.iter().position(|pod| pod.facts.node.as_deref() == Some("n1"));
    while let Some(lost) = at(&cluster) {
        cluster.pods.remove(lost);
    }
    cluster.edit(|spec| spec.replicas = 0);
    cluster.set_image("v2");
    cluster.settle();
    scale(&mut cluster, 4);
    assert_held_at(&cluster, "gate");
}

#[test]
fn pods_without_a_node_count_as_behind_a_place_that_shows_one() {
    let place = json!([{"name": "gate", "beforeNodes": {"matchLabels": {"pool": "n1"}}}]);
    let mut cluster = running(10, 10, 0, &place);
    for pod in &mut cluster.pods {
        pod.facts.node = None;
    }
    cluster.pods[0].facts.node = Some("n1".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate@2"), 0));
}

#[test]
fn a_place_is_ahead_when_the_last_old_pods_are_lost_as_it_is_declared() {
    let mut cluster = running(4, 1, 0, &json!([]));
    begin(&mut cluster, "v2");
    let gate = json!([{"name": "gate", "beforePriority": 1000}]);
    write_points(&mut cluster, &gate);
    let updated: Vec<bool> = cluster.pods.iter().map(|pod| cluster.image(pod) == "v2").collect();
    let mut updated = updated.into_iter();
    cluster.pods.retain(|_| updated.next().unwrap());
    cluster.settle();
    assert_eq!(held(&cluster).as_deref(), Some("gate@2"), "{:?}", cluster.status());
    assert_eq!(cluster.of_image("v2"), 1);
}

fn suspended() -> Cluster {
    let mut cluster = running(4, 1, 1, &canary(1));
    cluster.set_image("v2");
    cluster.settle();
    scale(&mut cluster, 0);
    cluster
}

#[test]
fn a_new_template_with_another_list_keeps_a_suspension() {
    let mut cluster = suspended();
    let first = json!([{"name": "first", "afterUpdated": 1}]);
    write_points(&mut cluster, &first);
    cluster.set_image("v3");
    cluster.settle();
    scale(&mut cluster, 4);
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v3")), (Some("first@3"), 1));
    // An invalid list hides the points.
    let mut cluster = suspended();
    declare(&mut cluster, &json!([{"name": "canary", "afterUpdated": 5}, {"name": "b", "afterUpdated": 3}]));
    cluster.set_image("v3");
    cluster.settle();
    cluster.set_image("v4");
    cluster.settle();
    declare(&mut cluster, &canary(1));
    scale(&mut cluster, 4);
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v4")), (Some("canary@4"), 1));
}

#[test]
fn no_hold_begins_at_a_number_that_an_invalid_list_hides() {
    let half = json!([{"name": "half", "afterUpdated": 5, "duration": "10m"}]);
    let mut cluster = running(10, 0, 1, &half);
    cluster.set_image("v2");
    while cluster.of_image("v2") == 0 {
        cluster.step();
        cluster.tick(0);
    }
    declare(&mut cluster, &json!([{"name": "a", "afterUpdated": 5}, {"name": "b", "afterUpdated": 3}]));
    assert_eq!(held(&cluster), None);
    cluster.tick(900);
    declare(&mut cluster, &half);
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("half@2"), 5));
}

#[test]
fn a_pod_of_a_rejected_release_opens_no_group_of_nodes() {
    let zones = json!([{"name": "zones", "betweenNodeGroups": "pool"}]);
    let mut cluster = running(6, 1, 0, &zones);
    for (pod, node) in cluster.pods.iter_mut().zip(["n0", "n0", "n1", "n1", "n2", "n2"]) {
        pod.facts.node = Some(node.into());
    }
    cluster.broken.insert("v2".to_owned());
    begin(&mut cluster, "v2");
    let rejected = cluster.pods.iter().position(|pod| cluster.image(pod) == "v2").unwrap();
    cluster.pod(rejected).facts.node = Some("n2".into());
    cluster.settle();
    cluster.set_image("v3");
    let mut holds = Vec::new();
    for _ in 0..3 {
        cluster.settle();
        let Some(id) = held(&cluster) else { break };
        holds.push((id, cluster.of_image("v3")));
        cluster.resume();
    }
    let groups = cluster.nodes.values().map(|node| node.labels["pool"].clone());
    let groups: std::collections::BTreeSet<_> = groups.collect();
    assert_eq!(holds.len(), groups.len() - 1, "{holds:?} {groups:?}");
}

#[test]
fn a_place_is_ahead_while_templates_cannot_be_compared() {
    let gate = json!([{"name": "gate", "beforePriority": 100}]);
    let mut cluster = running(10, 5, 1, &gate);
    cluster.compares = Some(Compares::default());
    cluster.quota = Some(9);
    cluster.pods.pop();
    cluster.set_image("v2");
    cluster.rest();
    cluster.silence(true);
    cluster.quota = None;
    cluster.set_image("v3");
    cluster.rest();
    assert_eq!((cluster.of_image("v2"), cluster.of_image("v3")), (0, 0), "{:?}", cluster.status());
}

#[test]
fn lost_pods_are_of_what_served_while_templates_cannot_be_compared() {
    let mut cluster = running(4, 1, 1, &json!([]));
    cluster.compares = Some(Compares::default());
    cluster.set_image("v2");
    cluster.settle();
    cluster.edit(|spec| spec.paused = true);
    cluster.set_image("v3");
    cluster.settle();
    cluster.silence(true);
    cluster.set_image("v4");
    cluster.rest();
    cluster.pods.pop();
    cluster.rest();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (0, 4), "{:?}", cluster.status());
}

#[test]
fn a_set_that_somebody_deletes_makes_no_way_back() {
    let mut cluster = running(4, 1, 1, &json!([]));
    cluster.set_image("v2");
    cluster.settle();
    declare(&mut cluster, &canary(1));
    cluster.set_image("v1");
    cluster.settle();
    assert_eq!(held(&cluster).as_deref(), Some("canary@3"));
    let set = cluster.sets.iter().position(|set| cluster.image_of(set) == "v2").unwrap();
    cluster.delete_set(set);
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("canary@3"), 1));
}

#[test]
fn an_old_revision_that_comes_back_without_replicas_can_be_aborted() {
    let mut cluster = running(4, 1, 1, &json!([]));
    cluster.set_image("v2");
    cluster.settle();
    scale(&mut cluster, 0);
    cluster.edit(|spec| {
        spec.progress_deadline_seconds = 60;
        spec.revision_history_limit = 0;
    });
    cluster.set_image("v1");
    cluster.settle();
    cluster.broken.insert("v1".to_owned());
    scale(&mut cluster, 4);
    cluster.tick(90);
    cluster.settle();
    let progressing = cluster.status().condition(condition::PROGRESSING).unwrap().clone();
    assert_eq!(progressing.reason, reason::PROGRESS_DEADLINE_EXCEEDED);
    cluster.request_abort(3);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (0, 4), "{:?}", cluster.status());
}

#[test]
fn a_place_that_only_pods_of_a_rejected_release_are_at_keeps_them() {
    let gate = json!([{"name": "gate", "beforeNodes": {"matchLabels": {"pool": "n1"}}}]);
    let mut cluster = running(10, 1, 0, &json!([]));
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle();
    // All pods are of a release that never served.
    let set = cluster.sets.iter().find(|set| cluster.image_of(set) == "v2").unwrap().uid.clone();
    for (at, pod) in cluster.pods.iter_mut().enumerate() {
        pod.set = set.clone();
        pod.facts.node = Some(if at < 4 { "n1" } else { "n0" }.into());
    }
    cluster.pods.truncate(10);
    write_points(&mut cluster, &gate);
    begin(&mut cluster, "v3");
    let lost = cluster.pods.iter().position(|pod| pod.facts.node.as_deref() == Some("n0")).unwrap();
    cluster.pods.remove(lost);
    cluster.settle();
    assert_held_at(&cluster, "gate");
    let at_gate =
        cluster.active().filter(|pod| cluster.image(pod) == "v2" && pod.facts.node.as_deref() == Some("n1"));
    assert_eq!(at_gate.count(), 4);
}

#[test]
fn pods_that_are_missing_can_be_another_group_of_nodes() {
    let zones = json!([{"name": "zones", "betweenNodeGroups": "pool"}]);
    let mut cluster = running(8, 2, 2, &zones);
    for (at, pod) in cluster.pods.iter_mut().enumerate() {
        pod.facts.node = Some(if at < 6 { "n0" } else { "n1" }.into());
    }
    cluster.pods.truncate(6);
    cluster.set_image("v2");
    cluster.settle();
    assert_held_at(&cluster, "zones");
    assert_eq!(cluster.of_image("v2"), 6);
    // The same without replicas.
    let mut cluster = running(4, 1, 1, &zones);
    for pod in &mut cluster.pods {
        pod.facts.node = Some("n0".into());
    }
    cluster.pods.truncate(2);
    cluster.edit(|spec| spec.replicas = 0);
    cluster.set_image("v2");
    cluster.settle();
    scale(&mut cluster, 4);
    assert_held_at(&cluster, "zones");
}

#[test]
fn a_suspension_that_ends_with_a_new_template_keeps_its_points() {
    let held_at_a_mark = || {
        let mut cluster = running(6, 1, 0, &json!([]));
        cluster.prioritize(&[9, 8, 7]);
        cluster.pause_at(3, PausePoint::Before);
        cluster.set_image("v2");
        cluster.settle();
        scale(&mut cluster, 0);
        cluster
    };
    let mut cluster = held_at_a_mark();
    cluster.edit(|spec| spec.replicas = 6);
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!((held(&cluster).is_some(), cluster.of_image("v3")), (true, 3), "{:?}", cluster.status());
    let mut cluster = held_at_a_mark();
    cluster.request_abort(2);
    cluster.settle();
    cluster.request_retry(2);
    cluster.settle();
    scale(&mut cluster, 6);
    assert_eq!((held(&cluster).is_some(), cluster.of_image("v2")), (true, 3), "{:?}", cluster.status());
}

#[test]
fn a_larger_number_does_not_count_while_it_may_be_that_of_another_template() {
    let half = |number: i32| json!([{"name": "half", "afterUpdated": number}]);
    let mut cluster = running(10, 10, 0, &half(1));
    cluster.compares = Some(Compares::default());
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 1);
    cluster.silence(true);
    write_points(&mut cluster, &half(9));
    cluster.set_image("v3");
    cluster.rest();
    assert_eq!((cluster.of_image("v2"), cluster.of_image("v3")), (1, 0));
}

#[test]
fn a_place_is_ahead_of_the_second_release_when_the_first_one_never_served() {
    let mut cluster = Cluster::new(&json!({
        "replicas": 4,
        "strategy": {"type": "RollingUpdate", "pausePoints": [{"name": "gate", "beforePriority": 1000}]},
    }));
    cluster.broken.insert("v1".to_owned());
    cluster.set_image("v1");
    cluster.settle();
    cluster.pods.pop();
    cluster.set_image("v2");
    cluster.step();
    cluster.pods.clear();
    cluster.settle();
    assert_held_at(&cluster, "gate");
}

#[test]
fn a_place_that_is_empty_stays_so_while_the_rollout_replaces_pods() {
    let gate = json!([{"name": "gate", "beforeNodes": {"matchLabels": {"pool": "none"}}}]);
    for (replicas, strategy) in [
        (4, json!({"type": "Recreate"})),
        (1, json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})),
        (10, json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})),
        (4, json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})),
    ] {
        let mut strategy = strategy;
        strategy["pausePoints"] = gate.clone();
        let mut cluster = Cluster::running(&json!({"replicas": replicas, "strategy": strategy}));
        cluster.nodes.insert("n3".into(), NodeFacts::default());
        let before = cluster.count;
        cluster.set_image("v2");
        cluster.settle();
        assert!(cluster.is_complete(), "{strategy}: {:?}", cluster.status());
        assert_eq!(
            cluster.count - before,
            u32::try_from(replicas).unwrap() + 1,
            "{strategy}: pods and one set"
        );
    }
    // A bad canary there is no pod of the place either.
    let mut cluster = running(10, 1, 0, &gate);
    cluster.nodes.insert("n3".into(), NodeFacts::default());
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle();
    let canary = cluster.pods.iter().position(|pod| cluster.image(pod) == "v2").unwrap();
    cluster.pod(canary).facts.node = Some("n1".into());
    let gate = json!([{"name": "gate", "beforeNodes": {"matchLabels": {"pool": "n1"}}}]);
    for pod in cluster.pods.iter_mut().filter(|pod| pod.facts.ready) {
        pod.facts.node = Some("n0".into());
    }
    write_points(&mut cluster, &gate);
    cluster.set_image("v3");
    cluster.settle();
    assert!(cluster.is_complete(), "{:?}", cluster.status());
}

#[test]
fn one_updated_pod_beside_an_old_one_is_half_of_the_pods_once_paused() {
    let mut cluster = running(1, 1, 0, &json!([]));
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (1, 1));
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    scale(&mut cluster, 10);
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (5, 5));
}

#[test]
fn the_time_of_a_hold_stands_still_while_one_replica_waits() {
    let mut cluster = running(4, 0, 1, &json!([{"name": "canary", "afterUpdated": 1, "duration": "10m"}]));
    cluster.set_image("v2");
    cluster.settle();
    scale(&mut cluster, 1);
    cluster.tick(3600);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (1, 0), "{:?}", cluster.status());
    scale(&mut cluster, 4);
    cluster.tick(660);
    cluster.settle();
    assert!(cluster.is_complete(), "{:?}", cluster.status());
}

#[test]
fn missing_pods_can_be_a_group_of_nodes_beside_nodes_without_the_label() {
    let mut cluster = running(8, 2, 2, &json!([{"name": "zones", "betweenNodeGroups": "zone"}]));
    cluster.pods.truncate(6);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(held(&cluster).as_deref(), Some("zones@2"), "{:?}", cluster.status());
}

#[test]
fn a_second_push_under_recreate_does_not_stop_at_an_empty_place() {
    for point in
        [json!({"beforeNodes": {"matchLabels": {"pool": "none"}}}), json!({"betweenNodeGroups": "none"})]
    {
        let mut declared = point.clone();
        declared["name"] = json!("gate");
        let strategy = json!({"type": "Recreate", "pausePoints": [declared]});
        let mut cluster = Cluster::running(&json!({"replicas": 4, "strategy": strategy}));
        cluster.nodes.insert("n3".into(), NodeFacts::default());
        cluster.set_image("v2");
        cluster.rest();
        assert!(cluster.pods.iter().all(|pod| pod.terminating));
        cluster.set_image("v3");
        cluster.rest();
        assert_eq!((held(&cluster), cluster.of_image("v1")), (None, 0), "{point}");
        cluster.settle();
        assert_eq!(cluster.of_image("v3"), 4, "{point}: {:?}", cluster.status());
    }
}

#[test]
fn an_abort_that_got_replicas_leaves_no_points_for_later() {
    let mut cluster = running(4, 1, 1, &json!([]));
    cluster.prioritize(&[9, 8]);
    cluster.pause_at(2, PausePoint::Before);
    cluster.set_image("v2");
    cluster.settle();
    assert!(held(&cluster).is_some());
    scale(&mut cluster, 0);
    cluster.request_abort(2);
    cluster.settle();
    scale(&mut cluster, 4);
    scale(&mut cluster, 0);
    cluster.set_image("v3");
    cluster.settle();
    scale(&mut cluster, 4);
    assert_eq!((held(&cluster), cluster.of_image("v3")), (None, 4), "{:?}", cluster.status());
}

#[test]
fn a_suspension_of_a_release_that_was_never_scaled_ends_with_its_points() {
    let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let mut cluster = Cluster::new(&json!({"replicas": 1, "strategy": strategy}));
    cluster.set_image("v1");
    cluster.step();
    cluster.step();
    cluster.edit(|spec| spec.replicas = 0);
    cluster.set_image("v2");
    cluster.step();
    cluster.step();
    write_points(&mut cluster, &canary(1));
    cluster.step();
    cluster.edit(|spec| spec.replicas = 1);
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!(held(&cluster).as_deref(), Some("canary@3"), "{:?}", cluster.status());
}

/// Held at a mark of two of four pods, and scaled to 0; the pods are gone, and the status does not say so.
fn suspended_unstored() -> Cluster {
    let mut cluster = running(4, 1, 1, &json!([]));
    cluster.prioritize(&[9, 8]);
    cluster.pause_at(2, PausePoint::Before);
    cluster.set_image("v2");
    cluster.settle();
    assert!(held(&cluster).is_some());
    let status = cluster.deployment.status.clone();
    scale(&mut cluster, 0);
    cluster.deployment.status = status;
    assert_eq!(cluster.pods.len(), 0);
    cluster
}

/// The same with that status, and aborted.
fn aborted_without_pods() -> Cluster {
    let mut cluster = suspended_unstored();
    scale(&mut cluster, 0);
    cluster.request_abort(2);
    cluster.step();
    cluster
}

/// Resumes each hold. Returns them, with the number of pods of that image at each.
fn resume_all(cluster: &mut Cluster, image: &str) -> Vec<(String, usize)> {
    let mut holds = Vec::new();
    while let Some(id) = held(cluster) {
        holds.push((id, cluster.of_image(image)));
        cluster.resume();
        cluster.settle();
    }
    holds
}

#[test]
fn a_new_template_with_replicas_keeps_a_mark_though_no_status_says_zero() {
    let mut cluster = suspended_unstored();
    cluster.edit(|spec| spec.replicas = 4);
    cluster.set_image("v3");
    cluster.settle();
    assert_held_at(&cluster, "web-");
    assert_eq!(cluster.of_image("v3"), 2, "{:?}", cluster.status());
}

#[test]
fn a_new_template_after_an_abort_without_pods_keeps_a_mark() {
    let mut cluster = aborted_without_pods();
    cluster.edit(|spec| spec.replicas = 4);
    cluster.set_image("v3");
    cluster.settle();
    assert_held_at(&cluster, "web-");
    assert_eq!(cluster.of_image("v3"), 2, "{:?}", cluster.status());
}

#[test]
fn a_retry_with_replicas_after_an_abort_without_pods_keeps_a_mark() {
    let mut cluster = aborted_without_pods();
    cluster.edit(|spec| spec.replicas = 4);
    cluster.request_retry(2);
    cluster.settle();
    assert_held_at(&cluster, "web-");
    assert_eq!(cluster.of_image("v2"), 2, "{:?}", cluster.status());
}

/// Six pods in the groups of nodes n1 and n2; the rollout to v2 is held before n2.
fn held_between_groups() -> Cluster {
    let mut cluster = running(6, 1, 0, &json!([{"name": "zones", "betweenNodeGroups": "pool"}]));
    for (pod, node) in cluster.pods.iter_mut().zip(["n1", "n1", "n1", "n2", "n2", "n2"]) {
        pod.facts.node = Some(node.into());
    }
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("zones.n2@2"), 3));
    cluster
}

#[test]
fn a_rollout_that_begins_before_the_last_group_of_nodes_pauses_there() {
    let mut cluster = held_between_groups();
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v3")), (Some("zones.n2@3"), 3));
    let mut cluster = held_between_groups();
    cluster.request_abort(2);
    cluster.step();
    cluster.request_retry(2);
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("zones.n2@3"), 3));
    let mut cluster = held_between_groups();
    declare(&mut cluster, &json!([{"name": "gate", "betweenNodeGroups": "pool"}]));
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate.n2@2"), 3));
}

#[test]
fn fewer_replicas_in_the_same_edit_open_no_group_of_nodes() {
    let mut cluster = held_between_groups();
    cluster.edit(|spec| spec.replicas = 3);
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("zones.n2@3"), 3));
    let mut cluster = held_between_groups();
    cluster.edit(|spec| spec.replicas = 3);
    declare(&mut cluster, &json!([{"name": "gate", "betweenNodeGroups": "pool"}]));
    // The scale-down takes its share of both.
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("gate.n2@2"), 1));
    let mut cluster = held_between_groups();
    cluster.request_abort(2);
    cluster.step();
    cluster.edit(|spec| spec.replicas = 3);
    cluster.request_retry(2);
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("zones.n2@3"), 1));
}

#[test]
fn one_group_of_nodes_is_open_also_if_pods_get_their_nodes_later() {
    let zones = json!([{"name": "zones", "betweenNodeGroups": "pool"}]);
    let mut cluster = running(4, 1, 0, &zones);
    for pod in &mut cluster.pods {
        pod.facts.node = None;
    }
    cluster.quota = Some(4);
    cluster.set_image("v2");
    cluster.step();
    for (at, node) in ["n2", "n2", "n1", "n0"].into_iter().enumerate() {
        cluster.pod(at).facts.node = Some(node.into());
        cluster.step();
    }
    cluster.quota = None;
    cluster.settle();
    let holds = resume_all(&mut cluster, "v1");
    let between: Vec<_> = holds.iter().filter(|(id, _)| id.contains(".n")).collect();
    assert_eq!(between.len(), 2, "{holds:?}");
}

#[test]
fn recreate_pauses_before_the_last_group_of_nodes_after_a_correction_or_a_retry() {
    let zones = json!([{"name": "zones", "betweenNodeGroups": "pool"}]);
    let strategy = json!({"type": "Recreate", "pausePoints": zones});
    let held_there = || {
        let mut cluster = Cluster::running(&json!({"replicas": 8, "strategy": strategy}));
        for (at, node) in ["n1", "n1", "n1", "n1", "n2", "n2", "n2", "n2"].into_iter().enumerate() {
            cluster.pod(at).facts.node = Some(node.into());
        }
        cluster.set_image("v2");
        cluster.settle();
        assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("zones.n2@2"), 4));
        cluster
    };
    let mut cluster = held_there();
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("zones.n2@3"), 4));
    let mut cluster = held_there();
    cluster.request_abort(2);
    cluster.step();
    cluster.request_retry(2);
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("zones.n2@3"), 4));
}

/// Puts the pods of that image on these nodes.
fn place_on(cluster: &mut Cluster, image: &str, nodes: &[&str]) {
    let at: Vec<usize> =
        (0..cluster.pods.len()).filter(|at| cluster.image(&cluster.pods[*at]) == image).collect();
    for (at, node) in at.into_iter().zip(nodes) {
        cluster.pod(at).facts.node = Some((*node).into());
    }
}

#[test]
fn a_group_of_nodes_that_shows_once_a_pod_is_updated_is_the_open_one() {
    let mut cluster = running(6, 1, 0, &json!([{"name": "zones", "betweenNodeGroups": "pool"}]));
    place_on(&mut cluster, "v1", &["n1", "n1", "n2", "n2"]);
    for at in [4, 5] {
        cluster.pod(at).facts.node = None;
    }
    begin(&mut cluster, "v2");
    for at in [4, 5] {
        cluster.pod(at).facts.node = Some("n0".into());
    }
    cluster.settle();
    let holds = resume_all(&mut cluster, "v1");
    assert_eq!(holds, [("zones.n1@2".to_owned(), 4), ("zones.n2@2".to_owned(), 2)]);
}

#[test]
fn an_undo_to_a_revision_that_served_long_ago_keeps_its_group_of_nodes_open() {
    let zones = json!([{"name": "zones", "betweenNodeGroups": "pool"}]);
    let mut cluster = running(6, 1, 0, &json!([]));
    for image in ["v2", "v3"] {
        cluster.set_image(image);
        cluster.settle();
    }
    place_on(&mut cluster, "v3", &["n1", "n1", "n1", "n2", "n2", "n2"]);
    write_points(&mut cluster, &zones);
    cluster.set_image("v1");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v3")), (Some("zones.n2@4"), 3));
    place_on(&mut cluster, "v1", &["n1", "n1", "n1"]);
    cluster.set_image("v4");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v3")), (Some("zones.n2@5"), 3));
}

#[test]
fn a_correction_goes_on_in_the_group_of_nodes_where_the_release_before_began() {
    let mut cluster = running(6, 1, 0, &json!([{"name": "zones", "betweenNodeGroups": "pool"}]));
    place_on(&mut cluster, "v1", &["n1", "n1", "n1", "n2", "n2", "n2"]);
    cluster.broken.insert("v2".to_owned());
    cluster.edit(|spec| spec.replicas = 8);
    cluster.set_image("v2");
    cluster.settle();
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("zones.n2@3"), 3));
    // After an abort, it begins with the group that comes first then.
    cluster.request_abort(3);
    cluster.settle();
    place_on(&mut cluster, "v1", &["n0", "n0", "n0", "n0", "n2", "n2", "n2", "n2"]);
    cluster.set_image("v4");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("zones.n2@4"), 4));
}

#[test]
fn groups_of_nodes_that_are_declared_in_a_rollout_are_all_ahead() {
    let zones = json!([{"name": "zones", "betweenNodeGroups": "pool"}]);
    for (surge, unavailable, replicas) in [(1, 0, 6), (0, 1, 1)] {
        let mut cluster = running(6, surge, unavailable, &json!([{"name": "half", "afterUpdated": 3}]));
        place_on(&mut cluster, "v1", &["n1", "n1", "n1", "n2", "n2", "n2"]);
        cluster.set_image("v2");
        cluster.settle();
        scale(&mut cluster, replicas);
        declare(&mut cluster, &zones);
        assert_held_at(&cluster, "zones");
    }
    let mut cluster = Cluster::running(&json!({"replicas": 6, "strategy": {"type": "Recreate"}}));
    place_on(&mut cluster, "v1", &["n1", "n1", "n1", "n2", "n2", "n2"]);
    cluster.prioritize(&[5, 5, 5]);
    cluster.pause_at(3, PausePoint::Before);
    cluster.set_image("v2");
    cluster.settle();
    scale(&mut cluster, 3);
    declare(&mut cluster, &zones);
    cluster.resume();
    cluster.settle();
    assert_held_at(&cluster, "zones");
    // A correction of an undo to a revision that served long ago declares them.
    let mut cluster = running(6, 1, 0, &json!([]));
    for image in ["v2", "v3"] {
        cluster.set_image(image);
        cluster.settle();
    }
    place_on(&mut cluster, "v3", &["n1", "n1", "n1", "n2", "n2", "n2"]);
    write_points(&mut cluster, &json!([{"name": "half", "afterUpdated": 3}]));
    cluster.set_image("v1");
    cluster.settle();
    place_on(&mut cluster, "v1", &["n2", "n2", "n2"]);
    write_points(&mut cluster, &zones);
    cluster.set_image("v4");
    cluster.settle();
    assert_held_at(&cluster, "zones");
}

#[test]
fn a_group_of_nodes_whose_point_is_stored_is_not_opened() {
    let mut cluster = held_between_groups();
    scale(&mut cluster, 0);
    cluster.request_abort(2);
    cluster.step();
    cluster.request_retry(2);
    scale(&mut cluster, 1);
    place_on(&mut cluster, "v1", &["n2"]);
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("zones.n2@3"), 1));
}

#[test]
fn the_open_group_of_nodes_stays_once_a_pod_is_deleted() {
    let mut cluster = running(6, 1, 3, &json!([{"name": "zones", "betweenNodeGroups": "pool"}]));
    place_on(&mut cluster, "v1", &["n1", "n1", "n2", "n2"]);
    for at in [4, 5] {
        cluster.pod(at).facts.node = None;
        cluster.pod(at).facts.ready = false;
    }
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    while cluster.of_image("v1") == 6 {
        assert!(cluster.step());
    }
    for node in ["n1", "n0"] {
        let pending = cluster.pods.iter().position(|pod| pod.facts.node.is_none()).unwrap();
        cluster.pod(pending).facts.node = Some(node.into());
    }
    cluster.broken.clear();
    cluster.settle();
    let holds = resume_all(&mut cluster, "v1");
    let at = |group: &str| holds.iter().any(|(id, _)| id == &format!("zones.{group}@2"));
    assert!(at("n0") && at("n2"), "{holds:?}");
}

#[test]
fn a_group_of_nodes_whose_pods_are_lost_is_ahead_also_if_another_one_opens() {
    let mut cluster = running(6, 1, 1, &json!([{"name": "zones", "betweenNodeGroups": "pool"}]));
    place_on(&mut cluster, "v1", &["n1", "n1", "n1", "n2", "n2"]);
    cluster.pod(5).facts.node = None;
    cluster.broken.insert("v2".to_owned());
    begin(&mut cluster, "v2");
    cluster.pods.retain(|pod| pod.facts.node.as_deref() != Some("n2"));
    cluster.step();
    let pending = cluster.pods.iter().position(|pod| pod.facts.node.is_none()).unwrap();
    cluster.pod(pending).facts.node = Some("n0".into());
    cluster.broken.clear();
    cluster.settle();
    let holds = resume_all(&mut cluster, "v1");
    assert!(holds.iter().any(|(id, _)| id == "zones.n2@2"), "{holds:?}");
}

#[test]
fn groups_by_another_label_are_other_ones() {
    let mut cluster = held_between_groups();
    for (node, pool) in [("n1", "n2"), ("n2", "n1")] {
        let facts = cluster.nodes.get_mut(node).unwrap();
        facts.labels.insert("rack".into(), pool.into());
    }
    write_points(&mut cluster, &json!([{"name": "zones", "betweenNodeGroups": "rack"}]));
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("zones.n1@3"), 3));
}

#[test]
fn groups_by_another_label_without_a_pod_cause_no_hot_loop() {
    let mut cluster = held_between_groups();
    scale(&mut cluster, 0);
    write_points(&mut cluster, &json!([{"name": "zones", "betweenNodeGroups": "rack"}]));
    scale(&mut cluster, 6);
    assert_held_at(&cluster, "zones");
    assert_eq!(cluster.active().count(), 6);
}

#[test]
fn groups_by_another_label_in_an_invalid_list_are_other_ones_too() {
    let mut cluster = held_between_groups();
    cluster.resume();
    cluster.step();
    for node in ["n1", "n2"] {
        let facts = cluster.nodes.get_mut(node).unwrap();
        facts.labels.insert("rack".into(), node.into());
    }
    let points = |number: i32| {
        json!([
            {"name": "zones", "betweenNodeGroups": "rack"},
            {"name": "four", "afterUpdated": 4}, {"name": "five", "afterUpdated": number},
        ])
    };
    write_points(&mut cluster, &points(3));
    cluster.settle();
    declare(&mut cluster, &points(5));
    assert_held_at(&cluster, "zones.n2");
}

#[test]
fn a_rejected_release_that_is_everywhere_gets_no_more_pods() {
    let mut cluster = running(4, 0, 4, &json!([]));
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (0, 4));
    write_points(&mut cluster, &canary(1));
    cluster.edit(|spec| spec.replicas = 8);
    cluster.set_image("v3");
    cluster.settle();
    assert_held_at(&cluster, "canary");
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2"), cluster.of_image("v3")), (3, 4, 1));
}

#[test]
fn groups_of_nodes_that_are_away_for_a_while_stay_as_they_were() {
    let canary = json!({"name": "canary", "afterUpdated": 1});
    let zones = json!({"name": "zones", "betweenNodeGroups": "pool"});
    let mut cluster = running(3, 1, 0, &json!([canary, zones]));
    place_on(&mut cluster, "v1", &["n0", "n1", "n2"]);
    begin(&mut cluster, "v2");
    declare(&mut cluster, &json!([canary]));
    scale(&mut cluster, 5);
    place_on(&mut cluster, "v1", &["n1", "n2", "n1", "n2"]);
    declare(&mut cluster, &json!([canary, zones]));
    cluster.resume();
    cluster.settle();
    assert_held_at(&cluster, "zones.n1");
}

#[test]
fn a_correction_right_after_a_delete_opens_no_other_group_of_nodes() {
    let mut cluster = running(3, 1, 0, &json!([]));
    for image in ["v2", "v3"] {
        cluster.set_image(image);
        cluster.settle();
    }
    place_on(&mut cluster, "v3", &["n0", "n1", "n2"]);
    write_points(&mut cluster, &json!([{"name": "zones", "betweenNodeGroups": "pool"}]));
    begin(&mut cluster, "v1");
    while cluster.of_image("v3") == 3 {
        cluster.tick(1);
        cluster.step();
    }
    cluster.set_image("v4");
    cluster.settle();
    assert_held_at(&cluster, "zones.n1");
}

#[test]
fn the_open_group_of_nodes_stays_once_a_pod_is_missing() {
    let zones = json!([{"name": "zones", "betweenNodeGroups": "pool"}]);
    let begun = || {
        let mut cluster = running(3, 1, 0, &zones);
        place_on(&mut cluster, "v1", &["n0", "n1", "n2"]);
        cluster.broken.insert("v2".to_owned());
        begin(&mut cluster, "v2");
        cluster
    };
    // It is blocked, and its pod is drained.
    let mut cluster = begun();
    cluster.pod(1).facts.ready = false;
    cluster.step();
    cluster.pods.remove(0);
    cluster.broken.clear();
    cluster.settle();
    assert_held_at(&cluster, "zones.n1");
    // It is paused meanwhile.
    let mut cluster = begun();
    cluster.edit(|spec| spec.paused = true);
    cluster.step();
    cluster.pods.remove(0);
    cluster.broken.clear();
    cluster.settle();
    cluster.edit(|spec| spec.paused = false);
    cluster.settle();
    assert_held_at(&cluster, "zones.n1");
    // It is scaled down and up again.
    let mut cluster = begun();
    scale(&mut cluster, 2);
    cluster.broken.clear();
    cluster.settle();
    scale(&mut cluster, 3);
    assert_held_at(&cluster, "zones.n1");
}

#[test]
fn a_pod_whose_node_is_gone_can_get_behind_a_place() {
    let place = json!([{"name": "gate", "beforeNodes": {"matchLabels": {"pool": "n1"}}}]);
    let mut cluster = running(3, 1, 0, &place);
    place_on(&mut cluster, "v1", &["n0", "n0", "n1"]);
    let gone = cluster.nodes.remove("n1").unwrap();
    cluster.pod(2).facts.ready = false;
    begin(&mut cluster, "v2");
    cluster.nodes.insert("n1".into(), gone);
    cluster.settle();
    assert_held_at(&cluster, "gate");
}

#[test]
fn a_revision_that_served_before_one_whose_set_is_deleted_has_points() {
    let mut cluster = running(4, 1, 1, &json!([]));
    for image in ["v2", "v3"] {
        cluster.set_image(image);
        cluster.settle();
    }
    write_points(&mut cluster, &canary(1));
    let set = cluster.sets.iter().position(|set| cluster.image_of(set) == "v3").unwrap();
    cluster.delete_set(set);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(held(&cluster).as_deref(), Some("canary@4"), "{:?}", cluster.status());
}

#[test]
fn a_revision_without_an_available_pod_ends_no_group_of_nodes() {
    let strategy =
        json!({"type": "Recreate", "pausePoints": [{"name": "zones", "betweenNodeGroups": "pool"}]});
    let mut cluster = Cluster::running(&json!({"replicas": 4, "strategy": strategy}));
    place_on(&mut cluster, "v1", &["n1", "n1", "n2", "n2"]);
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(resume_all(&mut cluster, "v1").len(), 1);
    place_on(&mut cluster, "v2", &["n0", "n0", "n2", "n2"]);
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("zones.n0@3"), 4));
}

#[test]
fn more_replicas_under_recreate_add_no_pause_before_the_first_group_of_nodes() {
    let strategy =
        json!({"type": "Recreate", "pausePoints": [{"name": "zones", "betweenNodeGroups": "pool"}]});
    let mut cluster = Cluster::running(&json!({"replicas": 4, "strategy": strategy}));
    place_on(&mut cluster, "v1", &["n1", "n1", "n2", "n2"]);
    cluster.edit(|spec| spec.replicas = 6);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v1")), (Some("zones.n2@2"), 2));
}

#[test]
fn no_replicas_for_a_while_add_no_pause_before_the_first_group_of_nodes() {
    let mut cluster = held_between_groups();
    scale(&mut cluster, 0);
    cluster.set_image("v3");
    scale(&mut cluster, 6);
    let holds = resume_all(&mut cluster, "v3");
    assert!(holds.iter().all(|(_, updated)| *updated > 0), "{holds:?}");
}

#[test]
fn a_share_that_is_paused_is_that_of_the_pods_that_are_there() {
    let mut cluster = running(10, 1, 1, &json!([]));
    cluster.set_image("v2");
    while cluster.of_image("v1") > 5 {
        cluster.tick(1);
        cluster.step();
    }
    assert_eq!(cluster.of_image("v2"), 5);
    cluster.edit(|spec| (spec.paused, spec.replicas) = (true, 4));
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (2, 2));
    scale(&mut cluster, 10);
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (5, 5));
    let mut cluster = running(2, 2, 0, &json!([]));
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (2, 2));
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    scale(&mut cluster, 10);
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (5, 5));
}

#[test]
fn a_place_that_comes_back_after_a_number_is_another_point() {
    let gate = |priority: i32| json!([{"name": "gate", "beforePriority": priority}]);
    let mut cluster = running(1, 1, 0, &gate(-1));
    cluster.set_image("v2");
    cluster.step();
    write_points(&mut cluster, &json!([{"name": "gate", "afterUpdated": 1}]));
    cluster.pods.clear();
    cluster.step();
    write_points(&mut cluster, &gate(0));
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate@2.3"), 0));
}

#[test]
fn a_correction_keeps_a_place_whose_pod_is_missing() {
    let place = json!([{"name": "gate", "beforeNodes": {"matchLabels": {"pool": "n1"}}}]);
    for invalid in [None, Some(json!([{"name": "other", "beforePriority": 0, "afterUpdated": 1}]))] {
        let mut cluster = running(4, 1, 0, &place);
        place_on(&mut cluster, "v1", &["n0", "n0", "n0", "n1"]);
        cluster.broken.insert("v2".to_owned());
        begin(&mut cluster, "v2");
        cluster.pods.retain(|pod| pod.facts.node.as_deref() != Some("n1"));
        if let Some(invalid) = invalid {
            write_points(&mut cluster, &invalid);
        }
        cluster.set_image("v3");
        cluster.settle();
        declare(&mut cluster, &place);
        assert_held_at(&cluster, "gate");
    }
}

#[test]
fn a_correction_keeps_the_number_of_a_place_while_some_of_its_pods_are_missing() {
    let mut cluster = running(5, 1, 1, &json!([{"name": "gate", "beforePriority": 0}]));
    cluster.prioritize(&[1, 0, 0, 0, 0]);
    cluster.pod(4).facts.ready = false;
    cluster.broken.insert("v2".to_owned());
    begin(&mut cluster, "v2");
    let last = cluster.pods.iter().position(|pod| !pod.facts.ready && pod.facts.priority == Some(0)).unwrap();
    cluster.pods.remove(last);
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v3")), (Some("gate@3"), 1));
}

#[test]
fn a_place_that_was_counted_without_replicas_keeps_its_number() {
    let mut cluster = running(2, 1, 0, &json!([{"name": "gate", "beforePriority": 0}]));
    cluster.prioritize(&[1, 0]);
    cluster.edit(|spec| spec.replicas = 0);
    cluster.set_image("v2");
    cluster.step();
    cluster.edit(|spec| spec.replicas = 2);
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate@2"), 0));
}

#[test]
fn a_correction_counts_a_place_that_was_counted_without_replicas() {
    let mut cluster = running(10, 1, 1, &json!([{"name": "gate", "beforePriority": 0}]));
    cluster.prioritize(&[1, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
    cluster.edit(|spec| spec.replicas = 0);
    cluster.set_image("v2");
    cluster.step();
    scale(&mut cluster, 10);
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("gate@2"), 0));
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!((held(&cluster).as_deref(), cluster.of_image("v3")), (Some("gate@3"), 5));
}

/// Gives each pod that was made since a node by its image.
fn place_new(cluster: &mut Cluster, known: &[String], node: impl Fn(&str) -> &'static str) {
    for at in 0..cluster.pods.len() {
        if !known.contains(&cluster.pods[at].name) {
            let node = node(&cluster.image(&cluster.pods[at]));
            cluster.pods[at].facts.node = Some(node.into());
        }
    }
}

#[test]
fn pods_that_are_made_when_a_rollout_begins_can_be_of_the_first_group_of_nodes() {
    let mut cluster = running(6, 1, 0, &json!([{"name": "zones", "betweenNodeGroups": "pool"}]));
    place_on(&mut cluster, "v1", &["n1", "n1", "n1", "n2", "n0", "n0"]);
    let known: Vec<_> = cluster.pods.iter().map(|pod| pod.name.clone()).collect();
    cluster.pods.truncate(4);
    cluster.set_image("v2");
    for _ in 0..100 {
        cluster.step();
        place_new(&mut cluster, &known, |image| if image == "v1" { "n0" } else { "n2" });
        cluster.tick(1);
    }
    cluster.settle();
    let holds = resume_all(&mut cluster, "v2");
    assert_eq!(holds.first().map(|(id, _)| id.as_str()), Some("zones.n1@2"), "{holds:?}");
}

#[test]
fn a_pod_of_a_scale_up_does_not_hide_that_one_of_the_open_group_is_missing() {
    let mut cluster = running(3, 1, 0, &json!([{"name": "zones", "betweenNodeGroups": "pool"}]));
    place_on(&mut cluster, "v1", &["n0", "n1", "n2"]);
    cluster.broken.insert("v2".to_owned());
    begin(&mut cluster, "v2");
    cluster.edit(|spec| spec.replicas = 6);
    let known: Vec<_> = cluster.pods.iter().map(|pod| pod.name.clone()).collect();
    while cluster.of_image("v1") <= 3 {
        cluster.step();
    }
    let lost = cluster.pods.iter().position(|pod| pod.facts.node.as_deref() == Some("n0")).unwrap();
    cluster.pods.remove(lost);
    place_new(&mut cluster, &known, |_| "n2");
    cluster.broken.clear();
    cluster.settle();
    let holds = resume_all(&mut cluster, "v2");
    assert_eq!(holds.first().map(|(id, _)| id.as_str()), Some("zones.n1@2"), "{holds:?}");
}

/// All pods of that image are lost.
fn lose(cluster: &mut Cluster, image: &str) {
    let lost: Vec<String> =
        cluster.pods.iter().filter(|pod| cluster.image(pod) == image).map(|pod| pod.name.clone()).collect();
    cluster.pods.retain(|pod| !lost.contains(&pod.name));
}

#[test]
fn pods_of_a_rejected_release_take_the_place_of_no_lost_ones() {
    for replicas in [10, 20] {
        let mut cluster = running(10, 1, 1, &canary(1));
        cluster.set_image("v2");
        cluster.settle();
        lose(&mut cluster, "v1");
        cluster.set_image("v3");
        scale(&mut cluster, replicas);
        assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("canary@3"), 1));
        cluster.set_image("v2");
        cluster.settle();
        assert_eq!((held(&cluster).as_deref(), cluster.of_image("v2")), (Some("canary@4"), 1));
    }
}

#[test]
fn more_replicas_and_an_invalid_list_make_no_updated_pods() {
    let wrong = json!([{"name": "canary", "afterUpdated": 5}, {"name": "other", "afterUpdated": 3}]);
    for is_retry in [false, true] {
        let mut cluster = running(3, 1, 1, &canary(1));
        cluster.set_image("v2");
        cluster.settle();
        declare(&mut cluster, &wrong);
        if is_retry {
            cluster.request_abort(2);
            cluster.step();
            cluster.request_retry(2);
        } else {
            cluster.set_image("v3");
            cluster.step();
            cluster.set_image("v2");
        }
        cluster.settle();
        scale(&mut cluster, 12);
        declare(&mut cluster, &canary(1));
        assert_held_at(&cluster, "canary");
        assert_eq!(cluster.of_image("v2"), 1);
    }
}

#[test]
fn a_number_is_ahead_of_a_retry_however_many_pods_are_updated() {
    let mut cluster = running(10, 1, 0, &json!([{"name": "half", "afterUpdated": "50%"}]));
    cluster.set_image("v2");
    cluster.settle();
    cluster.broken.insert("v1".into());
    for at in 0..cluster.pods.len() {
        if cluster.image(&cluster.pods[at]) == "v1" {
            (cluster.pods[at].facts.ready, cluster.pods[at].facts.ready_since) = (false, None);
        }
    }
    cluster.request_abort(2);
    scale(&mut cluster, 2);
    cluster.request_retry(2);
    cluster.settle();
    scale(&mut cluster, 10);
    assert_held_at(&cluster, "half@3");
    assert!(cluster.of_image("v2") <= 5, "{}", cluster.of_image("v2"));
}

#[test]
fn one_replica_without_a_surge_waits_at_a_number_after_a_retry() {
    let mut cluster = running(1, 1, 0, &canary(1));
    cluster.set_image("v2");
    cluster.settle();
    cluster.request_abort(2);
    cluster.step();
    cluster.edit(|spec| {
        let bounds = json!({"maxSurge": 0, "maxUnavailable": 1});
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": bounds, "pausePoints": canary(1)});
        spec.strategy = serde_json::from_value(strategy).unwrap();
    });
    cluster.request_retry(2);
    cluster.settle();
    assert_eq!(cluster.of_image("v1"), 1, "{:?}", cluster.status());
}

#[test]
fn a_late_resume_passes_no_point_of_another_template_however_many_were_set_while_paused() {
    let mut cluster = running(4, 1, 1, &json!([{"name": "gate", "beforePriority": 1000}]));
    cluster.edit(|spec| spec.paused = true);
    for number in 2..=40 {
        cluster.set_image(&format!("v{number}"));
        cluster.settle();
    }
    let id = held(&cluster).unwrap();
    cluster.set_image("other");
    cluster.settle();
    cluster.request_resume(&id);
    cluster.settle();
    cluster.edit(|spec| spec.paused = false);
    cluster.settle();
    assert_held_at(&cluster, "gate");
    assert_eq!(cluster.of_image("other"), 0);
}

#[test]
fn a_pause_counts_while_templates_cannot_be_compared() {
    let mut cluster = running(10, 1, 1, &json!([]));
    cluster.compares = Some(Compares::default());
    cluster.set_image("v2");
    while cluster.of_image("v2") < 3 {
        cluster.tick(1);
        cluster.step();
    }
    cluster.silence(true);
    cluster.edit(|spec| spec.paused = true);
    cluster.set_image("v3");
    for _ in 0..4 {
        let lost = cluster.pods.iter().position(|pod| cluster.image(pod) == "v1").unwrap();
        cluster.pods.remove(lost);
        for _ in 0..10 {
            cluster.step();
            cluster.tick(1);
        }
    }
    assert_eq!((cluster.of_image("v2"), cluster.of_image("v3")), (3, 0));
}

/// Four pods of a first release that does not get ready, and a canary of v2, which the next template replaces.
fn first_release_that_never_served() -> Cluster {
    let mut cluster = Cluster::new(&json!({
        "replicas": 4,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            "pausePoints": canary(1),
        },
    }));
    cluster.broken.insert("v1".to_owned());
    cluster.settle();
    cluster.set_image("v2");
    cluster.settle();
    assert_held_at(&cluster, "canary");
    cluster
}

#[test]
fn before_a_revision_has_served_no_rejected_release_grows() {
    let mut cluster = first_release_that_never_served();
    cluster.set_image("v3");
    cluster.settle();
    let lost = cluster.pods.iter().position(|pod| cluster.image(pod) == "v1").unwrap();
    cluster.pods.remove(lost);
    scale(&mut cluster, 12);
    assert_held_at(&cluster, "canary");
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2"), cluster.of_image("v3")), (10, 1, 1));
}

#[test]
fn no_rejected_release_grows_where_the_first_one_comes_back() {
    let mut cluster = first_release_that_never_served();
    cluster.broken.clear();
    cluster.set_image("v1");
    scale(&mut cluster, 8);
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (3, 1));
    let stalled = cluster.status().condition(condition::STALLED).unwrap().reason.clone();
    assert_eq!(stalled, reason::NO_EARLIER_REVISION);
    // These that come back get ready.
    let broken: Vec<_> = cluster.pods.iter().map(|pod| cluster.image(pod) != "v1").collect();
    let mut keep = broken.into_iter();
    cluster.pods.retain(|_| keep.next().unwrap());
    cluster.settle();
    cluster.resume();
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (8, 0));
}

#[test]
fn no_rejected_release_takes_the_place_of_a_set_that_somebody_deleted() {
    for image in ["v1", "v3"] {
        let mut cluster = running(10, 1, 1, &canary(1));
        begin(&mut cluster, "v2");
        cluster.settle();
        let served = cluster.sets.iter().position(|set| cluster.image_of(set) == "v1").unwrap();
        cluster.delete_set(served);
        cluster.settle();
        let stalled = cluster.status().condition(condition::STALLED).unwrap().reason.clone();
        assert_eq!(stalled, reason::NO_EARLIER_REVISION);
        cluster.forged = true;
        cluster.set_image(image);
        scale(&mut cluster, 20);
        assert!(cluster.of_image("v2") <= 1, "{image}: {}", cluster.of_image("v2"));
    }
}

#[test]
fn a_retry_has_its_points_also_where_nothing_is_left_to_replace() {
    let mut cluster = running(4, 1, 1, &canary(1));
    begin(&mut cluster, "v2");
    cluster.settle();
    cluster.request_abort(2);
    cluster.settle();
    let served = cluster.sets.iter().position(|set| cluster.image_of(set) == "v1").unwrap();
    cluster.delete_set(served);
    cluster.settle();
    cluster.request_retry(2);
    cluster.settle();
    assert_held_at(&cluster, "canary");
    assert_eq!(cluster.of_image("v2"), 1);
    cluster.resume();
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 4);
}

#[test]
fn a_status_that_is_lost_without_replicas_keeps_the_canary_ahead() {
    let mut cluster = running(4, 1, 1, &canary(1));
    begin(&mut cluster, "v2");
    cluster.settle();
    scale(&mut cluster, 0);
    cluster.forged = true;
    cluster.deployment.status = None;
    cluster.settle();
    scale(&mut cluster, 4);
    assert_held_at(&cluster, "canary");
    assert_eq!(cluster.of_image("v2"), 1);
}
