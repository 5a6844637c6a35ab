//! Scaling during a rollout with pause points, and the surge that a hold keeps.

use e2e::{Setting, World, side_by_side};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::OrderedDeployment;
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

async fn until_split(world: &World, old: usize, new: usize) {
    let what = format!("{old} old pods and {new} new ones");
    world.until_pods(&what, |pods| split(pods) == (old, new)).await.unwrap();
}

/// Starts a rollout of ten pods that cannot complete: of the three pods before the pause point two are deleted, and the
/// third cannot be. Returns the pod with the pause point.
async fn stuck_ahead_of_a_point(world: &World) -> String {
    let pods = world.deployed(&json!({"replicas": 10, "strategy": bounds(2, 2)})).await.unwrap();
    for pod in &pods[..3] {
        world.prioritise(pod, 9).await.unwrap();
    }
    world.prioritise(&pods[3], 5).await.unwrap();
    world.pause_at(&pods[3], "before").await.unwrap();
    world.set_image("web:broken").await.unwrap();
    until_split(world, 8, 3).await;
    pods[3].clone()
}

async fn lives(world: &World, pod: &str) -> bool {
    world.pods().await.unwrap().iter().any(|one| one.name_any() == pod)
}

fn hold_of(object: &OrderedDeployment) -> Option<String> {
    object.status.as_ref()?.hold.as_ref().map(|hold| hold.id.clone())
}

async fn a_scale_down_in_a_rollout_keeps_the_pod_with_the_pause_point(world: World) {
    let point = stuck_ahead_of_a_point(&world).await;
    world.scale(7).await.unwrap();
    let fewer = |pods: &[Pod]| split(pods).0 < 8 && split(pods).0 + split(pods).1 <= 9;
    world.until_pods("fewer", fewer).await.unwrap();
    assert!(lives(&world, &point).await);
    // A working template rolls out up to the pause point.
    world.set_image("web:2").await.unwrap();
    let held = |object: &OrderedDeployment| hold_of(object) == Some(format!("{point}@3"));
    world.until("web", "held", held).await.unwrap();
    assert!(lives(&world, &point).await);
    world.resume().await.unwrap();
    world.complete("web", 7).await.unwrap();
}

async fn a_rollout_scaled_to_zero_and_back_is_held_at_its_pause_point(world: World) {
    let point = stuck_ahead_of_a_point(&world).await;
    world.scale(0).await.unwrap();
    world.until_pods("none", <[Pod]>::is_empty).await.unwrap();
    let id = format!("{point}@2");
    world.until("web", "held", |object| hold_of(object).as_ref() == Some(&id)).await.unwrap();
    world.scale(10).await.unwrap();
    let some_old = |pods: &[Pod]| split(pods).0 > 0 && split(pods).0 + split(pods).1 == 10;
    world.until_pods("ten, of which some are old", some_old).await.unwrap();
    assert_eq!(hold_of(&world.deployments().get("web").await.unwrap()), Some(id));
}

async fn a_hold_keeps_its_pod_while_several_old_sets_are_scaled(world: World) {
    let pods = world.deployed(&json!({"replicas": 8, "strategy": bounds(2, 2)})).await.unwrap();
    let (point, first) = (&pods[6], &pods[..6]);
    for pod in first {
        world.prioritise(pod, 5).await.unwrap();
    }
    world.prioritise(point, 1).await.unwrap();
    world.pause_at(point, "before").await.unwrap();
    world.set_image("web:2").await.unwrap();
    world.held_with(6, 8).await.unwrap();
    for pod in world.pods_of_image("web:2").await.unwrap() {
        world.prioritise(&pod, -1).await.unwrap();
    }
    // Two pods of the first revision now precede six of the second.
    world.set_image("web:3").await.unwrap();
    let id = format!("{point}@3");
    world.until("web", "held again", |object| hold_of(object).as_ref() == Some(&id)).await.unwrap();
    world.scale(1).await.unwrap();
    let alone = |pods: &[Pod]| pods.len() == 1;
    let left = world.until_pods("one", alone).await.unwrap();
    assert_eq!(left[0].name_any(), *point);
    world.scale(8).await.unwrap();
    let object = world.held_with(0, 8).await.unwrap();
    assert_eq!(hold_of(&object), Some(id));
    assert!(lives(&world, point).await);
}

async fn a_hold_keeps_no_surge(world: World) {
    let pods = world.deployed(&json!({"replicas": 6, "strategy": bounds(3, 0)})).await.unwrap();
    world.set_image("web:broken").await.unwrap();
    until_split(&world, 6, 3).await;
    world.prioritise(&pods[0], 1).await.unwrap();
    world.pause_at(&pods[0], "before").await.unwrap();
    world.held("web").await.unwrap();
    until_split(&world, 6, 0).await;
    assert_eq!(world.pods_of_image("web:1").await.unwrap(), pods);
    world.resume().await.unwrap();
    until_split(&world, 6, 3).await;
}

side_by_side!(
    Setting::default();
    a_scale_down_in_a_rollout_keeps_the_pod_with_the_pause_point,
    a_rollout_scaled_to_zero_and_back_is_held_at_its_pause_point,
    a_hold_keeps_its_pod_while_several_old_sets_are_scaled,
    a_hold_keeps_no_surge,
);
