//! Failing servers, broken watches, concurrent writers, and pods that fail or cannot be created.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Method;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::names::{annotation, condition, reason};
use serde_json::json;

use crate::cluster::{Cluster, View, names, spec_of};
use crate::fault_injector::{RequestFault, RequestInfo};

const MINUTE: Duration = Duration::from_secs(60);

fn created(pod: &Pod) -> i64 {
    pod.creation_timestamp().unwrap().0.as_second()
}

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
    let is_hit = move |info: &RequestInfo| {
        let of_pods = info.is_watch() && info.path.starts_with("/api/v1/pods?");
        of_pods && std::mem::take(&mut is_first)
    };
    cluster.faults.when(is_hit, || RequestFault::Silence);
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
    let is_hit = move |info: &RequestInfo| {
        let is_hit = left > 0 && info.is(&Method::GET, "ordereddeployments/web");
        left -= usize::from(is_hit);
        is_hit
    };
    cluster.faults.when(is_hit, || RequestFault::Response(404));
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

#[tokio::test(start_paused = true)]
async fn refused_pods_are_replaced_with_backoff_up_to_five_minutes_across_restarts_of_the_controller() {
    let mut cluster = Cluster::start().await;
    // Every node refuses it.
    cluster.deploy(spec_of("web", "web:refused", 1)).await;
    for minutes in [3, 11, 16, 30] {
        cluster.pass(minutes * MINUTE).await;
        cluster.kill();
        cluster.start_controller();
    }
    cluster.pass(3 * MINUTE).await;
    let mut times: Vec<i64> = cluster.all_pods().await.iter().map(created).collect();
    times.sort_unstable();
    let gaps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let expected = |place: usize| if place < 9 { 1 << place } else { 300 };
    for (place, gap) in gaps.iter().enumerate() {
        assert!((0..=1).contains(&(gap - expected(place))), "{gaps:?}");
    }
    // The first nine take eight minutes and a half, each further one five minutes.
    assert!((19..=20).contains(&gaps.len()), "{gaps:?}");
    let failure = cluster.view().await.status().condition(condition::REPLICA_FAILURE).cloned().unwrap();
    assert_eq!((failure.status, failure.reason.as_str()), (ConditionStatus::True, reason::PODS_FAILED));
}

#[tokio::test(start_paused = true)]
async fn in_a_namespace_that_is_being_deleted_creates_are_given_up() {
    let (cluster, _) = Cluster::with_pods(2).await;
    let is_create = |info: &RequestInfo| info.is(&Method::POST, "/pods");
    let refusal = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
        "reason": "Forbidden", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}"#;
    let refused = move |_: &RequestInfo| RequestFault::Answer(403, "application/json", refusal);
    let creates = cluster.faults.counted(is_create, refused);
    cluster.scale(3).await;
    cluster.pass(Duration::from_secs(200)).await;
    // The second one comes with the event that the set has its new size.
    assert!(creates.load(Ordering::Relaxed) <= 2);
    assert_eq!(cluster.events_of("FailedCreate").await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_backoff_of_refused_pods_is_right_with_a_clock_that_is_hours_off() {
    for hours in [-3, 3] {
        let mut cluster = Cluster::without_controller().await;
        cluster.ahead = SignedDuration::from_hours(hours);
        cluster.start_controller();
        cluster.deploy(spec_of("web", "web:refused", 1)).await;
        cluster.pass(4 * MINUTE).await;
        // After 1, 2, 4 seconds and so on, up to two minutes.
        assert_eq!(cluster.all_pods().await.len(), 8, "{hours} hours ahead");
    }
}
