//! Declared pause points and aborts from the perspective of a user.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use scenarios::{Server, Setting, TestCluster, on_both, side_by_side};
use serde_json::{Value, json};

/// A strategy with one surge pod, one unavailable pod and these points.
fn strategy(points: &Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}, "pausePoints": points})
}

async fn held_at(cluster: &TestCluster, id: &str, updated: i32, available: i32) {
    let held = cluster.held_with(updated, available).await.unwrap();
    assert_eq!(held.status.unwrap().hold.unwrap().id, id);
}

async fn request(cluster: &TestCluster, field: &str, revision: i64) {
    let patch = json!({"status": {field: revision}}).to_string();
    let patch = ["patch", "od", "web", "--subresource=status", "--type=merge", "-p", &patch];
    cluster.kubectl.run(&patch).await.unwrap();
}

/// Waits until the abort is complete: every pod is of that image and available.
async fn rolled_back(cluster: &TestCluster, image: &str, replicas: usize) -> OrderedDeployment {
    let all = |pods: &[Pod]| {
        let is_old = |pod: &Pod| pod.spec.clone().unwrap().containers[0].image.as_deref() == Some(image);
        pods.len() == replicas && pods.iter().all(is_old)
    };
    cluster.until_pods("rolled back", all).await.unwrap();
    let is_aborted = |object: &OrderedDeployment| {
        let status = object.status.clone().unwrap_or_default();
        let stalled = status.condition(condition::STALLED).cloned();
        let is_stalled =
            stalled.is_some_and(|one| one.reason == reason::ABORTED && one.status == ConditionStatus::True);
        is_stalled && status.available_replicas == i32::try_from(replicas).ok()
    };
    cluster.until("web", "rolled back, with all pods available", is_aborted).await.unwrap()
}

/// The pools of the default nodes are `inference` and `hybrid`. Between the points, the rollout is scaled, its points are edited, the
/// controller is killed, pods are lost, and requests are repeated.
async fn twelve_pods_on_two_pools_pause_at_a_canary_a_pool_and_a_percentage(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let manager = cluster.start_manager().unwrap();
    let points = json!([
        {"name": "canary", "afterUpdated": 1},
        {"name": "inference", "beforeNodes": {"matchLabels": {"node.usage": "inference"}}},
        {"name": "most", "afterUpdated": "75%"},
    ]);
    let pools = json!({"nodePriorities": [
        {"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, "priority": 10},
    ]});
    cluster
        .deployed(&json!({"replicas": 12, "strategy": strategy(&points), "deletionOrder": pools}))
        .await
        .unwrap();
    // The scheduler decides how many pods are in which pool.
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let nodes = nodes.list(&ListParams::default().labels("node.usage=hybrid")).await.unwrap();
    let hybrid: BTreeSet<String> = nodes.iter().map(ResourceExt::name_any).collect();
    let pods = cluster.pods().await.unwrap();
    let of_pod = |pod: &Pod| pod.spec.clone().unwrap().node_name.unwrap();
    let first = i32::try_from(pods.iter().filter(|pod| hybrid.contains(&of_pod(pod))).count()).unwrap();
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
        cluster.kubectl.run(&["delete", "pod", &pods[0]]).await.unwrap();
        let back = |now: &[Pod]| now.len() == 12 && now.iter().all(|pod| pod.name_any() != pods[0]);
        cluster.until_pods("twelve again", back).await.unwrap();
        held_at(&cluster, "inference@2", first, 12).await;
    }
    // An edit of points that are behind or ahead ends no hold.
    let edited = json!([
        {"name": "canary", "afterUpdated": 2},
        {"name": "inference", "beforeNodes": {"matchLabels": {"node.usage": "inference"}}},
        {"name": "most", "afterUpdated": "80%"},
    ]);
    cluster.patch(&json!({"spec": {"strategy": {"pausePoints": edited}}})).await.unwrap();
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
    cluster.resume().await.unwrap();
    cluster.complete("web", 10).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 10);
}

async fn groups_of_nodes_are_replaced_one_after_the_other(cluster: TestCluster) {
    let points = json!([{"name": "each-pool", "betweenNodeGroups": "node.usage"}]);
    cluster.deployed(&json!({"strategy": strategy(&points)})).await.unwrap();
    let nodes = |pods: Vec<Pod>| -> std::collections::BTreeMap<String, String> {
        let node = |pod: &Pod| pod.spec.clone().unwrap().node_name.unwrap();
        pods.iter().map(|pod| (pod.name_any(), node(pod))).collect()
    };
    let before = nodes(cluster.pods().await.unwrap());
    cluster.set_image("web:2").await.unwrap();
    let held = cluster.held("web").await.unwrap().status.unwrap().hold.unwrap();
    assert_eq!(held.id, "each-pool.inference@2");
    // Only pods of the pool `hybrid` are deleted so far.
    let deleted = cluster.deleted().await.unwrap();
    let held_node = held.node.unwrap();
    assert!(deleted.iter().all(|pod| before[pod] != held_node), "{deleted:?} {before:?}");
    cluster.resume().await.unwrap();
    cluster.complete("web", 6).await.unwrap();
}

async fn a_timed_point_goes_on_by_itself_and_removing_the_held_point_ends_the_hold(cluster: TestCluster) {
    let points = json!([
        {"name": "canary", "afterUpdated": 1, "duration": "2s"}, {"name": "half", "afterUpdated": "50%"},
    ]);
    cluster.deployed(&json!({"strategy": strategy(&points)})).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    held_at(&cluster, "half@2", 3, 6).await;
    cluster.patch(&json!({"spec": {"strategy": {"pausePoints": null}}})).await.unwrap();
    let status = cluster.complete("web", 6).await.unwrap().status.unwrap();
    let actions: Vec<_> =
        status.history.unwrap_or_default().iter().map(|one| format!("{:?}", one.action)).collect();
    assert_eq!(actions, ["Held", "Resumed", "Held", "Resumed"]);
}

async fn an_abort_rolls_back_and_a_retry_starts_again(cluster: TestCluster) {
    let points = json!([{"name": "half", "afterUpdated": "50%"}]);
    cluster.deployed(&json!({"strategy": strategy(&points), "revisionHistoryLimit": 0})).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    held_at(&cluster, "half@2", 3, 6).await;
    request(&cluster, "abortRequested", 1).await;
    cluster.until_event(reason::REQUEST_IGNORED).await.unwrap();
    held_at(&cluster, "half@2", 3, 6).await;
    request(&cluster, "abortRequested", 2).await;
    let aborted = rolled_back(&cluster, "web:1", 6).await;
    assert_eq!(aborted.spec.template.value()["spec"]["containers"][0]["image"], "web:2", "the spec stays");
    let aborted = aborted.status.unwrap().aborted.unwrap();
    assert_eq!((aborted.revision, aborted.to), (2, 1));
    request(&cluster, "retryRequested", 2).await;
    held_at(&cluster, "half@3", 3, 6).await;
    cluster.resume().await.unwrap();
    cluster.complete("web", 6).await.unwrap();
}

async fn the_deadline_aborts_a_rollout_that_makes_no_progress(cluster: TestCluster) {
    let spec = json!({
        "replicas": 4, "strategy": strategy(&json!([])),
        "progressDeadlineSeconds": 3, "progressDeadlineAction": "Abort",
    });
    cluster.deployed(&spec).await.unwrap();
    // No node has that label.
    let template = json!({"spec": {"nodeSelector": {"disk": "none"}}});
    cluster.patch(&json!({"spec": {"template": template}})).await.unwrap();
    let aborted = rolled_back(&cluster, "web:1", 4).await.status.unwrap().aborted.unwrap();
    assert!(aborted.reason.contains("progressDeadlineAction: Abort"), "{}", aborted.reason);
}

/// On servers that evaluate CEL the API server refuses it, on others the condition says so, and no pod is deleted.
async fn points_that_break_a_rule_stop_nothing_but_the_rollout(cluster: TestCluster) {
    let pods = cluster.deployed(&json!({"strategy": strategy(&json!([]))})).await.unwrap();
    let two_kinds = json!([{"name": "both", "afterUpdated": 1, "beforePriority": 0}]);
    let spec = json!({
        "strategy": {"pausePoints": two_kinds},
        "template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}},
    });
    if let Err(refused) = cluster.patch(&json!({"spec": spec})).await {
        let refused = format!("{refused:#}");
        assert!(refused.contains("spec.strategy.pausePoints[0]"), "{refused}");
        assert!(refused.contains("exactly one of afterUpdated"), "{refused}");
    } else {
        let is_invalid = |object: &OrderedDeployment| {
            let stalled =
                object.status.as_ref().and_then(|status| status.condition(condition::STALLED).cloned());
            stalled.is_some_and(|one| {
                one.reason == reason::INVALID_SPEC && one.message.contains("exactly one of")
            })
        };
        cluster.until("web", "invalid", is_invalid).await.unwrap();
    }
    // The schema refuses these on every server.
    for points in [
        json!([{"name": "a", "afterUpdated": 0}]),
        json!([{"name": "a", "afterUpdated": "0%"}]),
        json!([{"name": "a", "afterUpdated": "101%"}]),
        json!([{"name": "Canary", "afterUpdated": 1}]),
        json!([{"name": "a", "afterUpdated": 1}, {"name": "a", "afterUpdated": 2}]),
    ] {
        let refused = cluster.patch(&json!({"spec": {"strategy": {"pausePoints": points}}})).await;
        let refused = format!("{:#}", refused.unwrap_err());
        assert!(refused.contains("spec.strategy.pausePoints"), "{refused}");
    }
    let mut left: Vec<_> = cluster.pods().await.unwrap().iter().map(ResourceExt::name_any).collect();
    let mut pods = pods;
    left.sort();
    pods.sort();
    assert_eq!(left, pods);
}

on_both!(twelve_pods_on_two_pools_pause_at_a_canary_a_pool_and_a_percentage);

side_by_side!(
    Setting::default();
    groups_of_nodes_are_replaced_one_after_the_other,
    a_timed_point_goes_on_by_itself_and_removing_the_held_point_ends_the_hold,
    an_abort_rolls_back_and_a_retry_starts_again,
    the_deadline_aborts_a_rollout_that_makes_no_progress,
    points_that_break_a_rule_stop_nothing_but_the_rollout,
);
