//! Quotas that reject pods, and taints that evict them.

use k8s_openapi::api::core::v1::{Node, ResourceQuota};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::common::{create, merge, names, pod, pod_with, pods, refusal, seconds, started};

async fn quota(client: &Client, spec: Value) -> Api<ResourceQuota> {
    let quota = serde_json::from_value(json!({"metadata": {"name": "few"}, "spec": spec})).unwrap();
    let quotas: Api<ResourceQuota> = Api::default_namespaced(client.clone());
    create(&quotas, &quota).await;
    seconds(3).await;
    quotas
}

#[tokio::test(start_paused = true)]
async fn a_quota_rejects_further_pods_until_one_has_finished() {
    let (_sandbox, client) = started().await;
    let quotas = quota(&client, json!({"hard": {"pods": "2", "cpu": "1"}})).await;
    for name in ["a", "b"] {
        create(&pods(&client), &pod(name)).await;
    }
    let hard = quotas.get("few").await.unwrap().status.unwrap().hard.unwrap();
    assert_eq!((hard["pods"].0.as_str(), hard["cpu"].0.as_str()), ("2", "1"));
    for dry_run in [true, false] {
        let refused =
            refusal(pods(&client).create(&PostParams { dry_run, ..PostParams::default() }, &pod("c")).await);
        assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
        let words =
            "pods \"c\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
        assert_eq!(refused.message, words);
    }
    let failed = json!({"status": {"phase": "Failed"}});
    pods(&client).patch_status("a", &PatchParams::default(), &Patch::Merge(failed)).await.unwrap();
    create(&pods(&client), &pod("c")).await;
    refusal(pods(&client).create(&PostParams::default(), &pod("d")).await);
}

#[tokio::test(start_paused = true)]
async fn a_quota_with_scopes_or_for_other_resources_ignores_pods() {
    for spec in
        [json!({"hard": {"pods": "0"}, "scopes": ["BestEffort"]}), json!({"hard": {"requests.cpu": "0"}})]
    {
        let (_sandbox, client) = started().await;
        quota(&client, spec).await;
        create(&pods(&client), &pod("a")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_no_execute_taint_evicts_pods_without_a_toleration_or_after_it() {
    let (_sandbox, client) = started().await;
    let nodes: Api<Node> = Api::all(client.clone());
    let on = |tolerations: Value| json!({"nodeName": "n1", "tolerations": tolerations});
    create(&pods(&client), &pod_with("forever", json!({"spec": on(json!([{"operator": "Exists"}]))}))).await;
    let some_time =
        json!([{"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    create(&pods(&client), &pod_with("some-time", json!({"spec": on(some_time)}))).await;
    create(&pods(&client), &pod_with("not-at-all", json!({"spec": on(json!([]))}))).await;
    create(&pods(&client), &pod_with("elsewhere", json!({"spec": {"nodeName": "n2"}}))).await;
    seconds(3).await;
    let taint = async |effect: &str| {
        let taints = json!({"spec": {"taints": [{"key": "gone", "effect": effect}]}});
        merge(&nodes, "n1", taints).await;
        seconds(3).await;
    };
    let left = async || names(&pods(&client)).await;
    taint("NoSchedule").await;
    assert_eq!(left().await.len(), 4);
    taint("NoExecute").await;
    assert_eq!(left().await, ["elsewhere", "forever", "some-time"]);
    seconds(50).await;
    assert_eq!(left().await, ["elsewhere", "forever", "some-time"]);
    seconds(10).await;
    assert_eq!(left().await, ["elsewhere", "forever"]);
}
