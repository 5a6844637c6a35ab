//! Failing servers, broken watches, concurrent writers.

use std::time::Duration;

use jiff::SignedDuration;
use kube::ResourceExt;
use ordereddeployment_api::names::annotation;
use serde_json::json;

use crate::cluster::{Cluster, View, names};
use crate::fault_injector::RequestFault;

#[tokio::test(start_paused = true)]
async fn a_pod_refused_in_one_set_does_not_keep_another_set_from_its_pods() {
    let (mut cluster, pods) = Cluster::with_pods(10).await;
    cluster.prioritise(&pods[4], 5).await;
    cluster.annotate(&pods[4], annotation::PAUSE_POINT, "after").await;
    cluster.set_image("web:2").await;
    let both =
        |view: &View| view.status().hold.is_some() && view.available() == 10 && view.updated().len() == 1;
    let view = cluster.until("it is held", both).await;
    cluster.kill();
    // One pod of each revision is lost, and the first create of a replacement is refused.
    for lost in [&names(&view.updated())[0], &pods[0]] {
        cluster.delete_pod(lost).await;
    }
    cluster.pass(Duration::from_secs(5)).await;
    let mark = cluster.mark();
    cluster.refuse("create", "pods", 403, 1);
    cluster.start_controller();
    cluster.until("all are there again", both).await;
    let creates = cluster.asked(mark, "create", "pods");
    let codes: Vec<_> = creates.iter().map(|record| record.code).collect();
    assert_eq!(codes, [403, 201, 201]);
    // The refused create backs off; the create in the other set is sent at once.
    let waited = |index: usize| creates[index].at.duration_since(creates[index - 1].at);
    assert!(waited(1) < SignedDuration::from_millis(5) && waited(2) > waited(1) * 2, "{creates:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_on_which_nothing_arrives_is_opened_again() {
    let (mut cluster, pods) = Cluster::with_pods(2).await;
    cluster.kill();
    let mut is_first = true;
    cluster.faults.rule(move |info| {
        let of_pods = info.is_watch() && info.path.starts_with("/api/v1/pods?");
        if of_pods && std::mem::take(&mut is_first) { RequestFault::Silence } else { RequestFault::None }
    });
    cluster.start_controller();
    cluster.pass(Duration::from_secs(5)).await;
    cluster.delete_pod(&pods[0]).await;
    // The watch is asked to end only after 290 s.
    cluster.pass(Duration::from_secs(160)).await;
    let view = cluster.view().await;
    assert_eq!((view.active().len(), view.available()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_not_found_by_mistake_is_read_again() {
    let (cluster, _) = Cluster::with_pods(2).await;
    let mut left = 2;
    cluster.faults.rule(move |info| {
        if left == 0 || !info.is(&http::Method::GET, "ordereddeployments/web") {
            return RequestFault::None;
        }
        left -= 1;
        RequestFault::Response(404)
    });
    cluster.set_image("web:2").await;
    cluster.pass(Duration::from_secs(20)).await;
    let view = cluster.view().await;
    assert!(view.is_complete() && view.updated().len() == 2, "{:#?}", view.status());
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_of_a_sets_status_is_retried_within_moments() {
    let cluster = Cluster::start().await;
    for code in [429, 500, 409] {
        cluster.refuse("patch", "orderedreplicasets", code, 3);
    }
    cluster.deployed(json!({"replicas": 3})).await;
    cluster.pass(Duration::from_secs(10)).await;
    let sets = cluster.all_sets().await;
    assert_eq!(sets[0].status.as_ref().unwrap().ready_replicas, Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_failed_release_or_adoption_is_retried_within_moments() {
    let (cluster, pods) = Cluster::with_pods(3).await;
    let owners_with_label = async |app: &str| {
        cluster.refuse("patch", "pods", 403, 4);
        cluster.patch_pod(&pods[1], json!({"metadata": {"labels": {"app": app}}})).await;
        cluster.pass(Duration::from_secs(2)).await;
        cluster.pods().get(&pods[1]).await.unwrap().owner_references().len()
    };
    assert_eq!(owners_with_label("quarantine").await, 0);
    cluster.until_complete().await;
    cluster.prioritise(&pods[1], -1).await;
    assert_eq!(owners_with_label("web").await, 1);
}
