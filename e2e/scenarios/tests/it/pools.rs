//! Priorities by node: an inference service on a dedicated pool and on a shared pool, in scale-downs and in rollouts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use ordereddeployment_sandbox::{NodeSpec, Taint};
use scenarios::{Setting, TestCluster, is_ready, side_by_side};
use serde_json::{Value, json};

/// The label of nodes that only one scenario uses: scenarios share a server.
const FOR: &str = "for";

/// The default nodes, and nodes that only the pods of one scenario use.
fn with_nodes_of_ones_own() -> Setting {
    let mut setting = Setting::default();
    for (scenario, name, usage, room) in [
        ("shared", "s1", "inference", 110),
        ("shared", "s2", "inference", 110),
        ("shared", "s3", "hybrid", 110),
        ("shared", "s4", "hybrid", 110),
        ("gpus", "g1", "inference", 3),
        ("gpus", "g2", "hybrid", 3),
        ("leaving", "l1", "inference", 110),
        ("leaving", "l2", "inference", 110),
        ("leaving", "l3", "inference", 110),
        ("relabelled", "r1", "inference", 110),
        ("relabelled", "r2", "inference", 110),
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
    json!({"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, key: value})
}

/// One pod at a time with no unavailable pod: the log then has exactly the deletion order.
fn one_by_one() -> Value {
    json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref())
}

/// The nodes of the current pods; `None` for pending pods.
async fn places(cluster: &TestCluster) -> BTreeMap<String, Option<String>> {
    let pods = cluster.pods().await.unwrap();
    pods.iter().map(|pod| (pod.name_any(), node_of(pod).map(str::to_owned))).collect()
}

async fn pods_on(cluster: &TestCluster, node: &str) -> Vec<String> {
    let places = places(cluster).await.into_iter();
    places.filter(|(_, place)| place.as_deref() == Some(node)).map(|(pod, _)| pod).collect()
}

/// The pods on nodes with this usage.
async fn pods_of_usage(cluster: &TestCluster, usage: &str) -> Vec<String> {
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let nodes = nodes.list(&ListParams::default().labels(&format!("node.usage={usage}"))).await.unwrap();
    let nodes: Vec<_> = nodes.items.iter().map(ResourceExt::name_any).collect();
    let places = places(cluster).await.into_iter();
    places
        .filter(|(_, node)| node.as_ref().is_some_and(|node| nodes.contains(node)))
        .map(|(pod, _)| pod)
        .collect()
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// Scales and waits for completion. Returns the deleted pods.
async fn scaled(cluster: &TestCluster, replicas: usize) -> Vec<String> {
    let before = cluster.deleted().await.unwrap().len();
    let replicas = i32::try_from(replicas).unwrap();
    cluster.scale(replicas).await.unwrap();
    cluster.complete("web", replicas).await.unwrap();
    cluster.deleted().await.unwrap().split_off(before)
}

/// Rolls out and waits for completion, with at least `floor` ready pods all the time. Returns the deleted pods in
/// order.
async fn rolled(cluster: &TestCluster, image: &str, floor: usize) -> Vec<String> {
    let before = cluster.deleted().await.unwrap().len();
    let replicas = cluster.deployments().get("web").await.unwrap().spec.replicas;
    cluster.set_image(image).await.unwrap();
    let kept = cluster.until_pods("never", |pods| {
        let serving = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none() && is_ready(pod));
        assert!(serving.clone().count() >= floor, "{} serve", serving.count());
        false
    });
    tokio::select! {
        result = cluster.complete("web", replicas) => drop(result.unwrap()),
        result = kept => panic!("{result:?}"),
    }
    cluster.deleted().await.unwrap().split_off(before)
}

async fn scale_downs_and_rollouts_delete_pods_of_the_shared_pool_first(cluster: TestCluster) {
    let order = json!({"nodePriorities": [hybrid("deletionCost", -100)]});
    let spec = json!({
        "replicas": 9, "strategy": one_by_one(), "deletionOrder": order, "template": only_on("shared"),
    });
    cluster.deployed(&spec).await.unwrap();
    for _ in 0..2 {
        let shared = pods_of_usage(&cluster, "hybrid").await;
        assert!((1..9).contains(&shared.len()), "the scheduler spreads them over both pools: {shared:?}");
        assert_eq!(sorted(scaled(&cluster, 9 - shared.len()).await), shared);
        assert_eq!(scaled(&cluster, 9).await, Vec::<String>::new());
    }
    for image in ["web:2", "web:3"] {
        let shared = pods_of_usage(&cluster, "hybrid").await;
        assert!((1..9).contains(&shared.len()), "{shared:?}");
        let went = rolled(&cluster, image, 9).await;
        assert_eq!(went.len(), 9);
        assert_eq!(sorted(went[..shared.len()].to_vec()), shared, "of {went:?}");
    }
}

async fn with_a_cost_pending_pods_are_deleted_before_ready_ones(cluster: TestCluster) {
    let order = json!({"nodePriorities": [hybrid("deletionCost", -100)]});
    let spec = json!({"deletionOrder": order, "template": only_on("gpus")});
    cluster.deployed(&spec).await.unwrap();
    // Like two nodes with three GPUs each: three of nine pods are pending.
    let three_more = async || {
        cluster.scale(9).await.unwrap();
        let waiting = |pods: &[Pod]| pods.iter().filter(|pod| node_of(pod).is_none()).count();
        let pods = cluster.until_pods("three of nine pending", |pods| pods.len() == 9 && waiting(pods) == 3);
        let pods = pods.await.unwrap().into_iter().filter(|pod| node_of(pod).is_none());
        sorted(pods.map(|pod| pod.name_any()).collect())
    };
    let waiting = three_more().await;
    assert_eq!(sorted(scaled(&cluster, 6).await), waiting, "by a cost, those that do not serve go first");
    let shared = pods_on(&cluster, "g2").await;
    let went = scaled(&cluster, 5).await;
    assert!(went.len() == 1 && shared.contains(&went[0]), "{went:?} of {shared:?}");

    // A priority comes first: pods of the shared pool are deleted even while other pods are pending.
    three_more().await;
    let shared = pods_on(&cluster, "g2").await;
    let order = json!({"nodePriorities": [hybrid("priority", 10)]});
    cluster.patch(&json!({"spec": {"deletionOrder": order, "replicas": 6}})).await.unwrap();
    cluster.complete("web", 6).await.unwrap();
    let went = cluster.deleted().await.unwrap().split_off(4);
    assert_eq!(sorted(went), shared);
}

async fn pods_of_a_cordoned_node_are_deleted_first_and_then_those_of_a_tainted_one(cluster: TestCluster) {
    let rules =
        json!([{"unschedulable": true, "priority": 50}, {"taintKeys": ["maintenance"], "priority": 20}]);
    let spec = json!({
        "replicas": 9, "strategy": one_by_one(), "deletionOrder": {"nodePriorities": rules},
        "template": only_on("leaving"),
    });
    cluster.deployed(&spec).await.unwrap();
    cluster.kubectl.run(&["cordon", "l2"]).await.unwrap();
    cluster.kubectl.run(&["taint", "nodes", "l3", "maintenance=soon:PreferNoSchedule"]).await.unwrap();
    let (cordoned, tainted) = (pods_on(&cluster, "l2").await, pods_on(&cluster, "l3").await);
    assert!(cordoned.len() > 1 && tainted.len() > 1, "{cordoned:?} {tainted:?}");
    let went = scaled(&cluster, 8).await;
    assert!(cordoned.contains(&went[0]), "{went:?}");
    let went = rolled(&cluster, "web:2", 8).await;
    let left: Vec<String> = cordoned.iter().filter(|pod| went.contains(pod)).cloned().collect();
    assert_eq!((left.len(), went.len()), (cordoned.len() - 1, 8));
    assert_eq!(sorted(went[..left.len()].to_vec()), left, "of {went:?}");
    assert_eq!(sorted(went[left.len()..left.len() + tainted.len()].to_vec()), tainted, "of {went:?}");
    assert_eq!(pods_on(&cluster, "l2").await, Vec::<String>::new());
}

async fn a_relabelled_node_takes_effect_without_writes_to_pods(cluster: TestCluster) {
    let spec = json!({
        "strategy": one_by_one(), "deletionOrder": {"nodePriorities": [hybrid("priority", 10)]},
        "template": only_on("relabelled"),
    });
    cluster.deployed(&spec).await.unwrap();
    let (first, second) = (pods_on(&cluster, "r1").await, pods_on(&cluster, "r2").await);
    assert_eq!((first.len(), second.len()), (3, 3));
    cluster.prioritise(&first[0], 100).await.unwrap();
    cluster.pause_at(&first[0], "before").await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.held_with(0, 6).await.unwrap();
    let before = cluster.requests().await.unwrap().len();

    // During a rollout.
    cluster.kubectl.run(&["label", "node", "r2", "node.usage=hybrid", "--overwrite"]).await.unwrap();
    cluster.resume().await.unwrap();
    cluster.complete("web", 6).await.unwrap();
    let went = cluster.deleted().await.unwrap();
    assert_eq!((went.len(), &went[0]), (6, &first[0]));
    assert_eq!(sorted(went[1..4].to_vec()), second, "of {went:?}");
    // During a scale-down.
    cluster.kubectl.run(&["label", "node", "r2", "node.usage=inference", "--overwrite"]).await.unwrap();
    cluster.kubectl.run(&["label", "node", "r1", "node.usage=hybrid", "--overwrite"]).await.unwrap();
    let shared = pods_on(&cluster, "r1").await;
    assert!((1..6).contains(&shared.len()), "{shared:?}");
    assert_eq!(sorted(scaled(&cluster, 6 - shared.len()).await), shared);

    let mut writes = cluster.requests().await.unwrap().split_off(before);
    writes.retain(|one| {
        (one.plural.as_str(), one.namespace.as_deref()) == ("pods", Some(&*cluster.namespace))
            && matches!(one.verb.as_str(), "patch" | "update")
            // Kubelets write the status.
            && one.subresource.is_none()
    });
    assert!(writes.is_empty(), "{writes:#?}");
}

async fn the_first_matching_rule_applies_and_an_annotation_overrides_it(cluster: TestCluster) {
    let anywhere = json!({"matchExpressions": [{"key": "node.usage", "operator": "Exists"}]});
    let rules = json!([hybrid("priority", 5), {"nodeSelector": anywhere, "priority": 9}]);
    // So many pods that a random order cannot pass.
    let spec = json!({"replicas": 12, "strategy": one_by_one(), "deletionOrder": {"nodePriorities": rules}});
    cluster.deployed(&spec).await.unwrap();
    let (shared, own) = (pods_of_usage(&cluster, "hybrid").await, pods_of_usage(&cluster, "inference").await);
    assert!(shared.len() > 2 && own.len() > 2, "{shared:?} {own:?}");
    cluster.prioritise(&shared[0], 20).await.unwrap();
    cluster.prioritise(&own[0], -1).await.unwrap();
    let went = rolled(&cluster, "web:2", 12).await;
    assert_eq!((&went[0], &went[11]), (&shared[0], &own[0]));
    assert_eq!(sorted(went[1..own.len()].to_vec()), own[1..], "of {went:?}");
    assert_eq!(sorted(went[own.len()..11].to_vec()), shared[1..], "of {went:?}");
}

async fn with_a_cost_by_node_unready_pods_are_deleted_first(cluster: TestCluster) {
    let order = json!({"nodePriorities": [hybrid("deletionCost", -100)]});
    cluster.deployed(&json!({"deletionOrder": order})).await.unwrap();
    let (shared, own) = (pods_of_usage(&cluster, "hybrid").await, pods_of_usage(&cluster, "inference").await);
    cluster.set_ready(&own[0], false).await.unwrap();
    assert_eq!(scaled(&cluster, 5).await, own[..1], "unready, and so ahead of the cost");
    let went = scaled(&cluster, 4).await;
    assert!(shared.contains(&went[0]), "then by the cost: {went:?} of {shared:?}");
}

side_by_side!(
    with_nodes_of_ones_own();
    scale_downs_and_rollouts_delete_pods_of_the_shared_pool_first,
    with_a_cost_pending_pods_are_deleted_before_ready_ones,
    pods_of_a_cordoned_node_are_deleted_first_and_then_those_of_a_tainted_one,
    a_relabelled_node_takes_effect_without_writes_to_pods,
    the_first_matching_rule_applies_and_an_annotation_overrides_it,
    with_a_cost_by_node_unready_pods_are_deleted_first,
);
