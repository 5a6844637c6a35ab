//! Priorities by node, with pods that the scheduler has spread over the pools. `crates/sorter/tests` has
//! every kind of rule.

use std::collections::BTreeSet;

use kube::ResourceExt;
use ordereddeployment_sandbox::NodeSpec;
use scenarios::{Setting, TestCluster, node_of, side_by_side};
use serde_json::json;

/// Three nodes of one pool.
fn with_three_nodes() -> Setting {
    let nodes = ["l1", "l2", "l3"].map(|name| NodeSpec::in_pool(name, "inference")).to_vec();
    Setting { nodes, ..Setting::default() }
}

async fn pods_on(cluster: &TestCluster, node: &str) -> BTreeSet<String> {
    let pods = cluster.pods().await.unwrap();
    pods.iter().filter(|pod| node_of(pod) == node).map(ResourceExt::name_any).collect()
}

fn set(names: &[String]) -> BTreeSet<String> {
    names.iter().cloned().collect()
}

/// Scales and waits for completion. Returns the deleted pods.
async fn scaled(cluster: &TestCluster, replicas: i32) -> Vec<String> {
    let before = cluster.deleted().await.unwrap().len();
    cluster.scale(replicas).await.unwrap();
    cluster.complete("web", replicas).await.unwrap();
    cluster.deleted().await.unwrap().split_off(before)
}

/// Rolls out and waits for completion, with at least `floor` ready pods all the time. Returns the deleted
/// pods in order.
async fn rolled(cluster: &TestCluster, image: &str, floor: usize) -> Vec<String> {
    let before = cluster.deleted().await.unwrap().len();
    let replicas = cluster.deployments().get("web").await.unwrap().spec.replicas;
    cluster.set_image(image).await.unwrap();
    cluster.with_at_least(floor, cluster.complete("web", replicas)).await.unwrap();
    cluster.deleted().await.unwrap().split_off(before)
}

/// A label of a node takes effect at once too, without writes to pods.
async fn pods_of_a_cordoned_node_are_deleted_first_then_those_of_a_tainted_and_of_a_relabelled_one(
    cluster: TestCluster,
) {
    let rules = json!([
        {"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, "priority": 10},
        {"unschedulable": true, "priority": 50},
        {"taintKeys": ["maintenance"], "priority": 20},
    ]);
    // One pod at a time with no unavailable pod: the log then has exactly the deletion order.
    let spec = json!({
        "replicas": 12, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "deletionOrder": {"nodePriorities": rules},
    });
    cluster.deployed(&spec).await.unwrap();
    let before = cluster.requests().await.unwrap().len();
    cluster.kubectl.run(&["cordon", "l2"]).await.unwrap();
    cluster.kubectl.run(&["taint", "nodes", "l3", "maintenance=soon:PreferNoSchedule"]).await.unwrap();
    let (mut cordoned, tainted) = (pods_on(&cluster, "l2").await, pods_on(&cluster, "l3").await);
    let other = pods_on(&cluster, "l1").await;
    assert!(cordoned.len() > 1 && tainted.len() > 1 && other.len() > 1, "{cordoned:?} {tainted:?} {other:?}");
    let went = scaled(&cluster, 11).await;
    assert!(cordoned.remove(&went[0]), "{went:?}");
    // The annotation of a pod overrides the rule of its node.
    let last = cordoned.pop_first().unwrap();
    cluster.prioritise(&last, -1).await.unwrap();
    let went = Box::pin(rolled(&cluster, "web:2", 11)).await;
    let (first, rest) = went.split_at(cordoned.len());
    assert_eq!(set(first), cordoned, "of {went:?}");
    assert_eq!(set(&rest[..tainted.len()]), tainted, "of {went:?}");
    assert_eq!((went.len(), went.last()), (11, Some(&last)));

    cluster.kubectl.run(&["uncordon", "l2"]).await.unwrap();
    cluster.kubectl.run(&["taint", "nodes", "l3", "maintenance-"]).await.unwrap();
    // Spread over all nodes again.
    scaled(&cluster, 3).await;
    scaled(&cluster, 12).await;
    cluster.kubectl.run(&["label", "node", "l1", "node.usage=hybrid", "--overwrite"]).await.unwrap();
    let relabelled = pods_on(&cluster, "l1").await;
    assert!((1..12).contains(&relabelled.len()), "{relabelled:?}");
    let left = 12 - i32::try_from(relabelled.len()).unwrap();
    assert_eq!(set(&scaled(&cluster, left).await), relabelled);
    let mut writes = cluster.requests().await.unwrap().split_off(before);
    writes.retain(|one| {
        (one.plural.as_str(), one.namespace.as_deref()) == ("pods", Some(&*cluster.namespace))
            && one.by_the_controller()
            && matches!(one.verb.as_str(), "patch" | "update")
    });
    assert!(writes.is_empty(), "{writes:#?}");
}

side_by_side!(
    with_three_nodes();
    pods_of_a_cordoned_node_are_deleted_first_then_those_of_a_tainted_and_of_a_relabelled_one,
);
