//! Evictions and PodDisruptionBudgets.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::common::{define_gadgets, gadget, gadgets, pod_value, pods, refusal, sandbox};

async fn wait_for_agents() {
    tokio::time::sleep(Duration::from_secs(3)).await;
}

fn budgets(client: &Client) -> Api<PodDisruptionBudget> {
    Api::default_namespaced(client.clone())
}

async fn budget(client: &Client, mut spec: Value) {
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let budget = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
    budgets(client).create(&PostParams::default(), &budget).await.unwrap();
    wait_for_agents().await;
}

async fn web(client: &Client, names: &[&str], owner: Option<&str>) {
    for name in names {
        let mut pod = pod_value(name, json!({"app": "web"}));
        if let Some(uid) = owner {
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "test.example/v1", "kind": "Gadget", "name": "g", "uid": uid,
                "controller": true,
            }]);
        }
        let pod: Pod = serde_json::from_value(pod).unwrap();
        pods(client).create(&PostParams::default(), &pod).await.unwrap();
    }
    wait_for_agents().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_allows_one_eviction_and_refuses_the_next_until_there_is_a_replacement() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
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
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    define_gadgets(&client).await;
    let owner =
        gadgets(&client).create(&PostParams::default(), &gadget("g", json!({"replicas": 4}))).await.unwrap();
    web(&client, &["a", "b", "c"], owner.uid().as_deref()).await;
    budget(&client, json!({"maxUnavailable": "25%"})).await;
    let status = budgets(&client).get("web").await.unwrap().status.unwrap();
    assert_eq!((status.expected_pods, status.desired_healthy, status.current_healthy), (4, 3, 3));
    assert_eq!(status.disruptions_allowed, 0);
    let fewer = Patch::Merge(json!({"spec": {"replicas": 3}}));
    gadgets(&client).patch_scale("g", &PatchParams::default(), &fewer).await.unwrap();
    // As on a real API server, a change of the scale takes effect with the next change of a pod.
    let touch = Patch::Merge(json!({"metadata": {"labels": {"touched": "yes"}}}));
    pods(&client).patch("a", &PatchParams::default(), &touch).await.unwrap();
    wait_for_agents().await;
    let status = budgets(&client).get("web").await.unwrap().status.unwrap();
    assert_eq!((status.desired_healthy, status.disruptions_allowed), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_two_budgets_is_never_evicted() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    web(&client, &["a"], None).await;
    budget(&client, json!({"minAvailable": 0})).await;
    let mut second = budgets(&client).get("web").await.unwrap();
    second.metadata =
        kube::api::ObjectMeta { name: Some("second".to_owned()), ..kube::api::ObjectMeta::default() };
    budgets(&client).create(&PostParams::default(), &second).await.unwrap();
    let refused = refusal(pods(&client).evict("a", &EvictParams::default()).await);
    assert_eq!((refused.code, refused.reason.as_str()), (500, ""));
    assert!(refused.message.contains("more than one PodDisruptionBudget"), "{refused:?}");
    budgets(&client).delete("second", &DeleteParams::default()).await.unwrap();
    pods(&client).evict("a", &EvictParams::default()).await.unwrap();
}
