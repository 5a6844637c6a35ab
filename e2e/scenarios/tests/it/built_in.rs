//! Kubernetes controllers and tools on our objects: autoscaler, disruption budgets, drain. With
//! `podDeletion: Evict` and the API server's own answers, the status names the budgets, and the rollout waits
//! in order.

use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use kube::{Api, ResourceExt};
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use ordereddeployment_sandbox::{NodeSpec, Taint};
use scenarios::{Setting, TestCluster, condition_of, node_of, side_by_side};
use serde_json::{Value, json};

/// The versions of disruption budgets.
const POLICY: [&str; 2] = ["policy/v1", "policy/v1beta1"];
/// The pool that only the drain scenario uses.
const OWN_POOL: &str = "drained";

/// The default nodes, and two tainted nodes for pods with a toleration.
fn with_nodes_to_drain() -> Setting {
    let mut setting = Setting::default();
    for name in ["d1", "d2"] {
        let mut node = NodeSpec::in_pool(name, OWN_POOL);
        let effect = "NoSchedule".to_owned();
        node.taints.push(Taint { key: "pool".to_owned(), value: OWN_POOL.to_owned(), effect });
        setting.nodes.push(node);
    }
    setting
}

/// The first of these versions of `policy` or `autoscaling` that the server supports.
async fn version(cluster: &TestCluster, versions: &[&str]) -> String {
    let served = cluster.kubectl.run(&["api-versions"]).await.unwrap();
    let found = versions.iter().find(|version| served.lines().any(|line| line == **version));
    (*found.unwrap_or_else(|| panic!("none of {versions:?} is served"))).to_owned()
}

/// Creates or changes a budget for the pods of `web`, with this limit.
pub(crate) async fn set_budget(cluster: &TestCluster, name: &str, (field, limit): (&str, impl Into<Value>)) {
    let budget = json!({
        "apiVersion": version(cluster, &POLICY).await, "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, field: limit.into()},
    });
    cluster.make(&budget.to_string()).await.unwrap();
}

/// Waits until the status of the budget has these numbers of expected pods and of evictions that it allows.
pub(crate) async fn until_counted(cluster: &TestCluster, name: &str, expected: i64, allowed: i64) {
    let counted = |budget: &DynamicObject| {
        let number = |key: &str| budget.data.pointer(&format!("/status/{key}")).and_then(Value::as_i64);
        number("observedGeneration") == budget.metadata.generation
            && number("expectedPods") == Some(expected)
            && number("disruptionsAllowed").unwrap_or_default() == allowed
    };
    let budgets = cluster.objects(&version(cluster, &POLICY).await, "PodDisruptionBudget");
    let what = format!("a budget of {expected} pods that allows {allowed}");
    cluster.until_object(budgets, name, &what, counted).await.unwrap();
}

/// A budget with `maxUnavailable` sums the scale of the owners of its pods: our sets.
async fn a_disruption_budget_expects_the_desired_pods_at_any_point_of_a_rollout(cluster: TestCluster) {
    let pods = cluster.deployed(&json!({})).await.unwrap();
    set_budget(&cluster, "web", ("maxUnavailable", 1)).await;
    until_counted(&cluster, "web", 6, 1).await;
    cluster.prioritise_in_order(&pods).await.unwrap();
    for held in [&pods[1], &pods[3]] {
        cluster.pause_at(held, "before").await.unwrap();
    }
    // Between the writes of two sets the sum may be too large, but never too small: that would allow one
    // eviction too many. The test does not check the status of the budget meanwhile, because the disruption
    // controller reads only the sets whose pods it has seen.
    let sizes = cluster.until_all(cluster.sets(), "never", |sets| {
        let sum: i32 = sets.iter().map(|set| set.spec.replicas).sum();
        assert!(sum >= 6, "sizes of {sum} in all");
        false
    });
    let rollout = async {
        cluster.set_image("web:2").await.unwrap();
        cluster.held_with(1, 6).await.unwrap();
        until_counted(&cluster, "web", 6, 1).await;
        cluster.resume().await.unwrap();
        cluster.held_with(3, 6).await.unwrap();
        until_counted(&cluster, "web", 6, 1).await;
    };
    tokio::select! {
        () = rollout => {}
        ended = sizes => panic!("{ended:?}"),
    }
    // Scaled during the hold.
    for replicas in [9, 4] {
        cluster.scale(replicas).await.unwrap();
        let available = |object: &OrderedDeployment| {
            let status = object.status.clone().unwrap_or_default();
            status.hold.is_some() && status.available_replicas == Some(replicas)
        };
        cluster.until("web", "scaled in its hold", available).await.unwrap();
        until_counted(&cluster, "web", i64::from(replicas), 1).await;
    }
    cluster.resume().await.unwrap();
    cluster.complete("web", 4).await.unwrap();
    until_counted(&cluster, "web", 4, 1).await;
}

async fn pods_of_a_drained_node_are_replaced_on_other_nodes(cluster: TestCluster) {
    let toleration = json!({"key": "pool", "operator": "Exists"});
    let rule = json!({"unschedulable": true, "priority": 50});
    let spec = json!({
        "deletionOrder": {"nodePriorities": [rule]},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "web", "image": "web:1"}],
                "nodeSelector": {"node.usage": OWN_POOL}, "tolerations": [toleration],
            },
        },
    });
    cluster.deployed(&spec).await.unwrap();
    let on = async |node: &str| {
        let pods = cluster.pods().await.unwrap();
        pods.iter().filter(|pod| node_of(pod) == node).map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    let leaving = on("d1").await;
    assert!(!leaving.is_empty(), "the scheduler spreads them over both nodes");
    set_budget(&cluster, "web", ("maxUnavailable", "50%")).await;
    let dry = cluster.kubectl.run(&["drain", "d1", "--dry-run=server"]).await.unwrap();
    assert!(leaving.iter().all(|pod| dry.contains(pod.as_str())), "{dry}");
    assert_eq!(on("d1").await, leaving, "a dry run, without --force");
    // Kubernetes 1.20 does not log the body of an eviction, so a dry run looks like an eviction.
    let dry = cluster.deletions().await.unwrap().len();

    cluster.kubectl.run(&["cordon", "d1"]).await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    assert_eq!(nodes.get("d1").await.unwrap().spec.unwrap().unschedulable, Some(true));
    // A scale-down deletes pods of the cordoned node first.
    cluster.scale(5).await.unwrap();
    cluster.complete("web", 5).await.unwrap();
    let deleted = cluster.deletions().await.unwrap().split_off(dry);
    assert!(deleted.len() == 1 && leaving.contains(&deleted[0].pod), "{deleted:?}");
    cluster.kubectl.run(&["drain", "d1", "--timeout=60s"]).await.unwrap();
    cluster.complete("web", 5).await.unwrap();
    assert_eq!(on("d1").await, Vec::<String>::new());
    assert_eq!(on("d2").await.len(), 5);
    let evicted = cluster.deletions().await.unwrap().split_off(dry);
    assert_eq!(evicted.iter().filter(|one| one.evicted).count(), leaving.len() - 1, "{evicted:?}");
    cluster.kubectl.run(&["uncordon", "d1"]).await.unwrap();
}

/// Pods in deletion order, with evictions, without a surge and one at a time.
async fn deployed_to_evict(cluster: &TestCluster, replicas: i32) -> Vec<String> {
    let bounds = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let spec = json!({"replicas": replicas, "podDeletion": "Evict", "strategy": bounds});
    let pods = cluster.deployed(&spec).await.unwrap();
    cluster.prioritise_in_order(&pods).await.unwrap();
    pods
}

/// The status has no trace of the rejected eviction, and these pods were evicted, in this order.
async fn assert_evicted(cluster: &TestCluster, done: &OrderedDeployment, pods: &[String]) {
    assert_eq!(condition_of(done, condition::REPLICA_FAILURE), None);
    assert_eq!(condition_of(done, condition::STALLED).unwrap().status, ConditionStatus::False);
    let deletions = cluster.deletions().await.unwrap();
    assert!(deletions.iter().all(|one| one.evicted), "{deletions:#?}");
    assert_eq!(deletions.into_iter().map(|one| one.pod).collect::<Vec<_>>(), pods);
}

async fn the_status_names_the_budget_of_a_rejected_eviction_until_it_succeeds(cluster: TestCluster) {
    let pods = deployed_to_evict(&cluster, 4).await;
    set_budget(&cluster, "careful", ("minAvailable", 4)).await;
    until_counted(&cluster, "careful", 4, 0).await;
    cluster.set_image("web:2").await.unwrap();
    let (failure, why) = (condition::REPLICA_FAILURE, reason::EVICTION_REFUSED);
    let message = cluster.until_said(failure, ConditionStatus::True, why).await.unwrap();
    let words = "The disruption budget careful needs 4 healthy pods and has 4 currently";
    assert_eq!(message, format!("Waiting to evict pod {}: {words}", pods[0]));
    assert_eq!(cluster.deletions().await.unwrap(), []);
    set_budget(&cluster, "careful", ("minAvailable", 3)).await;
    let done = cluster.complete("web", 4).await.unwrap();
    assert_evicted(&cluster, &done, &pods).await;
}

/// The disruption controller counts when a pod or the budget changes. A change of `replicas` is neither, so
/// the budget still wants six pods when the first eviction is sent.
async fn a_scale_down_makes_a_budget_without_room_count_again(cluster: TestCluster) {
    let pods = deployed_to_evict(&cluster, 6).await;
    set_budget(&cluster, "careful", ("maxUnavailable", 0)).await;
    until_counted(&cluster, "careful", 6, 0).await;
    cluster.scale(3).await.unwrap();
    let done = cluster.complete("web", 3).await.unwrap();
    assert_evicted(&cluster, &done, &pods[..3]).await;
}

/// An autoscaler without metrics: it reads the scale subresource with its selector, and keeps the replicas
/// within its limits. The sandbox has no autoscaler.
#[cfg(feature = "real-servers")]
async fn an_autoscaler_reads_and_writes_the_scale_and_pods_are_deleted_in_order(cluster: TestCluster) {
    let version = version(&cluster, &["autoscaling/v2", "autoscaling/v2beta2"]).await;
    let autoscalers = cluster.objects(&version, "HorizontalPodAutoscaler");
    let pods = cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    let autoscale = ["autoscale", "od", "web", "--min=2", "--max=5", "--cpu-percent=50"];
    cluster.kubectl.run(&autoscale).await.unwrap();
    let condition = |found: &DynamicObject, type_: &str, key: &str| {
        let conditions = found.data.pointer("/status/conditions").and_then(Value::as_array).cloned();
        let found = conditions.into_iter().flatten().find(|one| one["type"] == type_);
        found.and_then(|one| Some(one.get(key)?.as_str()?.to_owned())).unwrap_or_default()
    };
    let current =
        |found: &DynamicObject| found.data.pointer("/status/currentReplicas").and_then(Value::as_i64);
    let reads = |found: &DynamicObject| {
        // The autoscaler reads the selector before the metrics, and rejects an empty one.
        condition(found, "AbleToScale", "status") == "True"
            && condition(found, "ScalingActive", "reason") == "FailedGetResourceMetric"
            && current(found) == Some(3)
    };
    cluster.until_object(autoscalers.clone(), "web", "able to scale", reads).await.unwrap();

    let bounds = async |min: i64, max: i64| {
        let patch = json!({"spec": {"minReplicas": min, "maxReplicas": max}}).to_string();
        cluster.kubectl.run(&["patch", "hpa", "web", "--type=merge", "-p", &patch]).await.unwrap();
    };
    bounds(5, 7).await;
    cluster.complete("web", 5).await.unwrap();
    for (pod, priority) in [(&pods[1], 4), (&pods[0], 2)] {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    bounds(1, 3).await;
    cluster.complete("web", 3).await.unwrap();
    assert_eq!(cluster.deleted().await.unwrap(), [pods[1].clone(), pods[0].clone()]);
    let scaled = |found: &DynamicObject| {
        condition(found, "AbleToScale", "status") == "True" && current(found) == Some(3)
    };
    cluster.until_object(autoscalers, "web", "at three", scaled).await.unwrap();
}

side_by_side!(
    with_nodes_to_drain();
    a_disruption_budget_expects_the_desired_pods_at_any_point_of_a_rollout,
    pods_of_a_drained_node_are_replaced_on_other_nodes,
    the_status_names_the_budget_of_a_rejected_eviction_until_it_succeeds,
    a_scale_down_makes_a_budget_without_room_count_again;
    only on a real server:
    an_autoscaler_reads_and_writes_the_scale_and_pods_are_deleted_in_order,
);
