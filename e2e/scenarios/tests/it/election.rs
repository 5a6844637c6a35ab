//! Two controllers with leader election: the standby takes over in time, and a leader that was frozen writes nothing
//! more.

use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube_runtime::watcher;
use scenarios::proxy::RequestMatcher;
use scenarios::{Manager, Server, TestCluster, on_both};
use serde_json::json;

const LEASE: Duration = Duration::from_secs(4);
const ARGUMENTS: [&str; 4] =
    ["--leader-elect", "--lease-duration=4s", "--renew-deadline=2s", "--retry-period=500ms"];

/// Waits until the Lease has a holder other than `not`. Returns the holder and the time.
pub(crate) async fn leader(cluster: &TestCluster, not: Option<&str>) -> (String, Instant) {
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let changes = watcher::watch_object(leases, "ordered-controller-manager");
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

async fn a_killed_leader_is_replaced_within_the_lease_and_two_seconds(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let (first, _second, holder) = two(&cluster).await;
    let killed = Instant::now();
    first.kill().await.unwrap();
    let (_, at) = leader(&cluster, Some(&holder)).await;
    println!("SIGKILL: followed after {:?} of a lease of {LEASE:?}", at - killed);
    assert!(at - killed <= LEASE + Duration::from_secs(2));
}

async fn a_leader_frozen_beyond_its_lease_exits_without_a_write(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let (mut first, second, holder) = two(&cluster).await;
    first.signal("STOP").await.unwrap();
    let (follower, _) = leader(&cluster, Some(&holder)).await;
    assert!(follower.contains(&format!("_{}_", second.id().unwrap())), "{follower}");
    // Work for a controller that considers itself the leader. The standby is frozen too and cannot do the work first.
    second.signal("STOP").await.unwrap();
    cluster.kubectl.run_with(&["apply", "-f", "-"], crate::ten_pods::MANIFEST).await.unwrap();
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

async fn a_standby_without_permission_to_watch_the_lease_retries_slowly(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let mut first = cluster.start_manager_with(&ARGUMENTS).unwrap();
    first.until_logged("acquired lease").await.unwrap();
    let rules = cluster.proxy.rules();
    let many = 10_000;
    rules.refuse(RequestMatcher::new("list", "leases"), 403, many);
    let mut second = cluster.start_manager_with(&ARGUMENTS).unwrap();
    second.until_logged("every watch has synced").await.unwrap();
    // Four renewals of the leader: two seconds.
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let changes = watcher::watch_object(leases, "ordered-controller-manager");
    assert_eq!(changes.take(5).filter(|seen| std::future::ready(seen.is_ok())).count().await, 5);
    let refused = many - rules.faults_left();
    assert!((1..=10).contains(&refused), "{refused} requests in two seconds");
    first.signal("TERM").await.unwrap();
    second.until_logged("acquired lease").await.unwrap();
}

async fn a_candidate_without_permission_for_the_lease_reports_it_and_leads_when_granted(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let rules = cluster.proxy.rules();
    for verb in ["get", "create"] {
        rules.refuse(RequestMatcher::new(verb, "leases"), 403, 2);
    }
    let mut candidate = cluster.start_manager_with(&ARGUMENTS).unwrap();
    candidate.until_logged("failed to acquire lease").await.unwrap();
    candidate.until_logged("acquired lease").await.unwrap();
    assert_eq!(rules.faults_left(), 0);
}

async fn a_leader_whose_lease_is_answered_after_three_seconds_leads_on(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let mut first = cluster.start_manager_with(&["--leader-elect"]).unwrap();
    first.until_logged("acquired lease").await.unwrap();
    let (holder, since) = leader(&cluster, None).await;
    cluster.apply(&json!({"replicas": 2})).await.unwrap();
    cluster.complete("web", 2).await.unwrap();
    let leases = RequestMatcher { plural: Some("leases"), ..RequestMatcher::default() };
    cluster.proxy.rules().answer_late(leases, Duration::from_secs(3));
    // Longer than a Lease that nobody renews, by its renewals.
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let changes = watcher::watch_object(leases, "ordered-controller-manager");
    futures::pin_mut!(changes);
    while since.elapsed() < Duration::from_secs(20) {
        // Retry a failed request.
        let Ok(lease) = changes.next().await.unwrap() else { continue };
        assert_eq!(lease.unwrap().spec.unwrap().holder_identity, Some(holder.clone()));
    }
    let scaled = Instant::now();
    cluster.scale(3).await.unwrap();
    cluster.until_pods("three pods", |pods| pods.len() == 3).await.unwrap();
    println!("a Lease that is answered after 3 s: scaled after {:?}", scaled.elapsed());
    assert!(first.runs().unwrap());
}

on_both!(
    a_candidate_without_permission_for_the_lease_reports_it_and_leads_when_granted,
    a_leader_whose_lease_is_answered_after_three_seconds_leads_on;
    alone on a real server:
    a_standby_without_permission_to_watch_the_lease_retries_slowly,
    a_leader_that_receives_sigterm_hands_over_within_a_second,
    a_killed_leader_is_replaced_within_the_lease_and_two_seconds,
    a_leader_frozen_beyond_its_lease_exits_without_a_write,
);
