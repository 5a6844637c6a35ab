//! An object deleted with orphan propagation while the garbage collector is slow: it marks the object,
//! releases its dependents one by one, and then removes the object. The test plays the garbage collector.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_kubernetes::Namespaced;
use serde_json::{Value, json};

use crate::batches::slow;
use crate::cluster::Cluster;
use crate::fault_injector::{RequestFault, RequestInfo};

async fn patch_all<K: Namespaced>(client: &Client, metadata: Value) -> Api<K> {
    let (api, patch) = (Api::<K>::default_namespaced(client.clone()), json!({"metadata": metadata}));
    for object in api.list(&ListParams::default()).await.unwrap() {
        api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }
    api
}

/// Marks all objects of that kind as being deleted. A finalizer keeps them, as the garbage collector's does.
async fn mark<K: Namespaced>(client: &Client) {
    let api = patch_all::<K>(client, json!({"finalizers": ["test/collector"]})).await;
    api.delete_collection(&DeleteParams::background(), &ListParams::default()).await.unwrap();
}

/// Releases all objects of that kind.
async fn release<K: Namespaced>(client: &Client) {
    patch_all::<K>(client, json!({"ownerReferences": null})).await;
}

/// How many owner references the objects have, by kind: sets, pods.
async fn owners(cluster: &Cluster) -> (usize, usize) {
    let (sets, pods) = (cluster.all_sets().await, cluster.all_pods().await);
    (
        sets.iter().map(|set| set.owner_references().len()).sum(),
        pods.iter().map(|pod| pod.owner_references().len()).sum(),
    )
}

fn writes(cluster: &Cluster, mark: usize) -> usize {
    let kinds = ["pods", "orderedreplicasets"];
    let verbs = ["create", "patch", "delete"];
    kinds.iter().flat_map(|kind| verbs.map(|verb| cluster.asked(mark, verb, kind).len())).sum()
}

/// Three pods, and watches of the object and its sets that lag.
async fn lagging() -> (Cluster, Client) {
    let (cluster, _) = Cluster::with_pods(3).await;
    for kind in ["ordereddeployments", "orderedreplicasets"] {
        cluster.sandbox.delay_watch(kind, Duration::from_secs(60));
    }
    let client = cluster.client.clone();
    (cluster, client)
}

#[tokio::test(start_paused = true)]
async fn an_object_read_live_as_terminating_adopts_nothing_before_the_watch_shows_it() {
    let (cluster, _) = Cluster::with_pods(3).await;
    cluster.sandbox.delay_watch("ordereddeployments", Duration::from_secs(60));
    let from = cluster.mark();
    mark::<OrderedDeployment>(&cluster.client).await;
    release::<OrderedReplicaSet>(&cluster.client).await;
    cluster.pass(Duration::from_secs(30)).await;
    assert_eq!((owners(&cluster).await, writes(&cluster, from)), ((0, 3), 0));
}

#[tokio::test(start_paused = true)]
async fn a_set_released_while_the_object_is_read_is_not_adopted() {
    let (cluster, client) = lagging().await;
    // A live read follows.
    cluster.scale(4).await;
    let from = cluster.mark();
    // The object was read before, when it was not terminating.
    cluster.faults.before(Method::GET, "orderedreplicasets?", async move {
        mark::<OrderedDeployment>(&client).await;
        release::<OrderedReplicaSet>(&client).await;
    });
    cluster.pass(Duration::from_secs(90)).await;
    assert_eq!((owners(&cluster).await, writes(&cluster, from)), ((0, 3), 0));
}

#[tokio::test(start_paused = true)]
async fn a_pod_released_by_a_set_that_is_being_deleted_is_not_adopted() {
    let (cluster, client) = lagging().await;
    cluster.scale(4).await;
    let set = cluster.all_sets().await.remove(0).uid();
    cluster.faults.before(Method::GET, "/pods?", async move {
        mark::<OrderedReplicaSet>(&client).await;
        release::<Pod>(&client).await;
    });
    cluster.pass(Duration::from_secs(80)).await;
    let pods = cluster.all_pods().await;
    let taken =
        pods.iter().flat_map(ResourceExt::owner_references).filter(|owner| Some(&owner.uid) == set.as_ref());
    assert_eq!(taken.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn adoptions_end_once_the_watch_shows_that_the_object_is_being_deleted() {
    let (cluster, _) = Cluster::with_pods(20).await;
    cluster.faults.when(RequestInfo::patches_pod, || RequestFault::Delay(Duration::from_secs(1)));
    let from = cluster.mark();
    release::<Pod>(&cluster.client).await;
    cluster.pass(Duration::from_millis(4500)).await;
    mark::<OrderedDeployment>(&cluster.client).await;
    cluster.pass(Duration::from_secs(30)).await;
    // Only the adoptions that were in flight.
    assert_eq!(cluster.asked(from, "patch", "pods").len(), 5);
}

#[tokio::test(start_paused = true)]
async fn creates_end_once_the_watch_shows_that_the_object_is_being_deleted() {
    let cluster = Cluster::start().await;
    slow(&cluster, Method::POST, "/pods");
    cluster.deploy(json!({"replicas": 500})).await;
    cluster.pass(Duration::from_millis(4500)).await;
    let from = cluster.mark();
    mark::<OrderedDeployment>(&cluster.client).await;
    cluster.pass(Duration::from_secs(20)).await;
    // Only the batch that was in flight.
    assert_eq!(cluster.asked(from, "create", "pods").len(), 16);
}
