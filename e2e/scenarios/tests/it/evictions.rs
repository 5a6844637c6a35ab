//! `podDeletion: Evict` with disruption budgets and the API server's own answers: the status names the
//! budgets, and the rollout waits in order.

use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use scenarios::{Request, Setting, TestCluster, condition_of, side_by_side};
use serde_json::{Value, json};

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

/// Waits until the failure has this reason. Returns its message.
async fn refused(cluster: &TestCluster, reason: &str) -> String {
    cluster.until_said(condition::REPLICA_FAILURE, ConditionStatus::True, reason).await.unwrap()
}

/// The status has no trace of the rejected eviction, and these pods were evicted, in this order.
async fn assert_evicted(cluster: &TestCluster, done: &OrderedDeployment, pods: &[String]) {
    assert_eq!(condition_of(done, condition::REPLICA_FAILURE), None);
    assert_eq!(condition_of(done, condition::STALLED).unwrap().status, ConditionStatus::False);
    let deletions = cluster.deletions().await.unwrap();
    assert!(deletions.iter().all(|one| one.evicted), "{deletions:#?}");
    assert_eq!(deletions.into_iter().map(|one| one.pod).collect::<Vec<_>>(), pods);
}

/// The evictions that the server has rejected, except those with an unknown version of `policy` or with an
/// older version of the pod.
async fn refusals(cluster: &TestCluster) -> Vec<Request> {
    let mut requests = cluster.requests().await.unwrap();
    requests.retain(|one| {
        one.subresource.as_deref() == Some("eviction")
            && one.namespace.as_deref() == Some(&cluster.namespace)
            && one.code >= 429
    });
    requests
}

async fn the_status_names_the_budget_of_a_rejected_eviction_until_it_succeeds(cluster: TestCluster) {
    let pods = deployed(&cluster, 4).await;
    counted_budget(&cluster, "careful", ("minAvailable", 4), 4, 0).await;
    cluster.set_image("web:2").await.unwrap();
    let message = refused(&cluster, reason::EVICTION_REFUSED).await;
    let words = "The disruption budget careful needs 4 healthy pods and has 4 currently";
    assert_eq!(message, format!("Waiting to evict pod {}: {words}", pods[0]));
    assert_eq!(cluster.deletions().await.unwrap(), []);
    set_budget(&cluster, "careful", ("minAvailable", 3)).await;
    let done = cluster.complete("web", 4).await.unwrap();
    assert_evicted(&cluster, &done, &pods).await;
    assert!(refusals(&cluster).await.iter().all(|one| one.code == 429));
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

/// The response to an eviction of this pod by another client: code, reason, message.
async fn answer(cluster: &TestCluster, pod: &str) -> (u16, String, String) {
    let eviction = json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": pod}});
    let path = format!("/api/v1/namespaces/{}/pods/{pod}/eviction", cluster.namespace);
    let request = http::Request::post(path).header("Content-Type", "application/json");
    let request = request.body(eviction.to_string().into_bytes()).unwrap();
    match cluster.client.request::<Value>(request).await {
        Err(kube::Error::Api(status)) => (status.code, status.reason, status.message),
        other => panic!("{other:?}"),
    }
}

/// The API server does not evict a pod that two budgets select: it responds with 500, even if they allow the
/// eviction.
async fn the_status_names_several_budgets_of_a_pod_until_one_is_left(cluster: TestCluster) {
    let pods = deployed(&cluster, 3).await;
    for name in ["one", "two"] {
        counted_budget(&cluster, name, ("minAvailable", 1), 3, 2).await;
    }
    cluster.set_image("web:2").await.unwrap();
    let message = refused(&cluster, reason::SEVERAL_BUDGETS).await;
    assert!(message.contains(&pods[0]) && message.contains("(PodDisruptionBudgets one, two)"), "{message}");
    let object = cluster.deployments().get("web").await.unwrap();
    let stalled = condition_of(&object, condition::STALLED).unwrap();
    assert_eq!((stalled.status, stalled.message), (ConditionStatus::True, message));
    assert_eq!(cluster.deletions().await.unwrap(), []);
    let words =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert_eq!(answer(&cluster, &pods[0]).await, (500, String::new(), words.to_owned()));
    let refused = refusals(&cluster).await;
    assert!(refused.iter().all(|one| (one.code, one.name.as_ref()) == (500, Some(&pods[0]))), "{refused:#?}");
    cluster.kubectl.run(&["delete", "pdb", "two"]).await.unwrap();
    let done = cluster.complete("web", 3).await.unwrap();
    assert_evicted(&cluster, &done, &pods).await;
}

side_by_side!(
    Setting::default();
    the_status_names_the_budget_of_a_rejected_eviction_until_it_succeeds,
    the_status_names_several_budgets_of_a_pod_until_one_is_left,
    a_scale_down_makes_a_budget_without_room_count_again,
);
