//! The life of a pod from creation to removal: scheduler, kubelets, graceful deletion.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use kube_runtime::wait::{Condition, await_condition};
use ordereddeployment_sandbox::{NodeSpec, Sandbox};
use serde_json::json;
use tokio::time::Instant;

use crate::common::{create, merge, pod, pod_with, pods, refusal, sandbox, sandbox_with, seconds, started};

fn ready(pod: Option<&Pod>) -> bool {
    condition(pod, "Ready") == "True"
}

fn condition(pod: Option<&Pod>, kind: &str) -> String {
    pod.and_then(|pod| pod.status.as_ref())
        .and_then(|status| status.conditions.as_ref())
        .and_then(|all| all.iter().find(|one| one.type_ == kind))
        .map(|one| one.status.clone())
        .unwrap_or_default()
}

/// Waits with a timeout: with a paused clock the wait would otherwise never end.
async fn wait_for(api: &Api<Pod>, name: &str, condition: impl Condition<Pod>) {
    let waiting = await_condition(api.clone(), name, condition);
    tokio::time::timeout(Duration::from_secs(120), waiting).await.unwrap().unwrap();
}

/// Creates the pod `a`, on the node `n1`.
async fn with_a_ready_pod(sandbox: &Sandbox) -> Api<Pod> {
    let api = pods(&sandbox.client().unwrap());
    create(&api, &pod("a")).await;
    wait_for(&api, "a", ready).await;
    api
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_assigned_runs_and_becomes_ready_after_the_delay() {
    let (_sandbox, client) = started().await;
    let api = pods(&client);
    let start = Instant::now();
    create(&api, &pod("a")).await;
    wait_for(&api, "a", ready).await;
    assert!(start.elapsed() >= Duration::from_secs(1), "ready after {:?}", start.elapsed());
    let pod = api.get("a").await.unwrap();
    for kind in ["PodScheduled", "Initialized", "ContainersReady", "Ready"] {
        assert_eq!(condition(Some(&pod), kind), "True", "{kind}");
    }
    assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("n1"));
    let status = pod.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert!(status.pod_ip.is_some() && status.start_time.is_some());
    assert!(status.container_statuses.unwrap()[0].ready);
}

#[tokio::test(start_paused = true)]
async fn a_broken_image_runs_but_is_never_ready() {
    let (_sandbox, client) = started().await;
    let api = pods(&client);
    let containers = json!([{"name": "main", "image": "registry/broken:2"}]);
    create(&api, &pod_with("a", json!({"spec": {"containers": containers}}))).await;
    seconds(3600).await;
    let pod = api.get("a").await.unwrap();
    assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(condition(Some(&pod), "Ready"), "False");
}

#[tokio::test(start_paused = true)]
async fn a_node_selector_and_a_full_pool_leave_a_pod_unschedulable_until_there_is_room() {
    let sandbox = sandbox_with(|config| {
        config.nodes = vec![NodeSpec { pods_capacity: 1, ..NodeSpec::in_pool("h", "hybrid") }];
        config.nodes.push(NodeSpec::in_pool("i", "inference"));
    })
    .await;
    let api = pods(&sandbox.client().unwrap());
    for name in ["a", "b"] {
        create(&api, &pod_with(name, json!({"spec": {"nodeSelector": {"node.usage": "hybrid"}}}))).await;
    }
    seconds(5).await;
    let second = api.get("b").await.unwrap();
    assert_eq!(condition(Some(&second), "PodScheduled"), "False");
    let message = second.status.unwrap().conditions.unwrap()[0].message.clone().unwrap();
    assert!(message.starts_with("0/2 nodes are available: 1 node(s) didn't match"), "{message}");
    api.delete("a", &DeleteParams::default()).await.unwrap();
    wait_for(&api, "b", ready).await;
    assert_eq!(api.get("b").await.unwrap().spec.unwrap().node_name.as_deref(), Some("h"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_terminates_until_its_kubelet_removes_it() {
    let sandbox = sandbox().await;
    let api = with_a_ready_pod(&sandbox).await;
    let start = Instant::now();
    let marked = api.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert_eq!(marked.metadata.deletion_grace_period_seconds, Some(30));
    assert!(api.get("a").await.is_ok());
    wait_for(&api, "a", |pod: Option<&Pod>| pod.is_none()).await;
    assert!(start.elapsed() >= Duration::from_millis(500), "gone after {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_unassigned_pod_and_a_pod_without_grace_period_are_removed_immediately() {
    let sandbox = sandbox_with(|config| config.nodes.truncate(1)).await;
    let api = pods(&sandbox.client().unwrap());
    create(&api, &pod_with("nowhere", json!({"spec": {"nodeSelector": {"no": "such"}}}))).await;
    api.delete("nowhere", &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(api.get("nowhere").await).code, 404);
    create(&api, &pod("a")).await;
    wait_for(&api, "a", ready).await;
    api.delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(refusal(api.get("a").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn two_runs_with_one_seed_have_the_same_requests() {
    let mut traces = BTreeSet::new();
    for _ in 0..2 {
        let sandbox = sandbox().await;
        let api = pods(&sandbox.client().unwrap());
        let all: Vec<Pod> = (0..20).map(|n| pod(&format!("p{n}"))).collect();
        futures::future::join_all(all.iter().map(|one| create(&api, one))).await;
        seconds(10).await;
        let trace: Vec<String> = sandbox
            .requests()
            .into_iter()
            .map(|one| format!("{} {} {} {}", one.at, one.verb, one.path, one.code))
            .collect();
        let uids: Vec<_> =
            api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::uid).collect();
        traces.insert((trace, uids));
    }
    assert_eq!(traces.len(), 1);
}

/// Takes the node `n1` out of service or brings it back, with the taints of an unreachable node.
async fn set_lost(sandbox: &Sandbox, is_lost: bool) {
    sandbox.silence("n1", is_lost);
    let effects: &[&str] = if is_lost { &["NoSchedule", "NoExecute"] } else { &[] };
    let taint = |effect: &&str| json!({"key": "node.kubernetes.io/unreachable", "effect": effect});
    let patch = json!({"spec": {"taints": effects.iter().map(taint).collect::<Vec<_>>()}});
    let nodes: Api<Node> = Api::all(sandbox.client().unwrap());
    merge(&nodes, "n1", patch).await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_lost_node_are_evicted_and_stuck_until_it_is_back() {
    let sandbox = sandbox().await;
    let api = with_a_ready_pod(&sandbox).await;
    // It stays on a node that is soon back.
    set_lost(&sandbox, true).await;
    seconds(60).await;
    set_lost(&sandbox, false).await;
    seconds(600).await;
    let found = api.get("a").await.unwrap();
    assert!(ready(Some(&found)) && found.metadata.deletion_timestamp.is_none());
    set_lost(&sandbox, true).await;
    create(&api, &pod("b")).await;
    wait_for(&api, "b", ready).await;
    assert_eq!(api.get("b").await.unwrap().spec.unwrap().node_name.as_deref(), Some("n2"));

    // Each pod tolerates the taint for five minutes by default.
    seconds(290).await;
    assert!(api.get("a").await.unwrap().metadata.deletion_timestamp.is_none());
    seconds(300).await;
    assert!(api.get("a").await.unwrap().metadata.deletion_timestamp.is_some(), "no client deletes it");
    set_lost(&sandbox, false).await;
    wait_for(&api, "a", |pod: Option<&Pod>| pod.is_none()).await;
}
