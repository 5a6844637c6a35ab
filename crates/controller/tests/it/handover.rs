//! How the controller of ReplicaSets keeps apart from a built-in one, and what a change of the leader costs.

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::names::reason;
use ordereddeployment_controller::Apart;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cluster::{Cluster, spec_of};

const PROBE: &str = "ordered-controller-manager-probe";
/// How long the controller waits for the built-in one at its start.
const START: Duration = Duration::from_secs(31);

/// A sandbox without a controller. Those that start keep apart from a built-in one.
async fn apart() -> Cluster {
    let mut cluster = Cluster::with_deployments().await;
    cluster.apart = Some(Apart { namespace: "default".to_owned(), force: false });
    cluster
}

fn sets(client: &Client, namespace: &str) -> Api<ReplicaSet> {
    Api::namespaced(client.clone(), namespace)
}

/// A ReplicaSet `web` of two pods in that namespace.
async fn create(cluster: &Cluster, namespace: &str) {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let named = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
    // It may exist.
    namespaces.create(&PostParams::default(), &named).await.ok();
    let set = json!({"metadata": {"name": "web"}, "spec": spec_of("web", "web:1", 2)});
    cluster.create_in::<ReplicaSet>(namespace, set).await;
}

/// How many pods of that namespace are not being deleted.
async fn active(cluster: &Cluster, namespace: &str) -> usize {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let pods = pods.list(&ListParams::default()).await.unwrap().items;
    pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count()
}

/// A user deletes the pods of that namespace.
async fn lose_pods(cluster: &Cluster, namespace: &str) {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        pods.delete(&pod.name_any(), &DeleteParams::default()).await.unwrap();
    }
}

/// How long it takes until lost pods of that namespace are replaced.
async fn replaces_after(cluster: &Cluster, namespace: &str) -> Duration {
    lose_pods(cluster, namespace).await;
    let began = Instant::now();
    while active(cluster, namespace).await < 2 {
        assert!(began.elapsed() < Duration::from_secs(300), "{namespace}: the pods are not replaced");
        cluster.pass(Duration::from_millis(100)).await;
    }
    began.elapsed()
}

/// A client that writes ten statuses a second of `web` in that namespace, until it is aborted.
fn forge(cluster: &Cluster, namespace: &str) -> JoinHandle<()> {
    let sets = sets(&cluster.client, namespace);
    tokio::spawn(async move {
        for replicas in (3..5).cycle() {
            let status = Patch::Merge(json!({"status": {"replicas": replicas}}));
            sets.patch_status("web", &PatchParams::default(), &status).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
}

/// Observes the probe as a built-in controller does, until it is aborted.
fn built_in(cluster: &Cluster) -> JoinHandle<()> {
    let sets = sets(&cluster.client, "default");
    tokio::spawn(async move {
        loop {
            if let Ok(probe) = sets.get(PROBE).await {
                let status = Patch::Merge(
                    json!({"status": {"replicas": 0, "observedGeneration": probe.metadata.generation}}),
                );
                sets.patch_status(PROBE, &PatchParams::default(), &status).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    })
}

async fn generation(cluster: &Cluster) -> i64 {
    sets(&cluster.client, "default").get(PROBE).await.unwrap().metadata.generation.unwrap()
}

#[tokio::test(start_paused = true)]
async fn forged_statuses_stop_only_the_namespace_of_the_sets() {
    let mut cluster = apart().await;
    for namespace in ["default", "attacker"] {
        create(&cluster, namespace).await;
    }
    cluster.start_controller();
    cluster.pass(START).await;
    assert_eq!(active(&cluster, "default").await, 2);
    let from = cluster.mark();
    let forging = forge(&cluster, "attacker");
    cluster.pass(Duration::from_secs(1)).await;
    for _ in 0..10 {
        let took = replaces_after(&cluster, "default").await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        cluster.pass(Duration::from_secs(6)).await;
    }
    let asked = cluster.asked(from, "get", "replicasets");
    let asked = asked.iter().filter(|record| record.name.as_deref() == Some(PROBE)).count();
    assert!((10..=14).contains(&asked), "every 10 s, and once more for forged statuses: {asked}");
    // Whoever writes there may be a built-in controller.
    lose_pods(&cluster, "attacker").await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(active(&cluster, "attacker").await, 0);
    let events = cluster.events_in("attacker").await;
    assert_eq!(events.iter().filter(|(found, ..)| found == reason::STANDS_ASIDE).count(), 1, "{events:?}");
    let metrics = cluster.metrics.render().unwrap();
    assert!(metrics.contains("reconciles_total{result=\"error\"} 0"), "nothing is tried meanwhile");
    forging.abort();
    cluster.pass(Duration::from_secs(31)).await;
    assert_eq!(active(&cluster, "attacker").await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_goes_on_within_its_lease_and_two_seconds() {
    let mut cluster = apart().await;
    create(&cluster, "default").await;
    let (_first, stopped) = oneshot::channel();
    let first = cluster.start_replica(stopped);
    cluster.pass(Duration::from_secs(1)).await;
    let (second, stopped) = oneshot::channel();
    let leaving = cluster.start_replica(stopped);
    cluster.pass(2 * START).await;
    assert!(replaces_after(&cluster, "default").await < Duration::from_secs(1));
    let before = generation(&cluster).await;
    first.abort();
    let took = replaces_after(&cluster, "default").await;
    assert!(took > Duration::from_secs(10) && took < Duration::from_secs(17), "{took:?}");
    // A leader that ends releases the Lease. Its last statuses are shown late, and are known.
    let (_third, stopped) = oneshot::channel();
    cluster.start_replica(stopped);
    cluster.pass(START).await;
    cluster.sandbox.delay_watch("replicasets", Duration::from_secs(2));
    lose_pods(&cluster, "default").await;
    cluster.pass(Duration::from_millis(500)).await;
    second.send(()).unwrap();
    leaving.await.unwrap();
    assert!(replaces_after(&cluster, "default").await < Duration::from_secs(1), "it was a standby");
    cluster.pass(Duration::from_secs(3)).await;
    let took = replaces_after(&cluster, "default").await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(generation(&cluster).await, before, "nobody has asked again");
}

#[tokio::test(start_paused = true)]
async fn replicas_that_ask_at_the_same_time_find_the_same() {
    let mut cluster = apart().await;
    create(&cluster, "default").await;
    let built_in = built_in(&cluster);
    let start = |cluster: &mut Cluster| {
        let (stop, stopped) = oneshot::channel();
        (stop, cluster.start_replica(stopped))
    };
    let _replicas = [start(&mut cluster), start(&mut cluster)];
    cluster.pass(Duration::from_secs(100)).await;
    let generation = generation(&cluster).await;
    assert!((8..=12).contains(&generation), "they ask every 10 s together: {generation}");
    assert_eq!(active(&cluster, "default").await, 0, "the built-in controller is alive");
    built_in.abort();
    // Another one that starts meanwhile does not prolong it.
    cluster.pass(Duration::from_secs(25)).await;
    let _third = start(&mut cluster);
    cluster.pass(Duration::from_secs(16)).await;
    assert_eq!(active(&cluster, "default").await, 2);
}

#[tokio::test(start_paused = true)]
async fn all_wait_while_a_new_leader_of_kube_controller_manager_has_time_to_answer() {
    let mut cluster = apart().await;
    create(&cluster, "default").await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "kube-system");
    let lease = |holder: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "kube-controller-manager"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
        })
    };
    cluster.create_in::<Lease>("kube-system", lease("a")).await;
    cluster.start_controller();
    cluster.pass(START).await;
    assert!(replaces_after(&cluster, "default").await < Duration::from_secs(1));
    let hold = async |holder: &str| {
        let patch = Patch::Merge(lease(holder));
        leases.patch("kube-controller-manager", &PatchParams::default(), &patch).await.unwrap();
        replaces_after(&cluster, "default").await
    };
    let took = hold("b").await;
    assert!(took > Duration::from_secs(29) && took < Duration::from_secs(31), "{took:?}");
    assert!(hold("b").await < Duration::from_secs(1), "it is still the same");
}
