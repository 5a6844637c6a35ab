//! Deletion costs of plain Deployments by node. The scenarios show more.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use ordereddeployment_api::names::annotation;
use ordereddeployment_controller::{Options, RulesSource, health, run_node_costs};
use serde_json::json;

use crate::cluster::{Cluster, spec_of};

const RULES: &str = "\
deployments:
- selector: {matchLabels: {tier: inference}}
  nodeCosts:
  - {nodeSelector: {matchLabels: {node.usage: hybrid}}, deletionCost: -100}
";

/// A Deployment with a pod on each node, created by hand: the sandbox has no Deployment controller.
async fn deployed() -> Cluster {
    let cluster = Cluster::without_controller().await;
    let rules = json!({"metadata": {"name": "costs"}, "data": {"nodecosts.yaml": RULES}});
    cluster.create::<ConfigMap>(rules).await;
    let spec = spec_of("web", "web:1", 2);
    let owner = |kind: &str, name: &str, uid: Option<String>| {
        let of = json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true});
        json!([of])
    };
    let metadata = json!({"name": "web", "labels": {"tier": "inference"}});
    let web = cluster.create::<Deployment>(json!({"metadata": metadata, "spec": spec})).await.uid();
    let metadata = json!({"name": "web-1", "ownerReferences": owner("Deployment", "web", web)});
    let set = cluster.create::<ReplicaSet>(json!({"metadata": metadata, "spec": spec})).await.uid();
    let owners = owner("ReplicaSet", "web-1", set);
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    for node in nodes.list(&ListParams::default()).await.unwrap() {
        let name = format!("{}-{}", node.labels()["node.usage"], node.name_any());
        let metadata = json!({"name": name, "labels": {"app": "web"}, "ownerReferences": owners});
        let mut spec = spec["template"]["spec"].clone();
        spec["nodeName"] = node.name_any().into();
        cluster.create::<Pod>(json!({"metadata": metadata, "spec": spec})).await;
    }
    cluster
}

/// Waits for the controller. Then all pods of that pool have this cost.
async fn all_have(cluster: &Cluster, pool: &str, cost: Option<&str>) {
    cluster.pass(Duration::from_secs(5)).await;
    let pods = cluster.all_pods().await;
    let pods: Vec<_> = pods.iter().filter(|pod| pod.name_any().starts_with(pool)).collect();
    let cost_of = |pod: &Pod| pod.annotations().get(annotation::POD_DELETION_COST).cloned();
    assert!(!pods.is_empty());
    assert!(pods.iter().all(|pod| cost_of(pod).as_deref() == cost), "{pool}: {pods:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cost_is_written_once_and_follows_the_labels_of_the_deployment() {
    let cluster = deployed().await;
    let mut options = Options::new(Arc::clone(&cluster.metrics));
    options.health = health(&[], true);
    let rules = RulesSource { namespace: "default".to_owned(), name: "costs".to_owned() };
    let run = run_node_costs(rules, cluster.sandbox.client().unwrap(), options, std::future::pending());
    let run = tokio::spawn(async move { run.await.unwrap() });
    all_have(&cluster, "hybrid", Some("-100")).await;
    all_have(&cluster, "inference", None).await;
    let mark = cluster.mark();
    cluster.pass(Duration::from_secs(120)).await;
    assert_eq!(cluster.asked(mark, "patch", "pods").len(), 0);
    for (tier, cost) in [("other", None), ("inference", Some("-100"))] {
        cluster.merge::<Deployment>("web", json!({"metadata": {"labels": {"tier": tier}}})).await;
        all_have(&cluster, "hybrid", cost).await;
    }
    run.abort();
}
