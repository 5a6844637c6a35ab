//! Rollouts with obstacles: unready pods, lost pause points, a resume of all pause points.

#[cfg(feature = "real-servers")]
use std::time::Duration;

#[cfg(feature = "real-servers")]
use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::{condition, reason};
use scenarios::{Setting, TestCluster, side_by_side};
use serde_json::{Value, json};

/// Creates six pods in deletion order. The last two are not ready, so the floor does not allow the deletion of the
/// first.
async fn with_two_unready_behind(cluster: &TestCluster, more: &Value) -> Vec<String> {
    let pods = cluster.deployed(more).await.unwrap();
    for (pod, priority) in pods.iter().zip([5, 4, 3, 2, -1, -2]) {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    for pod in &pods[4..] {
        cluster.set_ready(pod, false).await.unwrap();
    }
    let four = |object: &OrderedDeployment| {
        object.status.as_ref().is_some_and(|status| status.available_replicas == Some(4))
    };
    cluster.until("web", "four available", four).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    pods
}

async fn unready_pods_are_deleted_first_if_the_order_is_blocked(cluster: TestCluster) {
    let pods = with_two_unready_behind(&cluster, &json!({})).await;
    cluster.complete("web", 6).await.unwrap();
    let deleted = cluster.deleted().await.unwrap();
    assert!(pods[4..].iter().all(|pod| deleted[..2].contains(pod)), "{deleted:?} of {pods:?}");
    assert_eq!(deleted[2..], pods[..4], "then by the order");
}

async fn unready_pods_are_deleted_in_order_if_configured(cluster: TestCluster) {
    let pods =
        with_two_unready_behind(&cluster, &json!({"deletionOrder": {"unavailablePods": "InOrder"}})).await;
    let waits = |object: &OrderedDeployment| {
        let status = object.status.clone().unwrap_or_default();
        let stalled = status.condition(condition::STALLED).cloned();
        stalled.is_some_and(|stalled| stalled.reason == reason::WAITING_IN_ORDER)
    };
    let object = cluster.until("web", "waiting", waits).await.unwrap();
    let stalled = object.status.unwrap().condition(condition::STALLED).cloned().unwrap();
    assert!(stalled.message.contains(&pods[0]), "{stalled:?}");
    assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());
    for pod in &pods[4..] {
        cluster.set_ready(pod, true).await.unwrap();
    }
    cluster.complete("web", 6).await.unwrap();
    assert_eq!(cluster.deleted().await.unwrap(), pods);
}

async fn unready_pods_after_a_pause_point_block_the_rollout_and_pass_no_pause_point(cluster: TestCluster) {
    let pods = cluster.deployed(&json!({})).await.unwrap();
    block(&cluster, &pods, "web:2").await;
    let blocked =
        |object: &OrderedDeployment| object.status.as_ref().is_some_and(|status| status.blocked.is_some());
    let object = cluster.until("web", "blocked", blocked).await.unwrap();
    let status = object.status.unwrap();
    assert_eq!((status.hold, status.blocked.unwrap().id), (None, format!("{}@2", pods[1])));
    assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());
    for pod in &pods[4..] {
        cluster.set_ready(pod, true).await.unwrap();
    }
    let hold = cluster.held("web").await.unwrap().status.unwrap().hold.unwrap();
    assert_eq!(hold.pod, pods[1]);
    assert_eq!(cluster.deleted().await.unwrap(), pods[..1]);
    cluster.resume().await.unwrap();
    cluster.complete("web", 6).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 6);
}

/// A rollout of these six pods to that image, in which no pod may be deleted: the second one has a pause point, and two pods after it are
/// not ready.
pub(crate) async fn block(cluster: &TestCluster, pods: &[String], image: &str) {
    cluster.pause_at(&pods[1], "before").await.unwrap();
    for (pod, priority) in pods.iter().zip([5, 4]) {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    for pod in &pods[4..] {
        cluster.set_ready(pod, false).await.unwrap();
    }
    let unready = |object: &OrderedDeployment| {
        object.status.as_ref().is_some_and(|status| status.available_replicas == Some(4))
    };
    cluster.until("web", "four available", unready).await.unwrap();
    cluster.set_image(image).await.unwrap();
}

/// Creates six pods and blocks their rollout. Waits until the status reports this, which takes a minute.
#[cfg(feature = "real-servers")]
async fn blocked_at_a_pause_point(cluster: &TestCluster) -> Vec<String> {
    let pods = cluster.deployed(&json!({})).await.unwrap();
    block(cluster, &pods, "web:2").await;
    let object =
        cluster.with_timeout(Duration::from_secs(150)).until("web", "blocked", is_blocked).await.unwrap();
    let status = object.status.unwrap();
    let message = &status.condition(condition::STALLED).unwrap().message;
    let id = format!("{}@2", pods[1]);
    assert!([&id, &pods[4], &pods[5]].iter().all(|named| message.contains(*named)), "{message}");
    assert_eq!(status.hold, None);
    assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());
    pods
}

#[cfg(feature = "real-servers")]
fn is_blocked(object: &OrderedDeployment) -> bool {
    let stalled = object.status.as_ref().and_then(|status| status.condition(condition::STALLED));
    stalled
        .is_some_and(|stalled| stalled.status == ConditionStatus::True && stalled.reason == reason::BLOCKED)
}

#[cfg(feature = "real-servers")]
async fn a_blocked_rollout_continues_when_the_blocking_pods_are_ready(cluster: TestCluster) {
    let pods = blocked_at_a_pause_point(&cluster).await;
    for pod in &pods[4..] {
        cluster.set_ready(pod, true).await.unwrap();
    }
    let hold = cluster.held_with(1, 6).await.unwrap().status.unwrap().hold.unwrap();
    assert_eq!(hold.pod, pods[1], "the point is not used up");
    assert_eq!(cluster.deleted().await.unwrap(), pods[..1]);
    cluster.until("web", "no longer blocked", |object| !is_blocked(object)).await.unwrap();
    cluster.resume().await.unwrap();
    cluster.complete("web", 6).await.unwrap();
}

#[cfg(feature = "real-servers")]
async fn a_blocked_rollout_is_resumed_only_by_the_id_of_its_pause_point(cluster: TestCluster) {
    let pods = blocked_at_a_pause_point(&cluster).await;
    let plugin = cluster.plugin().unwrap();
    let refused = plugin.run(&["resume", "web"]).await.unwrap();
    assert_ne!(refused.code, 0, "{refused:?}");
    let id = format!("{}@2", pods[1]);
    for way in [pods[4].as_str(), "maxUnavailable", &id, "undo"] {
        assert!(refused.err.contains(way), "{way}: {refused:?}");
    }
    assert!(is_blocked(&cluster.deployments().get("web").await.unwrap()));
    assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());
    plugin.ok(&["resume", "web", "--hold", &id]).await.unwrap();
    cluster.complete("web", 6).await.unwrap();
    let deleted = cluster.deleted().await.unwrap();
    assert!(pods[4..].iter().all(|pod| deleted[..2].contains(pod)), "{deleted:?} of {pods:?}");
}

/// The quota has no room for a surge pod, so no new pod can start before the first pod is deleted.
async fn a_quota_without_room_and_an_unready_pod_do_not_stop_a_rollout(cluster: TestCluster) {
    cluster.set_quota(4).await.unwrap();
    let bounds = json!({"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    let pods = cluster.deployed(&json!({"replicas": 4, "strategy": bounds})).await.unwrap();
    for (pod, priority) in pods.iter().zip([5, 4, 3]) {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    cluster.set_ready(&pods[3], false).await.unwrap();
    let three = |object: &OrderedDeployment| {
        object.status.as_ref().is_some_and(|status| status.available_replicas == Some(3))
    };
    cluster.until("web", "three available", three).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.complete("web", 4).await.unwrap();
    let deleted = cluster.deleted().await.unwrap();
    assert_eq!(deleted[0], pods[3], "the unready one makes room");
    assert_eq!(deleted[1..], pods[..3]);
}

/// Creates a rollout that is held at the first of two pause points.
async fn held_at_the_first_of_two(cluster: &TestCluster) -> [String; 2] {
    let pods = cluster.deployed(&json!({"replicas": 4})).await.unwrap();
    for (pod, priority) in [(&pods[0], 2), (&pods[1], 1)] {
        cluster.prioritise(pod, priority).await.unwrap();
        cluster.pause_at(pod, "before").await.unwrap();
    }
    cluster.set_image("web:2").await.unwrap();
    cluster.held_with(0, 4).await.unwrap();
    [pods[0].clone(), pods[1].clone()]
}

async fn a_lost_pod_with_a_pause_point_is_reported(cluster: TestCluster) {
    let [_, second] = held_at_the_first_of_two(&cluster).await;
    cluster.kubectl.run(&["delete", "pod", &second]).await.unwrap();
    cluster.until_event(reason::PAUSE_POINT_LOST).await.unwrap();
    cluster.resume().await.unwrap();
    // As many pods are updated as were ahead of the lost one.
    let again = |object: &OrderedDeployment| {
        let hold = object.status.as_ref().and_then(|status| status.hold.as_ref());
        hold.is_some_and(|hold| hold.pod == second)
    };
    cluster.until("web", "held at the lost pod's number", again).await.unwrap();
    cluster.resume().await.unwrap();
    cluster.complete("web", 4).await.unwrap();
}

async fn a_resume_of_all_pause_points_passes_the_later_ones_too(cluster: TestCluster) {
    let [first, second] = held_at_the_first_of_two(&cluster).await;
    cluster.request_resume("*@2").await.unwrap();
    cluster.complete("web", 4).await.unwrap();
    let deleted = cluster.deleted().await.unwrap();
    assert_eq!((deleted.len(), &deleted[0], &deleted[1]), (4, &first, &second));
}

side_by_side!(
    Setting::default();
    unready_pods_are_deleted_first_if_the_order_is_blocked,
    unready_pods_are_deleted_in_order_if_configured,
    unready_pods_after_a_pause_point_block_the_rollout_and_pass_no_pause_point,
    a_quota_without_room_and_an_unready_pod_do_not_stop_a_rollout,
    a_lost_pod_with_a_pause_point_is_reported,
    a_resume_of_all_pause_points_passes_the_later_ones_too;
    only on a real server:
    a_blocked_rollout_continues_when_the_blocking_pods_are_ready,
    a_blocked_rollout_is_resumed_only_by_the_id_of_its_pause_point,
);
