//! Rollouts without pause points: limits, deadlines, history.

use kube::{Api, ResourceExt};
use ordereddeployment_api::names::{annotation, condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment, OrderedReplicaSet};
use scenarios::{Setting, TestCluster, is_ready, side_by_side};
use serde_json::json;

/// Whether the condition has this status and reason.
fn says(object: &OrderedDeployment, type_: &str, status: ConditionStatus, reason: &str) -> bool {
    let known = object.status.as_ref().and_then(|known| known.condition(type_));
    known.is_some_and(|known| known.status == status && known.reason == reason)
}

async fn every_state_of_a_rollout_is_within_its_bounds_and_the_order_is_kept(cluster: TestCluster) {
    let bounds = json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}});
    let pods = cluster.deployed(&json!({"replicas": 8, "strategy": bounds})).await.unwrap();
    let priorities = [0, 7, 3, 3, 9, 0, -4, 7];
    for (pod, priority) in pods.iter().zip(priorities).filter(|(_, priority)| *priority != 0) {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    cluster.set_image("web:2").await.unwrap();
    let bounded = cluster.until_pods("all there", |pods| {
        let active = || pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let (all, ready) = (active().count(), active().filter(|pod| is_ready(pod)).count());
        assert!(all <= 10 && ready >= 7, "{all} active, {ready} ready");
        false
    });
    tokio::select! {
        result = cluster.complete("web", 8) => drop(result.unwrap()),
        result = bounded => panic!("{result:?}"),
    }
    let place = |name: &String| pods.iter().position(|pod| pod == name).unwrap();
    let order: Vec<i32> =
        cluster.deleted().await.unwrap().iter().map(|name| priorities[place(name)]).collect();
    assert_eq!(order, [9, 7, 7, 3, 3, 0, 0, -4]);
}

async fn a_paused_object_does_not_roll_out_but_scales(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    cluster.patch(&json!({"spec": {"paused": true}})).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.scale(5).await.unwrap();
    let scaled = |object: &OrderedDeployment| {
        let status = object.status.clone().unwrap_or_default();
        status.observed_generation == object.metadata.generation && status.available_replicas == Some(5)
    };
    let object = cluster.until("web", "scaled", scaled).await.unwrap();
    assert!(says(&object, condition::PROGRESSING, ConditionStatus::Unknown, reason::DEPLOYMENT_PAUSED));
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), 5);
    assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());
    cluster.patch(&json!({"spec": {"paused": false}})).await.unwrap();
    cluster.complete("web", 5).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 5);
}

async fn pods_count_as_available_only_after_min_ready_seconds(cluster: TestCluster) {
    cluster.apply(&json!({"replicas": 2, "minReadySeconds": 4})).await.unwrap();
    let ready = |object: &OrderedDeployment| {
        let status = object.status.clone().unwrap_or_default();
        status.ready_replicas == Some(2) && status.available_replicas.unwrap_or_default() == 0
    };
    cluster.until("web", "ready, but not available", ready).await.unwrap();
    let status = cluster.complete("web", 2).await.unwrap().status.unwrap();
    let at = status.condition(condition::COMPLETE).unwrap().last_transition_time.0.as_second();
    for pod in cluster.pods().await.unwrap() {
        let conditions = pod.status.unwrap().conditions.unwrap();
        let ready = conditions.into_iter().find(|one| one.type_ == "Ready").unwrap();
        assert!(at - ready.last_transition_time.unwrap().0.as_second() >= 4);
    }
}

async fn a_broken_image_passes_the_progress_deadline_and_a_good_one_clears_it(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 4, "progressDeadlineSeconds": 2})).await.unwrap();
    cluster.set_image("web:broken").await.unwrap();
    let late = |object: &OrderedDeployment| {
        says(object, condition::PROGRESSING, ConditionStatus::False, reason::PROGRESS_DEADLINE_EXCEEDED)
    };
    let object = cluster.until("web", "late", late).await.unwrap();
    assert_eq!(object.status.unwrap().available_replicas, Some(3));
    assert_eq!(cluster.deleted().await.unwrap().len(), 1, "down to the floor, and no further");
    cluster.set_image("web:2").await.unwrap();
    let object = cluster.complete("web", 4).await.unwrap();
    assert!(says(&object, condition::PROGRESSING, ConditionStatus::True, reason::NEW_REPLICA_SET_AVAILABLE));
}

async fn history_keeps_as_many_old_sets_as_the_limit_says(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 1, "revisionHistoryLimit": 1})).await.unwrap();
    for version in 2..=4 {
        cluster.set_image(&format!("web:{version}")).await.unwrap();
        cluster.complete("web", 1).await.unwrap();
    }
    let sets: Api<OrderedReplicaSet> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let kept = |sets: &[OrderedReplicaSet]| {
        let mut revisions: Vec<_> =
            sets.iter().map(|set| set.annotations()[annotation::REVISION].clone()).collect();
        revisions.sort();
        revisions == ["3", "4"]
    };
    cluster.until_all(sets, "the last two", kept).await.unwrap();
}

side_by_side!(
    Setting::default();
    every_state_of_a_rollout_is_within_its_bounds_and_the_order_is_kept,
    a_paused_object_does_not_roll_out_but_scales,
    pods_count_as_available_only_after_min_ready_seconds,
    a_broken_image_passes_the_progress_deadline_and_a_good_one_clears_it,
    history_keeps_as_many_old_sets_as_the_limit_says,
);
