//! Scaling during a rollout with pause points, and the surge that a hold keeps.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::OrderedDeployment;
use scenarios::{Setting, TestCluster, side_by_side};
use serde_json::{Value, json};

fn bounds(surge: i32, unavailable: i32) -> Value {
    json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

/// The number of non-terminating pods with the first image, and with another image.
fn split(pods: &[Pod]) -> (usize, usize) {
    let active = || pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let is_old = |pod: &&Pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("web:1");
    let old = active().filter(is_old).count();
    (old, active().count() - old)
}

async fn until_split(cluster: &TestCluster, old: usize, new: usize) {
    let what = format!("{old} old pods and {new} new ones");
    cluster.until_pods(&what, |pods| split(pods) == (old, new)).await.unwrap();
}

/// Starts a rollout of ten pods that cannot complete: of the three pods before the pause point two are deleted, and the
/// third cannot be. Returns the pod with the pause point.
async fn stuck_ahead_of_a_point(cluster: &TestCluster) -> String {
    let pods = cluster.deployed(&json!({"replicas": 10, "strategy": bounds(2, 2)})).await.unwrap();
    for pod in &pods[..3] {
        cluster.prioritise(pod, 9).await.unwrap();
    }
    cluster.prioritise(&pods[3], 5).await.unwrap();
    cluster.pause_at(&pods[3], "before").await.unwrap();
    cluster.set_image("web:broken").await.unwrap();
    until_split(cluster, 8, 3).await;
    pods[3].clone()
}

async fn lives(cluster: &TestCluster, pod: &str) -> bool {
    cluster.pods().await.unwrap().iter().any(|one| one.name_any() == pod)
}

fn hold_of(object: &OrderedDeployment) -> Option<String> {
    object.status.as_ref()?.hold.as_ref().map(|hold| hold.id.clone())
}

async fn a_scale_down_in_a_rollout_keeps_the_pod_with_the_pause_point(cluster: TestCluster) {
    let point = stuck_ahead_of_a_point(&cluster).await;
    cluster.scale(7).await.unwrap();
    let fewer = |pods: &[Pod]| split(pods).0 < 8 && split(pods).0 + split(pods).1 <= 9;
    cluster.until_pods("fewer", fewer).await.unwrap();
    assert!(lives(&cluster, &point).await);
    // A working template rolls out up to the pause point.
    cluster.set_image("web:2").await.unwrap();
    let held = |object: &OrderedDeployment| hold_of(object) == Some(format!("{point}@3"));
    cluster.until("web", "held", held).await.unwrap();
    assert!(lives(&cluster, &point).await);
    cluster.resume().await.unwrap();
    cluster.complete("web", 7).await.unwrap();
}

async fn a_rollout_scaled_to_zero_and_back_keeps_its_pause_point(cluster: TestCluster) {
    let point = stuck_ahead_of_a_point(&cluster).await;
    cluster.scale(0).await.unwrap();
    cluster.until_pods("none", <[Pod]>::is_empty).await.unwrap();
    cluster.scale(10).await.unwrap();
    // As many updated ones as were ahead of the point. They do not become ready, and it is not reached.
    until_split(&cluster, 7, 3).await;
    let status = cluster.deployments().get("web").await.unwrap().status.unwrap();
    assert_eq!(status.hold, None);
    assert_eq!(status.rollout.unwrap().points.unwrap()[0].id, format!("{point}@2"));
}

async fn a_hold_keeps_its_pod_while_several_old_sets_are_scaled(cluster: TestCluster) {
    let pods = cluster.deployed(&json!({"replicas": 8, "strategy": bounds(2, 2)})).await.unwrap();
    let (point, first) = (&pods[6], &pods[..6]);
    for pod in first {
        cluster.prioritise(pod, 5).await.unwrap();
    }
    cluster.prioritise(point, 1).await.unwrap();
    cluster.pause_at(point, "before").await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.held_with(6, 8).await.unwrap();
    for pod in cluster.pods_of_image("web:2").await.unwrap() {
        cluster.prioritise(&pod, -1).await.unwrap();
    }
    // The second revision has not served: its six pods go first.
    cluster.set_image("web:3").await.unwrap();
    let id = format!("{point}@3");
    cluster.until("web", "held again", |object| hold_of(object).as_ref() == Some(&id)).await.unwrap();
    cluster.scale(1).await.unwrap();
    let alone = |pods: &[Pod]| pods.len() == 1;
    let left = cluster.until_pods("one", alone).await.unwrap();
    assert_eq!(left[0].name_any(), *point);
    cluster.scale(8).await.unwrap();
    let object = cluster.held_with(6, 8).await.unwrap();
    assert_eq!(hold_of(&object), Some(id));
    assert!(lives(&cluster, point).await);
}

async fn a_hold_deletes_no_surge(cluster: TestCluster) {
    let pods = cluster.deployed(&json!({"replicas": 6, "strategy": bounds(3, 0)})).await.unwrap();
    cluster.set_image("web:broken").await.unwrap();
    until_split(&cluster, 6, 3).await;
    cluster.prioritise(&pods[0], 1).await.unwrap();
    cluster.pause_at(&pods[0], "before").await.unwrap();
    cluster.held("web").await.unwrap();
    let before = cluster.pods().await.unwrap();
    assert_eq!(split(&before), (6, 3));
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap(), pods);
    cluster.set_image("web:2").await.unwrap();
    let again = |object: &OrderedDeployment| hold_of(object).is_some_and(|id| id.ends_with("@3"));
    cluster.until("web", "held again", again).await.unwrap();
    cluster.resume().await.unwrap();
    cluster.complete("web", 6).await.unwrap();
}

side_by_side!(
    Setting::default();
    a_scale_down_in_a_rollout_keeps_the_pod_with_the_pause_point,
    a_rollout_scaled_to_zero_and_back_keeps_its_pause_point,
    a_hold_keeps_its_pod_while_several_old_sets_are_scaled,
    a_hold_deletes_no_surge,
);
