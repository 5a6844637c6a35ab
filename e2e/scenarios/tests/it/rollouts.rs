//! Rollouts without pause points: pauses, deadlines, history. `chaos` checks the limits and the order at each
//! commit.

use kube::ResourceExt;
use ordereddeployment_api::names::{annotation, condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment, OrderedReplicaSet};
use scenarios::{Setting, TestCluster, side_by_side};
use serde_json::json;

async fn a_paused_object_does_not_roll_out_but_scales(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    cluster.patch(&json!({"spec": {"paused": true}})).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.scale(5).await.unwrap();
    let scaled = |object: &OrderedDeployment| {
        let status = object.status.clone().unwrap_or_default();
        status.observed_generation == object.metadata.generation && status.available_replicas == Some(5)
    };
    cluster.until("web", "scaled", scaled).await.unwrap();
    let (type_, why) = (condition::PROGRESSING, reason::DEPLOYMENT_PAUSED);
    cluster.until_said(type_, ConditionStatus::Unknown, why).await.unwrap();
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
    let (type_, late) = (condition::PROGRESSING, reason::PROGRESS_DEADLINE_EXCEEDED);
    cluster.until_said(type_, ConditionStatus::False, late).await.unwrap();
    let status = cluster.deployments().get("web").await.unwrap().status.unwrap();
    assert_eq!(status.available_replicas, Some(3));
    assert_eq!(cluster.deleted().await.unwrap().len(), 1, "down to the floor, and no further");
    cluster.set_image("web:2").await.unwrap();
    cluster.complete("web", 4).await.unwrap();
    cluster.until_said(type_, ConditionStatus::True, reason::NEW_REPLICA_SET_AVAILABLE).await.unwrap();
}

async fn history_keeps_as_many_old_sets_as_the_limit_says(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 1, "revisionHistoryLimit": 1})).await.unwrap();
    for version in 2..=4 {
        cluster.set_image(&format!("web:{version}")).await.unwrap();
        cluster.complete("web", 1).await.unwrap();
    }
    let kept = |sets: &[OrderedReplicaSet]| {
        let mut revisions: Vec<_> =
            sets.iter().map(|set| set.annotations()[annotation::REVISION].clone()).collect();
        revisions.sort();
        revisions == ["3", "4"]
    };
    cluster.until_all(cluster.sets(), "the last two", kept).await.unwrap();
}

side_by_side!(
    Setting::default();
    a_paused_object_does_not_roll_out_but_scales,
    pods_count_as_available_only_after_min_ready_seconds,
    a_broken_image_passes_the_progress_deadline_and_a_good_one_clears_it,
    history_keeps_as_many_old_sets_as_the_limit_says,
);
