//! What a process reports: readiness that ends with a failure, and metrics that only the leader reports.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use ordereddeployment_api::names::annotation;
use ordereddeployment_controller::{Controller, Metrics, Options};
use ordereddeployment_kubernetes::{Fence, counted};
use serde_json::json;

use crate::cluster::{Cluster, names};
use crate::fault_injector::{RequestFault, RequestInfo};

#[tokio::test(start_paused = true)]
async fn a_watch_refused_for_long_ends_readiness_until_it_works() {
    let (cluster, _) = Cluster::with_pods(10).await;
    assert_eq!(cluster.health.unready(), None);
    let of_pods = |info: &RequestInfo| info.method == Method::GET && info.path.starts_with("/api/v1/pods?");
    cluster.faults.when(of_pods, || RequestFault::Response(403));
    // The open watch ends by itself within five minutes, as every watch does.
    cluster.pass(Duration::from_secs(360)).await;
    let why = cluster.health.unready().unwrap();
    assert!(why.starts_with("the watch of pods has failed for "), "{why}");
    let text = cluster.metrics.render().unwrap();
    assert!(text.contains("ordereddeployment_watch_failures_total{resource=\"pods\"}"), "{text}");
    cluster.faults.clear();
    // It is open again within half a minute. Nothing is shown on it yet.
    cluster.pass(Duration::from_secs(31)).await;
    assert_eq!(cluster.health.unready(), None);
}

#[tokio::test(start_paused = true)]
async fn without_permission_for_nodes_objects_without_node_rules_go_on() {
    let mut cluster = Cluster::without_controller().await;
    let of_nodes = |path: &str| path.starts_with("/api/v1/nodes");
    cluster.faults.when(move |info| of_nodes(&info.path), move || RequestFault::Response(403));
    cluster.start_controller();
    cluster.pass(Duration::from_secs(1)).await;
    let why = cluster.health.unready().unwrap();
    assert_eq!(why, "not every watch has synced yet: nodes");
    cluster.deployed(json!({})).await;
    let why = cluster.health.unready().unwrap();
    assert!(why.starts_with("the watch of nodes has failed for "), "{why}");
    // One with node rules says why it waits, once.
    let rules =
        json!({"nodePriorities": [{"nodeSelector": {"matchLabels": {"pool": "spot"}}, "priority": 1}]});
    cluster.patch(json!({"spec": {"deletionOrder": rules}})).await;
    cluster.pass(Duration::from_secs(60)).await;
    let said = cluster.events_of("NotPermitted").await;
    assert!(matches!(said.as_slice(), [one] if one.starts_with("cannot read a node: ")), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_counted_only_by_the_leader_and_only_while_its_object_exists() {
    let cluster = Cluster::start().await;
    let pods = cluster.deployed(json!({"replicas": 3})).await;
    let standby = Arc::new(Metrics::new().unwrap());
    let mut options = Options::new(Arc::clone(&standby));
    let (_leadership, is_leader) = tokio::sync::watch::channel(false);
    options.leadership = Some((Fence::default(), is_leader));
    let client = counted(&cluster.sandbox.client().unwrap(), &standby.client);
    let run = Controller::run(client, options, std::future::pending());
    let running = tokio::spawn(async move { run.await.unwrap() });
    for pod in names(&pods) {
        cluster.annotate(&pod, annotation::PAUSE_POINT, "before").await;
    }
    cluster.set_image("web:2").await;
    cluster.until_held().await;
    cluster.pass(Duration::from_secs(1)).await;
    let holds = |count| format!("ordereddeployment_holds {count}\n");
    let leads = |is| format!("leader_election_master_status{{name=\"ordered-controller-manager\"}} {is}\n");
    let start = "ordereddeployment_hold_start_time_seconds{name=\"web\",namespace=\"default\"}";
    let ours = cluster.metrics.render().unwrap();
    assert!(ours.contains(&holds(1)) && ours.contains(&leads(1)) && ours.contains(start), "{ours}");
    let theirs = standby.render().unwrap();
    assert!(theirs.contains(&holds(0)) && theirs.contains(&leads(0)) && !theirs.contains(start), "{theirs}");
    let asked = "rest_client_requests_total{code=\"200\",method=\"GET\",name=\"ordered-controller-manager\"}";
    assert!(theirs.contains(asked), "{theirs}");
    cluster.deployments().delete("web", &kube::api::DeleteParams::default()).await.unwrap();
    cluster.pass(Duration::from_secs(5)).await;
    cluster.pass(Duration::from_secs(120)).await;
    let depth = "workqueue_depth{name=\"ordered-controller-manager\"} 0\n";
    for metrics in [&cluster.metrics, &standby] {
        let text = metrics.render().unwrap();
        assert!(text.contains(&holds(0)) && !text.contains(start) && text.contains(depth), "{text}");
    }
    running.abort();
}
