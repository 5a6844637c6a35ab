//! Evictions and PodDisruptionBudgets.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::common::{
    create, define_gadgets, gadget, gadgets, merge, pod_with, pods, refusal, seconds, started,
};

fn budgets(client: &Client) -> Api<PodDisruptionBudget> {
    Api::default_namespaced(client.clone())
}

async fn budget(client: &Client, mut spec: Value) {
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let budget = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
    create(&budgets(client), &budget).await;
    seconds(3).await;
}

async fn web(client: &Client, names: &[&str], owner: Option<&str>) {
    for name in names {
        let owner = json!({"apiVersion": "test.example/v1", "kind": "Gadget", "name": "g", "controller": true,
            "uid": owner});
        let owners = if owner["uid"].is_null() { json!([]) } else { json!([owner]) };
        let more = json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": owners}});
        create(&pods(client), &pod_with(name, more)).await;
    }
    seconds(3).await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_allows_one_eviction_and_refuses_the_next_until_there_is_a_replacement() {
    let (_sandbox, client) = started().await;
    web(&client, &["a", "b"], None).await;
    budget(&client, json!({"minAvailable": 1})).await;
    let api = pods(&client);
    api.evict("a", &EvictParams::default()).await.unwrap();
    let refused = refusal(api.evict("b", &EvictParams::default()).await);
    assert_eq!((refused.code, refused.reason.as_str()), (429, "TooManyRequests"));
    let cause = &refused.details.unwrap().causes[0];
    assert_eq!(cause.reason, "DisruptionBudget");
    web(&client, &["c"], None).await;
    api.evict("b", &EvictParams::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_percentage_refers_to_the_scale_of_the_controller() {
    let (_sandbox, client) = started().await;
    define_gadgets(&client).await;
    let owner = create(&gadgets(&client), &gadget("g", json!({"replicas": 4}))).await;
    web(&client, &["a", "b", "c"], owner.uid().as_deref()).await;
    budget(&client, json!({"maxUnavailable": "25%"})).await;
    let status = budgets(&client).get("web").await.unwrap().status.unwrap();
    assert_eq!((status.expected_pods, status.desired_healthy, status.current_healthy), (4, 3, 3));
    assert_eq!(status.disruptions_allowed, 0);
    let fewer = Patch::Merge(json!({"spec": {"replicas": 3}}));
    gadgets(&client).patch_scale("g", &PatchParams::default(), &fewer).await.unwrap();
    // As on a real API server, a change of the scale takes effect with the next change of a pod.
    merge(&pods(&client), "a", json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    seconds(3).await;
    let status = budgets(&client).get("web").await.unwrap().status.unwrap();
    assert_eq!((status.desired_healthy, status.disruptions_allowed), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_two_budgets_is_never_evicted() {
    let (_sandbox, client) = started().await;
    web(&client, &["a"], None).await;
    budget(&client, json!({"minAvailable": 0})).await;
    let mut second = budgets(&client).get("web").await.unwrap();
    second.metadata = kube::api::ObjectMeta::default();
    second.metadata.name = Some("second".to_owned());
    create(&budgets(&client), &second).await;
    let refused = refusal(pods(&client).evict("a", &EvictParams::default()).await);
    assert_eq!((refused.code, refused.reason.as_str()), (500, ""));
    assert!(refused.message.contains("more than one PodDisruptionBudget"), "{refused:?}");
    budgets(&client).delete("second", &DeleteParams::default()).await.unwrap();
    pods(&client).evict("a", &EvictParams::default()).await.unwrap();
}
