//! The number of pods: with Recreate, with terminating pods, and at zero.

use k8s_openapi::api::core::v1::Pod;
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use scenarios::{TestCluster, condition_of, image_of};
use serde_json::json;

pub(super) async fn recreate_never_runs_old_and_new_pods_together(cluster: TestCluster) {
    let pods = cluster.deployed(&json!({"replicas": 4, "strategy": {"type": "Recreate"}})).await.unwrap();
    for (pod, priority) in pods.iter().zip([1, 4, 2, 3]) {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    let never_both = cluster.until_pods("both", |pods| {
        let (old, new) = ("web:1", "web:2");
        pods.iter().any(|pod| image_of(pod) == old) && pods.iter().any(|pod| image_of(pod) == new)
    });
    let rollout = async {
        cluster.set_image("web:2").await.unwrap();
        let (type_, why) = (condition::AVAILABLE, reason::MINIMUM_REPLICAS_UNAVAILABLE);
        cluster.until_said(type_, ConditionStatus::False, why).await.unwrap();
        cluster.complete("web", 4).await.unwrap()
    };
    tokio::select! {
        object = rollout => {
            let available = condition_of(&object, condition::AVAILABLE).unwrap();
            assert_eq!(available.reason, reason::MINIMUM_REPLICAS_AVAILABLE);
        }
        both = never_both => panic!("{both:?}"),
    }
    let order = [1, 3, 2, 0].map(|place| pods[place].clone());
    assert_eq!(cluster.deleted().await.unwrap(), order);
}

pub(super) async fn the_status_counts_terminating_pods(cluster: TestCluster) {
    let pods = cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    cluster.prioritise(&pods[0], 1).await.unwrap();
    // The pod stays terminating until this finalizer is removed.
    let finalizers = |value| json!({"metadata": {"finalizers": value}}).to_string();
    let patch = async |value| {
        cluster
            .kubectl
            .run(&["patch", "pod", &pods[0], "--type=merge", "-p", &finalizers(value)])
            .await
            .unwrap();
    };
    patch(json!(["example.com/wait"])).await;
    cluster.scale(2).await.unwrap();
    let counts = |terminating: i32| {
        move |object: &OrderedDeployment| {
            let status = object.status.clone().unwrap_or_default();
            status.observed_generation == object.metadata.generation
                && (status.replicas, status.terminating_replicas) == (Some(2), Some(terminating))
        }
    };
    cluster.until("web", "two and one that terminates", counts(1)).await.unwrap();
    patch(json!(null)).await;
    cluster.until("web", "two", counts(0)).await.unwrap();
}

pub(super) async fn scaling_to_zero_and_back_keeps_the_revision_and_a_rollout_at_zero_completes_immediately(
    cluster: TestCluster,
) {
    cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    let at_zero = async || {
        cluster.scale(0).await.unwrap();
        let object = cluster.complete("web", 0).await.unwrap();
        for (type_, why) in [
            (condition::AVAILABLE, reason::MINIMUM_REPLICAS_AVAILABLE),
            (condition::PROGRESSING, reason::NEW_REPLICA_SET_AVAILABLE),
        ] {
            let found = condition_of(&object, type_).unwrap();
            assert_eq!((found.status, found.reason.as_str()), (ConditionStatus::True, why));
        }
        cluster.until_pods("none", <[Pod]>::is_empty).await.unwrap();
        object.status.unwrap().rollout.unwrap()
    };
    let before = at_zero().await;
    cluster.scale(3).await.unwrap();
    let back = cluster.complete("web", 3).await.unwrap().status.unwrap().rollout.unwrap();
    assert_eq!((back.revision, back.template_hash), (before.revision, before.template_hash));
    at_zero().await;
    cluster.set_image("web:2").await.unwrap();
    let updated = cluster.complete("web", 0).await.unwrap();
    assert_eq!(updated.status.unwrap().rollout.unwrap().revision, 2);
    cluster.scale(2).await.unwrap();
    cluster.complete("web", 2).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 2);
}
