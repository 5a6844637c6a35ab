//! Quotas that reject pods, and taints that evict them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, ResourceQuota};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::common::{pod_value, pods, refusal, sandbox};

async fn wait_for_agents() {
    tokio::time::sleep(Duration::from_secs(3)).await;
}

async fn create(client: &Client, name: &str, more: Value, dry_run: bool) -> Result<Pod, kube::Error> {
    let mut pod = pod_value(name, json!({"app": "web"}));
    for (key, value) in more.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    let params = PostParams { dry_run, ..PostParams::default() };
    pods(client).create(&params, &serde_json::from_value(pod).unwrap()).await
}

async fn quota(client: &Client, spec: Value) -> Api<ResourceQuota> {
    let quota = serde_json::from_value(json!({"metadata": {"name": "few"}, "spec": spec})).unwrap();
    let quotas: Api<ResourceQuota> = Api::default_namespaced(client.clone());
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    wait_for_agents().await;
    quotas
}

#[tokio::test(start_paused = true)]
async fn a_quota_rejects_further_pods_until_one_has_finished() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let quotas = quota(&client, json!({"hard": {"pods": "2", "cpu": "1"}})).await;
    for name in ["a", "b"] {
        create(&client, name, json!({}), false).await.unwrap();
    }
    let hard = quotas.get("few").await.unwrap().status.unwrap().hard.unwrap();
    assert_eq!((hard["pods"].0.as_str(), hard["cpu"].0.as_str()), ("2", "1"));
    for dry_run in [true, false] {
        let refused = refusal(create(&client, "c", json!({}), dry_run).await);
        assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
        let words =
            "pods \"c\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
        assert_eq!(refused.message, words);
    }
    let failed = json!({"status": {"phase": "Failed"}});
    pods(&client).patch_status("a", &PatchParams::default(), &Patch::Merge(failed)).await.unwrap();
    create(&client, "c", json!({}), false).await.unwrap();
    refusal(create(&client, "d", json!({}), false).await);
}

#[tokio::test(start_paused = true)]
async fn a_quota_with_scopes_or_for_other_resources_ignores_pods() {
    for spec in
        [json!({"hard": {"pods": "0"}, "scopes": ["BestEffort"]}), json!({"hard": {"requests.cpu": "0"}})]
    {
        let sandbox = sandbox().await;
        let client = sandbox.client().unwrap();
        quota(&client, spec).await;
        create(&client, "a", json!({}), false).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_no_execute_taint_evicts_pods_without_a_toleration_or_after_it() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    let on = |tolerations: Value| json!({"nodeName": "n1", "tolerations": tolerations});
    create(&client, "forever", on(json!([{"operator": "Exists"}])), false).await.unwrap();
    let some_time =
        json!([{"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    create(&client, "some-time", on(some_time), false).await.unwrap();
    create(&client, "not-at-all", on(json!([])), false).await.unwrap();
    create(&client, "elsewhere", json!({"nodeName": "n2"}), false).await.unwrap();
    wait_for_agents().await;
    let taint = async |effect: &str| {
        let taints = json!({"spec": {"taints": [{"key": "gone", "effect": effect}]}});
        nodes.patch("n1", &PatchParams::default(), &Patch::Merge(taints)).await.unwrap();
        wait_for_agents().await;
    };
    let left = async || {
        let mut names = Vec::new();
        for name in ["elsewhere", "forever", "not-at-all", "some-time"] {
            names.extend(pods(&client).get_opt(name).await.unwrap().and_then(|pod| pod.metadata.name));
        }
        names
    };
    taint("NoSchedule").await;
    assert_eq!(left().await.len(), 4);
    taint("NoExecute").await;
    assert_eq!(left().await, ["elsewhere", "forever", "some-time"]);
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(left().await, ["elsewhere", "forever", "some-time"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(left().await, ["elsewhere", "forever"]);
}
