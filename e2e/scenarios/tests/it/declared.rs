//! Declared pause points, an abort and a retry from the perspective of a user.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use scenarios::{Server, TestCluster, node_of, on_both};
use serde_json::{Value, json};

async fn held_at(cluster: &TestCluster, id: &str, updated: i32, available: i32) {
    let held = cluster.held_with(updated, available).await.unwrap();
    assert_eq!(held.status.unwrap().hold.unwrap().id, id);
}

/// The points: after one pod, before a pool, and after this share of the pods.
fn points(canary: i32, most: &str) -> Value {
    json!([
        {"name": "canary", "afterUpdated": canary},
        {"name": "inference", "beforeNodes": {"matchLabels": {"node.usage": "inference"}}},
        {"name": "most", "afterUpdated": most},
    ])
}

/// How many pods are on nodes of the pool `hybrid`: the scheduler decides.
async fn pods_on_hybrid_nodes(cluster: &TestCluster) -> i32 {
    let hybrid = cluster.pool("hybrid").await.unwrap();
    let pods = cluster.pods().await.unwrap();
    i32::try_from(pods.iter().filter(|pod| hybrid.contains(node_of(pod))).count()).unwrap()
}

/// The pools of the default nodes are `inference` and `hybrid`. Between the points, the rollout is scaled,
/// its points are edited, the controller is killed, pods are lost, and requests are repeated. At the last
/// point it is aborted and retried.
async fn twelve_pods_on_two_pools_pause_at_a_canary_a_pool_and_a_percentage(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let manager = cluster.start_manager().unwrap();
    let strategy = json!({
        "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1},
        "pausePoints": points(1, "75%"),
    });
    let pools = json!({"nodePriorities": [
        {"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, "priority": 10},
    ]});
    let spec = json!({"replicas": 12, "strategy": strategy, "deletionOrder": pools});
    cluster.deployed(&spec).await.unwrap();
    let first = pods_on_hybrid_nodes(&cluster).await;
    cluster.set_image("web:2").await.unwrap();
    held_at(&cluster, "canary@2", 1, 12).await;
    // A kill and a duplicate.
    manager.kill().await.unwrap();
    cluster.request_resume("canary@2").await.unwrap();
    let manager = cluster.start_manager().unwrap();
    held_at(&cluster, "inference@2", first, 12).await;
    cluster.request_resume("canary@2").await.unwrap();
    cluster.until_event(reason::RESUME_IGNORED).await.unwrap();
    held_at(&cluster, "inference@2", first, 12).await;
    // A lost pod of each revision comes back in its own.
    for image in ["web:1", "web:2"] {
        let pods = cluster.pods_of_image(image).await.unwrap();
        cluster.lose(&pods[0]).await.unwrap();
        let back = |now: &[Pod]| now.len() == 12 && now.iter().all(|pod| pod.name_any() != pods[0]);
        cluster.until_pods("twelve again", back).await.unwrap();
        held_at(&cluster, "inference@2", first, 12).await;
    }
    // An edit of points that are behind or ahead ends no hold.
    cluster.patch(&json!({"spec": {"strategy": {"pausePoints": points(2, "80%")}}})).await.unwrap();
    held_at(&cluster, "inference@2", first, 12).await;
    // Scaling passes no point.
    cluster.scale(0).await.unwrap();
    cluster.until_pods("none", <[Pod]>::is_empty).await.unwrap();
    cluster.scale(10).await.unwrap();
    let is_restored = |object: &OrderedDeployment| {
        let status = object.status.clone().unwrap_or_default();
        status.hold.is_some_and(|hold| hold.id == "inference@2") && status.available_replicas == Some(10)
    };
    let restored = cluster.until("web", "held again with ten pods", is_restored).await.unwrap();
    // The split of before, in proportion.
    let updated = restored.status.unwrap().updated_replicas.unwrap();
    assert!((updated * 12 - first * 10).abs() <= 6, "{updated} of 10, {first} of 12 before");
    manager.kill().await.unwrap();
    let _manager = cluster.start_manager().unwrap();
    cluster.resume().await.unwrap();
    held_at(&cluster, "most@2", 8, 10).await;
    Box::pin(is_aborted_and_retried(&cluster)).await;
}

async fn is_aborted_and_retried(cluster: &TestCluster) {
    cluster.patch_status(&json!({"abortRequested": 1})).await.unwrap();
    cluster.until_event(reason::REQUEST_IGNORED).await.unwrap();
    held_at(cluster, "most@2", 8, 10).await;
    cluster.patch_status(&json!({"abortRequested": 2})).await.unwrap();
    cluster.until_said(condition::STALLED, ConditionStatus::True, reason::ABORTED).await.unwrap();
    let is_back = |object: &OrderedDeployment| {
        let status = object.status.clone().unwrap_or_default();
        status.updated_replicas == Some(0)
            && (status.replicas, status.available_replicas) == (Some(10), Some(10))
    };
    let aborted = cluster.until("web", "rolled back, with all pods available", is_back);
    let aborted = cluster.with_at_least(9, aborted).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), 10);
    assert_eq!(aborted.spec.template.value()["spec"]["containers"][0]["image"], "web:2", "the spec stays");
    let aborted = aborted.status.unwrap().aborted.unwrap();
    assert_eq!((aborted.revision, aborted.to), (2, 1));
    cluster.patch_status(&json!({"retryRequested": 2})).await.unwrap();
    held_at(cluster, "canary@3", 2, 10).await;
    cluster.request_resume("*@3").await.unwrap();
    cluster.complete("web", 10).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 10);
}

on_both!(twelve_pods_on_two_pools_pause_at_a_canary_a_pool_and_a_percentage);
