//! One act is one batch: a change during a long one takes effect.

use std::time::Duration;

use http::Method;
use kube::ResourceExt;
use ordereddeployment_api::names::annotation;
use serde_json::{Value, json};

use crate::cluster::{Cluster, View, is_ready, names};
use crate::fault_injector::RequestFault;

/// Each request of that kind takes a second.
pub(crate) fn slow(cluster: &Cluster, method: Method, part: &'static str) {
    let second = || RequestFault::Delay(Duration::from_secs(1));
    cluster.faults.when(move |info| info.is(&method, part), second);
}

#[tokio::test(start_paused = true)]
async fn a_reverted_scaling_to_zero_ends_within_its_batch() {
    let (cluster, _) = Cluster::with_pods(120).await;
    slow(&cluster, Method::DELETE, "/pods/");
    let mark = cluster.mark();
    cluster.scale(0).await;
    // 16 at a time: all would take 8 seconds.
    cluster.pass(Duration::from_millis(4500)).await;
    cluster.scale(120).await;
    cluster.pass(Duration::from_secs(5)).await;
    let deleted = cluster.deleted(mark).len();
    assert!((64..=96).contains(&deleted), "{deleted}");
    cluster.until_complete().await;
    assert_eq!(cluster.deleted(mark).len(), deleted);
}

#[tokio::test(start_paused = true)]
async fn reverted_evictions_end_with_the_one_in_flight() {
    let (cluster, _) = Cluster::with(json!({"replicas": 20, "podDeletion": "Evict"})).await;
    slow(&cluster, Method::POST, "/eviction");
    cluster.scale(1).await;
    cluster.pass(Duration::from_millis(7500)).await;
    cluster.scale(20).await;
    let mark = cluster.mark();
    cluster.pass(Duration::from_secs(5)).await;
    let evicted = cluster.asked(mark, "create", "pods");
    let evicted = evicted.iter().filter(|record| record.subresource.as_deref() == Some("eviction")).count();
    assert!(evicted <= 1, "{evicted}");
    cluster.until_complete().await;
}

/// Scales down, and makes the last pod of the order unready meanwhile. Returns how many pods go before it.
async fn before_an_unready_pod(cluster: &Cluster, to: i32, meanwhile: Duration) -> usize {
    let view = cluster.view().await;
    let last = view.active().iter().find(|pod| is_ready(pod)).map(ResourceExt::name_any).unwrap();
    cluster.annotate(&last, annotation::POD_DELETION_COST, "100").await;
    let mark = cluster.mark();
    cluster.scale(to).await;
    cluster.pass(meanwhile).await;
    cluster.set_ready(&last, false).await;
    let gone = |view: &View| view.pods.iter().all(|pod| pod.name_any() != last);
    cluster.until_each(Duration::from_secs(5), "it goes", gone).await;
    let asked = [cluster.asked(mark, "create", "pods"), cluster.asked(mark, "delete", "pods")].concat();
    let (its, others): (Vec<_>, Vec<_>) =
        asked.iter().partition(|record| record.name.as_ref() == Some(&last));
    others.iter().filter(|record| record.at < its[0].at).count()
}

#[tokio::test(start_paused = true)]
async fn the_order_is_computed_again_after_a_thousand_deletes() {
    let cluster = Cluster::start().await;
    // More than fit on the nodes: the pending pods are deleted first.
    cluster.deploy(json!({"replicas": 1300})).await;
    let there = |view: &View| view.active().len() == 1300 && view.available() > 600;
    cluster.until_each(Duration::from_secs(20), "they are there", there).await;
    slow(&cluster, Method::DELETE, "/pods/");
    let before = before_an_unready_pod(&cluster, 100, Duration::from_secs(20)).await;
    assert!((300..=1000).contains(&before), "{before}");
}

#[tokio::test(start_paused = true)]
async fn the_order_is_computed_again_after_three_seconds_of_evictions() {
    let (cluster, _) = Cluster::with(json!({"replicas": 20, "podDeletion": "Evict"})).await;
    slow(&cluster, Method::POST, "/eviction");
    let before = before_an_unready_pod(&cluster, 4, Duration::from_millis(1500)).await;
    assert!((2..=4).contains(&before), "{before}");
}

/// Three pods, of which the second is the first of the order. One is to be deleted; before that the sizes are
/// published, which takes a second. The watch shows changes meanwhile at once.
async fn about_to_delete(spec: Value) -> (Cluster, String) {
    let (cluster, pods) = Cluster::with(spec).await;
    cluster.prioritise(&pods[1], 9).await;
    cluster.pass(Duration::from_secs(1)).await;
    (cluster, pods[1].clone())
}

async fn scaled_meanwhile(cluster: &Cluster, change: impl Future<Output = ()>) -> View {
    slow(cluster, Method::PATCH, "/orderedreplicasets/");
    cluster.scale(2).await;
    cluster.pass(Duration::from_millis(500)).await;
    change.await;
    cluster.pass(Duration::from_secs(60)).await;
    cluster.until("there are two", |view| view.is_complete() && view.active().len() == 2).await
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_priority_is_lowered_before_its_delete_stays() {
    let (cluster, first) = about_to_delete(json!({"replicas": 3})).await;
    let view = scaled_meanwhile(&cluster, cluster.prioritise(&first, -9)).await;
    assert!(names(&view.pods).contains(&first));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_marked_before_its_delete_holds_the_rollout() {
    let bounds = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let (cluster, first) = about_to_delete(json!({"replicas": 3, "strategy": bounds})).await;
    slow(&cluster, Method::DELETE, "/pods/");
    cluster.set_image("web:2").await;
    cluster.pass(Duration::from_millis(500)).await;
    cluster.annotate(&first, annotation::PAUSE_POINT, "before").await;
    let view = cluster.until_held().await;
    assert_eq!(view.status().hold.unwrap().pod, first);
    assert!(names(&view.pods).contains(&first));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_becomes_ready_before_its_delete_is_evicted() {
    let (cluster, first) = about_to_delete(json!({"replicas": 3, "podDeletion": "Evict"})).await;
    cluster.set_ready(&first, false).await;
    cluster.pass(Duration::from_secs(1)).await;
    let mark = cluster.mark();
    let view = scaled_meanwhile(&cluster, cluster.set_ready(&first, true)).await;
    assert!(!names(&view.pods).contains(&first));
    let deletes = cluster.asked(mark, "delete", "pods");
    assert!(deletes.iter().all(|record| record.code == 409), "{deletes:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_relabelled_between_two_decisions_is_released() {
    let (cluster, first) = about_to_delete(json!({"replicas": 3})).await;
    slow(&cluster, Method::POST, "/pods?");
    cluster.set_image("web:2").await;
    cluster.pass(Duration::from_millis(500)).await;
    cluster.patch_pod(&first, json!({"metadata": {"labels": {"app": "quarantine"}}})).await;
    cluster.until_out(3).await;
    assert_eq!(cluster.pods().get(&first).await.unwrap().owner_references(), []);
}

#[tokio::test(start_paused = true)]
async fn a_pause_point_added_during_an_act_holds_before_the_next_group() {
    let bounds = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}});
    let (cluster, pods) = Cluster::with(json!({"replicas": 48, "strategy": bounds})).await;
    for pod in &pods[..16] {
        cluster.prioritise(pod, 3).await;
    }
    slow(&cluster, Method::DELETE, "/pods/");
    let mark = cluster.mark();
    cluster.set_image("web:2").await;
    cluster.pass(Duration::from_millis(500)).await;
    assert_eq!(cluster.asked(mark, "delete", "pods").len(), 0, "the first group is under way");
    let next = json!({annotation::DELETE_PRIORITY: "2", annotation::PAUSE_POINT: "before"});
    cluster.patch_pod(&pods[40], json!({"metadata": {"annotations": next}})).await;
    let view = cluster.until_held().await;
    assert_eq!(view.status().hold.unwrap().pod, pods[40]);
    let mut deleted = cluster.deleted(mark);
    deleted.sort();
    assert_eq!(deleted, pods[..16]);
}
