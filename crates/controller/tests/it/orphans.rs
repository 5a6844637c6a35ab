//! An object deleted with orphan propagation while the garbage collector is slow: it marks the object,
//! releases its dependents one by one, and then removes the object. The test plays the garbage collector,
//! step by step.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use serde_json::json;

use crate::cluster::Cluster;

/// Keeps a terminating object, like the finalizer of the garbage collector.
const FINALIZER: &str = "test/collector";

fn of<K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>>(client: &Client) -> Api<K> {
    Api::default_namespaced(client.clone())
}

/// Marks the object as being deleted; it stays.
async fn mark(client: &Client) {
    let finalizers = Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER]}}));
    let api = of::<OrderedDeployment>(client);
    api.patch("web", &PatchParams::default(), &finalizers).await.unwrap();
    api.delete("web", &DeleteParams::background()).await.unwrap();
}

/// Releases all sets.
async fn release_sets(client: &Client) {
    let owners = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    let api = of::<OrderedReplicaSet>(client);
    for set in api.list(&ListParams::default()).await.unwrap() {
        api.patch(&set.name_any(), &PatchParams::default(), &owners).await.unwrap();
    }
}

/// Marks all sets as being deleted; they stay.
async fn mark_sets(client: &Client) {
    let finalizers = Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER]}}));
    let api = of::<OrderedReplicaSet>(client);
    for set in api.list(&ListParams::default()).await.unwrap() {
        api.patch(&set.name_any(), &PatchParams::default(), &finalizers).await.unwrap();
        api.delete(&set.name_any(), &DeleteParams::background()).await.unwrap();
    }
}

/// Releases all pods.
async fn release_pods(client: &Client) {
    let owners = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    let api = of::<Pod>(client);
    for pod in api.list(&ListParams::default()).await.unwrap() {
        api.patch(&pod.name_any(), &PatchParams::default(), &owners).await.unwrap();
    }
}

/// Triggers a reconciliation with a live read.
async fn wake(cluster: &Cluster) {
    cluster.scale(4).await;
}

/// How many owner references the objects have, by kind: sets, pods.
async fn owners(cluster: &Cluster) -> (usize, usize) {
    let sets = cluster.all_sets().await;
    let pods = cluster.all_pods().await;
    let count = |owners: Vec<usize>| owners.into_iter().sum();
    (
        count(sets.iter().map(|set| set.owner_references().len()).collect()),
        count(pods.iter().map(|pod| pod.owner_references().len()).collect()),
    )
}

fn writes(cluster: &Cluster, mark: usize) -> usize {
    let kinds = ["pods", "orderedreplicasets"];
    let verbs = ["create", "patch", "delete"];
    kinds.iter().flat_map(|kind| verbs.map(|verb| cluster.asked(mark, verb, kind).len())).sum()
}

#[tokio::test(start_paused = true)]
async fn an_object_read_live_as_terminating_adopts_nothing_before_the_watch_shows_it() {
    let (cluster, _) = Cluster::with_pods(3).await;
    cluster.sandbox.delay_watch("ordereddeployments", Duration::from_secs(60));
    let from = cluster.mark();
    mark(&cluster.client).await;
    release_sets(&cluster.client).await;
    cluster.pass(Duration::from_secs(30)).await;
    assert_eq!(owners(&cluster).await, (0, 3));
    assert_eq!(writes(&cluster, from), 0);
}

#[tokio::test(start_paused = true)]
async fn a_set_released_while_the_object_is_read_is_not_adopted() {
    let (cluster, _) = Cluster::with_pods(3).await;
    cluster.sandbox.delay_watch("ordereddeployments", Duration::from_secs(60));
    cluster.sandbox.delay_watch("orderedreplicasets", Duration::from_secs(60));
    wake(&cluster).await;
    let from = cluster.mark();
    let client = cluster.client.clone();
    // The object was read before, when it was not terminating.
    cluster.faults.before(Method::GET, "orderedreplicasets?", async move {
        mark(&client).await;
        release_sets(&client).await;
    });
    cluster.pass(Duration::from_secs(90)).await;
    assert_eq!(owners(&cluster).await, (0, 3));
    assert_eq!(writes(&cluster, from), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_released_by_a_set_that_is_being_deleted_is_not_adopted() {
    let (cluster, _) = Cluster::with_pods(3).await;
    cluster.sandbox.delay_watch("ordereddeployments", Duration::from_secs(60));
    cluster.sandbox.delay_watch("orderedreplicasets", Duration::from_secs(60));
    wake(&cluster).await;
    let client = cluster.client.clone();
    cluster.faults.before(Method::GET, "/pods?", async move {
        mark_sets(&client).await;
        release_pods(&client).await;
    });
    cluster.pass(Duration::from_secs(80)).await;
    // The set does not change; the controller has not adopted the pods for it.
    let set = cluster.all_sets().await.remove(0);
    let pods = cluster.all_pods().await;
    let taken =
        |pod: &&Pod| pod.owner_references().iter().any(|owner| Some(&owner.uid) == set.uid().as_ref());
    assert_eq!(pods.iter().filter(taken).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn adoptions_end_once_the_watch_shows_that_the_object_is_being_deleted() {
    let (cluster, _) = Cluster::with_pods(20).await;
    cluster.faults.rule(|info| {
        use crate::fault_injector::RequestFault;
        if info.patches_pod() { RequestFault::Delay(Duration::from_secs(1)) } else { RequestFault::None }
    });
    let from = cluster.mark();
    release_pods(&cluster.client).await;
    cluster.pass(Duration::from_millis(4500)).await;
    mark(&cluster.client).await;
    cluster.pass(Duration::from_secs(30)).await;
    // Only the adoptions that were in flight.
    assert_eq!(cluster.asked(from, "patch", "pods").len(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_act_ends_once_the_watch_shows_that_the_object_is_being_deleted() {
    let cluster = Cluster::start().await;
    cluster.faults.rule(|info| {
        use crate::fault_injector::RequestFault;
        // Each batch of creates takes a second.
        if info.is(&Method::POST, "/pods") {
            RequestFault::Delay(Duration::from_secs(1))
        } else {
            RequestFault::None
        }
    });
    cluster.deploy(json!({"replicas": 500})).await;
    cluster.pass(Duration::from_millis(4500)).await;
    let from = cluster.mark();
    mark(&cluster.client).await;
    cluster.pass(Duration::from_secs(20)).await;
    // Only the batch that was in flight.
    assert_eq!(cluster.asked(from, "create", "pods").len(), 16);
}
