//! `podDeletion: Evict` with disruption budgets and the API server's own answers: the status names the
//! budgets, and the rollout waits in order.

use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use scenarios::{Setting, TestCluster, condition_of, side_by_side};
use serde_json::json;

use crate::built_in::{set_budget, until_counted};

/// Sets a budget and waits until its status has these numbers of expected pods and of evictions that it
/// allows.
async fn counted_budget(cluster: &TestCluster, name: &str, limit: (&str, i32), expected: i64, allowed: i64) {
    set_budget(cluster, name, limit).await;
    until_counted(cluster, name, expected, allowed).await;
}

/// Pods in deletion order, with evictions, without a surge and one at a time.
async fn deployed(cluster: &TestCluster, replicas: i32) -> Vec<String> {
    let bounds = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let spec = json!({"replicas": replicas, "podDeletion": "Evict", "strategy": bounds});
    let pods = cluster.deployed(&spec).await.unwrap();
    cluster.prioritise_in_order(&pods).await.unwrap();
    pods
}

/// The status has no trace of the rejected eviction, and these pods were evicted, in this order.
async fn assert_evicted(cluster: &TestCluster, done: &OrderedDeployment, pods: &[String]) {
    assert_eq!(condition_of(done, condition::REPLICA_FAILURE), None);
    assert_eq!(condition_of(done, condition::STALLED).unwrap().status, ConditionStatus::False);
    let deletions = cluster.deletions().await.unwrap();
    assert!(deletions.iter().all(|one| one.evicted), "{deletions:#?}");
    assert_eq!(deletions.into_iter().map(|one| one.pod).collect::<Vec<_>>(), pods);
}

async fn the_status_names_the_budget_of_a_rejected_eviction_until_it_succeeds(cluster: TestCluster) {
    let pods = deployed(&cluster, 4).await;
    counted_budget(&cluster, "careful", ("minAvailable", 4), 4, 0).await;
    cluster.set_image("web:2").await.unwrap();
    let (failure, why) = (condition::REPLICA_FAILURE, reason::EVICTION_REFUSED);
    let message = cluster.until_said(failure, ConditionStatus::True, why).await.unwrap();
    let words = "The disruption budget careful needs 4 healthy pods and has 4 currently";
    assert_eq!(message, format!("Waiting to evict pod {}: {words}", pods[0]));
    assert_eq!(cluster.deletions().await.unwrap(), []);
    set_budget(&cluster, "careful", ("minAvailable", 3)).await;
    let done = cluster.complete("web", 4).await.unwrap();
    assert_evicted(&cluster, &done, &pods).await;
}

/// The disruption controller counts when a pod or the budget changes. A change of `replicas` is neither, so
/// the budget still wants six pods when the first eviction is sent.
async fn a_scale_down_makes_a_budget_without_room_count_again(cluster: TestCluster) {
    let pods = deployed(&cluster, 6).await;
    counted_budget(&cluster, "careful", ("maxUnavailable", 0), 6, 0).await;
    cluster.scale(3).await.unwrap();
    let done = cluster.complete("web", 3).await.unwrap();
    assert_evicted(&cluster, &done, &pods[..3]).await;
}

side_by_side!(
    Setting::default();
    the_status_names_the_budget_of_a_rejected_eviction_until_it_succeeds,
    a_scale_down_makes_a_budget_without_room_count_again,
);
