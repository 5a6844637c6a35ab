//! Two controllers with leader election: a standby takes over, and a leader that was frozen writes nothing
//! more. `chaos` kills and disconnects leaders.

use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube_runtime::watcher;
use scenarios::{Manager, Server, TestCluster, on_both};
use serde_json::json;

const ARGUMENTS: [&str; 4] =
    ["--leader-elect", "--lease-duration=4s", "--renew-deadline=2s", "--retry-period=500ms"];

/// Waits until the Lease has a holder other than `not`. Returns the holder and the time.
pub(crate) async fn leader(cluster: &TestCluster, not: Option<&str>) -> (String, Instant) {
    let changes = watcher::watch_object(cluster.api::<Lease>(), "ordered-controller-manager");
    futures::pin_mut!(changes);
    let found = async {
        loop {
            // Retry a failed request: the server may be down.
            let Ok(lease) = changes.next().await.unwrap() else { continue };
            let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
            if !holder.is_empty() && Some(holder.as_str()) != not {
                return (holder, Instant::now());
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.unwrap()
}

/// Two candidates; the first one is the leader.
async fn two(cluster: &TestCluster) -> (Manager, Manager, String) {
    let mut first = cluster.start_manager_with(&ARGUMENTS).unwrap();
    first.until_logged("acquired lease").await.unwrap();
    let (holder, _) = leader(cluster, None).await;
    assert!(holder.contains(&format!("_{}_", first.id().unwrap())), "{holder}");
    let mut second = cluster.start_manager_with(&ARGUMENTS).unwrap();
    second.until_logged("every watch has synced").await.unwrap();
    (first, second, holder)
}

async fn a_leader_that_receives_sigterm_hands_over_within_a_second(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let (mut first, _second, holder) = two(&cluster).await;
    let stopped_at = Instant::now();
    first.signal("TERM").await.unwrap();
    let (_, at) = leader(&cluster, Some(&holder)).await;
    println!("SIGTERM: handed over after {:?}", at - stopped_at);
    assert!(at - stopped_at <= Duration::from_secs(1));
    assert!(first.ended().await.unwrap());
}

async fn a_leader_frozen_beyond_its_lease_exits_without_a_write(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let (mut first, second, holder) = two(&cluster).await;
    first.signal("STOP").await.unwrap();
    let (follower, _) = leader(&cluster, Some(&holder)).await;
    assert!(follower.contains(&format!("_{}_", second.id().unwrap())), "{follower}");
    // Work for a controller that considers itself the leader. The standby is frozen too and cannot do the
    // work first.
    second.signal("STOP").await.unwrap();
    cluster.apply(&json!({})).await.unwrap();
    let before = cluster.requests().await.unwrap().len();
    first.signal("CONT").await.unwrap();
    assert!(!first.ended().await.unwrap(), "it ends, and says that something was wrong");
    let requests = cluster.requests().await.unwrap().split_off(before);
    let writes: Vec<_> = requests
        .iter()
        .filter(|one| one.by_the_controller() && one.writes() && one.plural != "leases")
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
    second.signal("CONT").await.unwrap();
}

async fn a_candidate_without_permission_for_the_lease_reports_it_and_leads_when_granted(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let rules = cluster.proxy.rules();
    for verb in ["get", "create"] {
        rules.refuse((verb, "leases"), 403, 2);
    }
    let mut candidate = cluster.start_manager_with(&ARGUMENTS).unwrap();
    candidate.until_logged("failed to acquire lease").await.unwrap();
    candidate.until_logged("acquired lease").await.unwrap();
    assert_eq!(rules.faults_left(), 0);
}

on_both!(
    a_candidate_without_permission_for_the_lease_reports_it_and_leads_when_granted;
    alone on a real server:
    a_leader_that_receives_sigterm_hands_over_within_a_second,
    a_leader_frozen_beyond_its_lease_exits_without_a_write,
);
