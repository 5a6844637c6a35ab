//! The Lease and the watches when the API server is slow, refuses or forgets.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::fault_injector::{RequestFault, RequestInfo};

const LEASE: &str = "ordered-controller-manager";

/// A cluster whose controller leads, and what stops it.
async fn led() -> (Cluster, oneshot::Sender<()>, JoinHandle<()>) {
    let mut cluster = Cluster::without_controller().await;
    let (stop, stopped) = oneshot::channel();
    let replica = cluster.start_replica(stopped);
    cluster.deployed(json!({"replicas": 2})).await;
    (cluster, stop, replica)
}

fn is_of_lease(info: &RequestInfo) -> bool {
    info.path.contains("/leases") && !info.is_watch()
}

async fn holder(cluster: &Cluster) -> Option<String> {
    cluster.api::<Lease>().get(LEASE).await.unwrap().spec.unwrap().holder_identity
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_answered_late_is_kept() {
    for seconds in [1, 3, 4] {
        for is_answer in [false, true] {
            let (cluster, _stop, replica) = led().await;
            let late = if is_answer { RequestFault::DelayAnswer } else { RequestFault::Delay };
            cluster.faults.when(is_of_lease, move || late(Duration::from_secs(seconds)));
            cluster.pass(Duration::from_secs(120)).await;
            assert!(!replica.is_finished(), "{seconds} s, {is_answer}");
            cluster.scale(3).await;
            cluster.pass(Duration::from_secs(1)).await;
            assert_eq!(cluster.view().await.active().len(), 3, "{seconds} s, {is_answer}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_is_lost_counts_once_the_lease_shows_it() {
    let (cluster, _stop, replica) = led().await;
    let mut renewals = 0;
    // Only each third renewal is answered.
    let is_lost = move |info: &RequestInfo| {
        let is_renewal = is_of_lease(info) && info.method == Method::PUT;
        renewals += usize::from(is_renewal);
        is_renewal && renewals % 3 != 0
    };
    cluster.faults.when(is_lost, || RequestFault::DelayAnswer(Duration::from_secs(9)));
    cluster.pass(Duration::from_secs(300)).await;
    assert!(!replica.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_is_made_again() {
    let (cluster, _stop, replica) = led().await;
    cluster.api::<Lease>().delete(LEASE, &DeleteParams::default()).await.unwrap();
    cluster.pass(Duration::from_secs(5)).await;
    assert!(!replica.is_finished());
    assert_eq!(holder(&cluster).await.as_deref(), Some("replica-1"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_during_a_renewal_releases_the_lease() {
    for millis in (0..4000).step_by(250) {
        let (cluster, stop, replica) = led().await;
        let late = || RequestFault::DelayAnswer(Duration::from_millis(1500));
        cluster.faults.when(|info| info.method == Method::PUT && is_of_lease(info), late);
        cluster.pass(Duration::from_millis(millis)).await;
        stop.send(()).unwrap();
        replica.await.unwrap();
        assert_eq!(holder(&cluster).await.as_deref(), Some(""), "after {millis} ms");
    }
}

/// How many requests for pods a controller sends in ten minutes of this, and whether it works a minute after.
async fn asks(fault: impl Fn(&RequestInfo) -> RequestFault + Send + 'static) -> usize {
    let (mut cluster, _) = Cluster::with_pods(2).await;
    cluster.kill();
    let is_of_pods = |info: &RequestInfo| info.method == Method::GET && info.path.contains("/pods?");
    let count = cluster.faults.counted(is_of_pods, fault);
    cluster.start_controller();
    cluster.pass(Duration::from_secs(600)).await;
    cluster.faults.clear();
    cluster.scale(3).await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(cluster.view().await.active().len(), 3);
    count.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_for_long_asks_rarely_whatever_the_cause_is() {
    for code in [503, 403, 404] {
        let asked = asks(move |_| RequestFault::Response(code)).await;
        assert!(asked < 80, "{code}: {asked}");
    }
    // Each list succeeds, and the watch after it fails.
    let asked = asks(|info| if info.is_watch() { RequestFault::Response(410) } else { RequestFault::None });
    let asked = asked.await;
    assert!(asked < 80, "410: {asked}");
    // The API server asks to wait.
    let asked = asks(|_| RequestFault::Shed(50)).await;
    assert!(asked <= 26, "Retry-After: {asked}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_version_is_too_old_lists_again() {
    let (mut cluster, _) = Cluster::with_pods(2).await;
    cluster.kill();
    // Each list succeeds, and the watch after it is refused.
    cluster.faults.when(RequestInfo::is_watch, || RequestFault::Response(410));
    cluster.start_controller();
    cluster.pass(Duration::from_secs(10)).await;
    cluster.scale(3).await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(cluster.view().await.active().len(), 3);
}
