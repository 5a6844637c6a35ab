//! The request log of the server during a rollout: which client deleted which pods, in which order, with which
//! preconditions, and the number of requests.

use std::collections::BTreeMap;
use std::time::Instant;

use scenarios::{Deletion, Request, Setting, TestCluster, side_by_side};
use serde_json::json;

/// Creates ten pods with these priorities and waits until they are complete. The result is sorted by name, so it does
/// not contain the order of creation.
async fn ten_pods(cluster: &TestCluster) -> BTreeMap<String, i32> {
    const PRIORITIES: [i32; 10] = [2, 0, 7, -3, 2, 7, 0, 5, 0, 1];
    let pods = cluster.deployed(&json!({"replicas": 10})).await.unwrap();
    for (pod, priority) in pods.iter().zip(PRIORITIES).filter(|(_, priority)| *priority != 0) {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    assert_eq!(cluster.deletions().await.unwrap(), [], "nothing was deleted before");
    pods.into_iter().zip(PRIORITIES).collect()
}

/// Every deletion is from our controller, has the UID and version of one pod as precondition, and follows the order of
/// the priorities.
fn assert_ordered(deletions: &[Deletion], priorities: &BTreeMap<String, i32>) {
    let mut uids: Vec<_> = deletions.iter().map(|one| one.uid.clone()).collect();
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), deletions.len(), "no pod was deleted twice: {deletions:#?}");
    for deletion in deletions {
        assert!(deletion.by_the_controller(), "another client deleted a pod: {deletion:?}");
        // The sandbox has only one user.
        assert!(
            deletion.user.as_deref().is_none_or(|user| user == "ordered-controller-manager"),
            "{deletion:?}"
        );
        assert!(deletion.uid.is_some() && deletion.resource_version.is_some(), "{deletion:?}");
        assert!(deletion.user_agent.ends_with("/rollout"), "{deletion:?}");
    }
    let order: Vec<i32> = deletions.iter().map(|deletion| priorities[&deletion.pod]).collect();
    assert!(order.is_sorted_by(|first, second| first >= second), "{order:?}");
}

/// The requests of our controller in this namespace since that index, by verb and resource, without watches.
async fn bill(cluster: &TestCluster, since: usize) -> BTreeMap<String, usize> {
    let mut bill = BTreeMap::new();
    let ours = |request: &&Request| {
        request.by_the_controller()
            && request.namespace.as_deref() == Some(&cluster.namespace)
            && request.verb != "watch"
    };
    for request in cluster.requests().await.unwrap().split_off(since).iter().filter(ours) {
        let part = request.subresource.as_deref().map(|part| format!("/{part}")).unwrap_or_default();
        *bill.entry(format!("{} {}{part}", request.verb, request.plural)).or_default() += 1;
    }
    bill
}

/// The maximum number of requests for a rollout of ten pods, one at a time, in `seconds`. Each pod needs one create and
/// one delete. The sizes of both sets change once for two pods. All other writes are limited to one per second,
/// independent of the number of pods.
fn bounds(seconds: usize) -> BTreeMap<&'static str, usize> {
    // One at the start and one at the end.
    let reported = seconds + 2;
    BTreeMap::from([
        ("create pods", 10),
        ("delete pods", 10),
        // The sizes of both sets.
        ("patch orderedreplicasets", 2 * reported),
        ("create orderedreplicasets", 1),
        // Pods created, pods deleted, sets scaled; start and end of the rollout.
        ("create events", 3 * reported + 2),
        // Writes of conditions are not delayed: a new revision, progress, completion.
        ("patch ordereddeployments/status", reported + 3),
        ("patch orderedreplicasets/status", 2 * reported),
        // The uncached read after a new generation.
        ("get ordereddeployments", 1),
        ("list orderedreplicasets", 1),
        ("list pods", 1),
        // At the end; the first time also in the version that an older server does not serve.
        ("list poddisruptionbudgets", 2),
        // Dry runs that compare the new template with that of the old set, after defaulting by the server.
        ("create podtemplates", 2),
    ])
}

async fn a_rollout_deletes_in_order_with_preconditions_and_limited_requests(cluster: TestCluster) {
    let priorities = ten_pods(&cluster).await;
    let before = cluster.requests().await.unwrap().len();
    let start = Instant::now();
    cluster.set_image("web:2").await.unwrap();
    cluster.complete("web", 10).await.unwrap();
    let deletions = cluster.deletions().await.unwrap();
    assert_eq!(deletions.len(), 10);
    assert_ordered(&deletions, &priorities);

    let bill = bill(&cluster, before).await;
    let all: usize = bill.values().sum();
    let seconds = usize::try_from(start.elapsed().as_secs()).unwrap();
    let on = if cluster.control_plane().is_some() { "a real server" } else { "the sandbox" };
    println!("ten pods replaced on {on} in {seconds} s: {all} requests: {bill:?}");
    let bounds = bounds(seconds);
    for (what, count) in &bill {
        let bound = bounds.get(what.as_str());
        assert!(bound.is_some_and(|most| count <= most), "{count} of {what}, not {bound:?}: {bill:#?}");
    }
}

side_by_side!(
    Setting::default();
    a_rollout_deletes_in_order_with_preconditions_and_limited_requests,
);
