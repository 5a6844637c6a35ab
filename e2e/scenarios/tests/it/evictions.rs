//! `podDeletion: Evict` with disruption budgets: the status names the budget, and the rollout waits in order.

use kube::api::DynamicObject;
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{Condition, ConditionStatus, OrderedDeployment};
use scenarios::{Deletion, Request, Setting, TestCluster, side_by_side};
use serde_json::{Value, json};

use crate::built_in::{objects, version};

/// Creates or changes a budget of at least that many available pods of `web`.
async fn set_budget(cluster: &TestCluster, name: &str, min_available: i32) {
    set_limit(cluster, name, "minAvailable", min_available).await;
}

/// Creates or changes a budget for the pods of `web`, with this limit.
async fn set_limit(cluster: &TestCluster, name: &str, field: &str, limit: i32) {
    let version = version(cluster, &["policy/v1", "policy/v1beta1"]).await;
    let budget = json!({
        "apiVersion": version, "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, field: limit},
    });
    cluster.kubectl.run_with(&["apply", "-f", "-"], &budget.to_string()).await.unwrap();
}

/// Sets a budget and waits until its status allows this number of evictions, without an eviction in progress.
async fn budget(cluster: &TestCluster, name: &str, min_available: i32, allowed: i64) {
    set_budget(cluster, name, min_available).await;
    let counted = |budget: &DynamicObject| {
        let number = |key: &str| budget.data.pointer(&format!("/status/{key}")).and_then(Value::as_i64);
        number("observedGeneration") == budget.metadata.generation
            && number("desiredHealthy") == Some(i64::from(min_available))
            && number("disruptionsAllowed").unwrap_or_default() == allowed
    };
    let version = version(cluster, &["policy/v1", "policy/v1beta1"]).await;
    let budgets = objects(cluster, &version, "PodDisruptionBudget");
    cluster.until_object(budgets, name, &format!("a budget that allows {allowed}"), counted).await.unwrap();
}

/// Pods in deletion order, with evictions, without a surge and one at a time.
async fn deployed(cluster: &TestCluster, replicas: i32) -> Vec<String> {
    let bounds = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let spec = json!({"replicas": replicas, "podDeletion": "Evict", "strategy": bounds});
    let pods = cluster.deployed(&spec).await.unwrap();
    for (pod, priority) in pods.iter().zip((1..=replicas).rev()) {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    pods
}

fn condition_of(object: &OrderedDeployment, type_: &str) -> Option<Condition> {
    object.status.as_ref().and_then(|status| status.condition(type_)).cloned()
}

/// Waits until the failure has this reason. Returns its message.
async fn refused(cluster: &TestCluster, reason: &str) -> String {
    let is_told = |object: &OrderedDeployment| {
        condition_of(object, condition::REPLICA_FAILURE).is_some_and(|one| one.reason == reason)
    };
    let object = cluster.until("web", reason, is_told).await.unwrap();
    condition_of(&object, condition::REPLICA_FAILURE).unwrap().message
}

/// The status has no trace of the rejected eviction.
fn assert_clear(object: &OrderedDeployment) {
    assert_eq!(condition_of(object, condition::REPLICA_FAILURE), None);
    assert_eq!(condition_of(object, condition::STALLED).unwrap().status, ConditionStatus::False);
}

fn gone(deletions: &[Deletion]) -> Vec<String> {
    deletions.iter().map(|one| one.pod.clone()).collect()
}

/// The evictions that the server has rejected, except those with an unknown version of `policy` or with an older
/// version of the pod.
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
    budget(&cluster, "careful", 4, 0).await;
    cluster.set_image("web:2").await.unwrap();
    let message = refused(&cluster, reason::EVICTION_REFUSED).await;
    let words = "The disruption budget careful needs 4 healthy pods and has 4 currently";
    assert_eq!(message, format!("Waiting to evict pod {}: {words}", pods[0]));
    set_budget(&cluster, "careful", 3).await;
    let done = cluster.complete("web", 4).await.unwrap();
    assert_clear(&done);
    let deletions = cluster.deletions().await.unwrap();
    assert_eq!(gone(&deletions), pods);
    assert!(deletions.iter().all(|one| one.evicted), "{deletions:#?}");
    assert!(refusals(&cluster).await.iter().all(|one| one.code == 429));
}

/// The disruption controller counts when a pod or the budget changes. A change of `replicas` is neither, so the budget still
/// wants six pods when the first eviction is sent.
async fn a_scale_down_makes_a_budget_without_room_count_again(cluster: TestCluster) {
    let pods = deployed(&cluster, 6).await;
    set_limit(&cluster, "careful", "maxUnavailable", 0).await;
    let version = version(&cluster, &["policy/v1", "policy/v1beta1"]).await;
    let counted = |budget: &DynamicObject| {
        budget.data.pointer("/status/expectedPods").and_then(Value::as_i64) == Some(6)
    };
    let budgets = objects(&cluster, &version, "PodDisruptionBudget");
    cluster.until_object(budgets, "careful", "counted", counted).await.unwrap();
    cluster.scale(3).await.unwrap();
    let done = cluster.complete("web", 3).await.unwrap();
    assert_clear(&done);
    assert_eq!(gone(&cluster.deletions().await.unwrap()), pods[..3]);
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

/// The API server does not evict a pod that two budgets select: it responds with 500, even if they allow the eviction.
async fn the_status_names_several_budgets_of_a_pod_until_one_is_left(cluster: TestCluster) {
    let pods = deployed(&cluster, 3).await;
    budget(&cluster, "one", 1, 2).await;
    budget(&cluster, "two", 1, 2).await;
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
    assert_clear(&done);
    assert_eq!(gone(&cluster.deletions().await.unwrap()), pods);
}

async fn a_scale_down_evicts_the_first_of_the_order_and_waits_for_the_budget(cluster: TestCluster) {
    let pods = deployed(&cluster, 6).await;
    budget(&cluster, "web", 5, 1).await;
    cluster.scale(3).await.unwrap();
    let message = refused(&cluster, reason::EVICTION_REFUSED).await;
    assert!(message.contains(&pods[1]) && message.contains("budget web needs 5"), "{message}");
    assert_eq!(gone(&cluster.deletions().await.unwrap()), pods[..1]);
    set_budget(&cluster, "web", 2).await;
    assert_clear(&cluster.complete("web", 3).await.unwrap());
    let deletions = cluster.deletions().await.unwrap();
    assert_eq!(gone(&deletions), pods[..3]);
    assert!(deletions.iter().all(|one| one.evicted && one.user_agent.ends_with("/scale")), "{deletions:#?}");
}

async fn unavailable_pods_are_deleted_regardless_of_budgets(cluster: TestCluster) {
    let pods = deployed(&cluster, 3).await;
    cluster.set_ready(&pods[0], false).await.unwrap();
    budget(&cluster, "web", 9, 0).await;
    cluster.set_image("web:2").await.unwrap();
    let message = refused(&cluster, reason::EVICTION_REFUSED).await;
    assert!(message.contains(&pods[1]), "{message}");
    let deletions = cluster.deletions().await.unwrap();
    assert_eq!(gone(&deletions), pods[..1]);
    assert!(deletions.iter().all(|one| !one.evicted), "{deletions:#?}");
    set_budget(&cluster, "web", 1).await;
    assert_clear(&cluster.complete("web", 3).await.unwrap());
    assert_eq!(gone(&cluster.deletions().await.unwrap()), pods);
}

side_by_side!(
    Setting::default();
    the_status_names_the_budget_of_a_rejected_eviction_until_it_succeeds,
    the_status_names_several_budgets_of_a_pod_until_one_is_left,
    a_scale_down_makes_a_budget_without_room_count_again,
    a_scale_down_evicts_the_first_of_the_order_and_waits_for_the_budget,
    unavailable_pods_are_deleted_regardless_of_budgets,
);
