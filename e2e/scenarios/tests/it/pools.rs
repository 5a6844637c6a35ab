//! Priorities by node, with pods that the scheduler has spread over the pools. `crates/sorter/tests` has
//! every kind of rule.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_sandbox::{NodeSpec, Taint};
use scenarios::{Setting, TestCluster, node_of, side_by_side};
use serde_json::{Value, json};

/// The label of nodes that only one scenario uses: scenarios share a server.
const FOR: &str = "for";

/// The default nodes, and nodes that only the pods of one scenario use.
fn with_nodes_of_ones_own() -> Setting {
    let mut setting = Setting::default();
    for (scenario, name, usage, room) in [
        ("gpus", "g1", "inference", 3),
        ("gpus", "g2", "hybrid", 3),
        ("leaving", "l1", "inference", 110),
        ("leaving", "l2", "inference", 110),
        ("leaving", "l3", "inference", 110),
    ] {
        let mut node = NodeSpec::in_pool(name, usage);
        node.pods_capacity = room;
        node.labels.insert(FOR.to_owned(), scenario.to_owned());
        let (key, value) = (FOR.to_owned(), scenario.to_owned());
        node.taints.push(Taint { key, value, effect: "NoSchedule".to_owned() });
        setting.nodes.push(node);
    }
    setting
}

/// A pod template for the nodes of this scenario.
fn only_on(scenario: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "web", "image": "web:1"}],
            "nodeSelector": {FOR: scenario},
            "tolerations": [{"key": FOR, "operator": "Exists"}],
        },
    })
}

fn hybrid(key: &str, value: i32) -> Value {
    json!({"nodePriorities": [{"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, key: value}]})
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

async fn with_a_cost_pending_pods_are_deleted_before_ready_ones(cluster: TestCluster) {
    let spec = json!({"deletionOrder": hybrid("deletionCost", -100), "template": only_on("gpus")});
    cluster.deployed(&spec).await.unwrap();
    // Like two nodes with three GPUs each: three of nine pods are pending.
    let three_more = async || {
        cluster.scale(9).await.unwrap();
        let waiting = |pods: &[Pod]| pods.iter().filter(|pod| node_of(pod).is_empty()).count();
        let pods = cluster.until_pods("three of nine pending", |pods| pods.len() == 9 && waiting(pods) == 3);
        let pods = pods.await.unwrap().into_iter().filter(|pod| node_of(pod).is_empty());
        pods.map(|pod| pod.name_any()).collect::<BTreeSet<_>>()
    };
    let waiting = three_more().await;
    assert_eq!(set(&scaled(&cluster, 6).await), waiting, "by a cost, those that do not serve go first");
    let shared = pods_on(&cluster, "g2").await;
    let went = scaled(&cluster, 5).await;
    assert!(went.len() == 1 && shared.contains(&went[0]), "{went:?} of {shared:?}");

    // A priority comes first: pods of the shared pool are deleted even while other pods are pending.
    three_more().await;
    let shared = pods_on(&cluster, "g2").await;
    cluster.patch(&json!({"spec": {"deletionOrder": hybrid("priority", 10), "replicas": 6}})).await.unwrap();
    cluster.complete("web", 6).await.unwrap();
    assert_eq!(set(&cluster.deleted().await.unwrap()[4..]), shared);
}

/// A label of a node takes effect at once too, without writes to pods.
async fn pods_of_a_cordoned_node_are_deleted_first_then_those_of_a_tainted_and_of_a_relabelled_one(
    cluster: TestCluster,
) {
    let mut rules = hybrid("priority", 10)["nodePriorities"].clone();
    rules.as_array_mut().unwrap().extend([
        json!({"unschedulable": true, "priority": 50}),
        json!({"taintKeys": ["maintenance"], "priority": 20}),
    ]);
    // One pod at a time with no unavailable pod: the log then has exactly the deletion order.
    let spec = json!({
        "replicas": 12, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "deletionOrder": {"nodePriorities": rules}, "template": only_on("leaving"),
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
    with_nodes_of_ones_own();
    with_a_cost_pending_pods_are_deleted_before_ready_ones,
    pods_of_a_cordoned_node_are_deleted_first_then_those_of_a_tainted_and_of_a_relabelled_one,
);
