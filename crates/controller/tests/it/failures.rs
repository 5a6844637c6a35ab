//! Pods that their kubelets fail, or that cannot be created: how soon they are replaced.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Method;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::names::{condition, reason};

use crate::cluster::{Cluster, spec_of};
use crate::fault_injector::{RequestFault, RequestInfo};

const MINUTE: Duration = Duration::from_secs(60);

fn created(pod: &Pod) -> i64 {
    pod.creation_timestamp().unwrap().0.as_second()
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
