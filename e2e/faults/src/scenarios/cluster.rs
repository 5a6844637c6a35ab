//! Changes of the cluster: quotas, pods that do not terminate, nodes that fail, a namespace that is deleted.

use ordereddeployment_api::names::{condition, reason};
use rand::rngs::StdRng;
use serde_json::json;

use super::builder::{Draw, NO_ACTION, ScenarioBuilder, deployment, template};
use super::rollouts::node;
use crate::case::{Case, Outcome, PodSelector, UserAction};

fn four(name: &str, draw: &mut Draw<'_>) -> ScenarioBuilder {
    let bounds = draw.bounds();
    ScenarioBuilder::of(name, draw, &json!({"strategy": bounds})).ranked(4)
}

/// A quota allows no more pods for some time.
pub(super) fn quota(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": draw.of(&[0, 1])}}});
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
        "spec": {"hard": {"pods": draw.of(&["4", "3"])}},
    });
    ScenarioBuilder::of("quota", draw, &spec)
        .ranked(4)
        .after(0, UserAction::Create(quota))
        .rollout(draw)
        .reason(condition::REPLICA_FAILURE, reason::FAILED_CREATE, NO_ACTION)
        .after(
            draw.pause(2000),
            UserAction::Delete("/api/v1/namespaces/default/resourcequotas/few".to_owned(), json!({})),
        )
        .build()
}

fn stay() -> serde_json::Value {
    json!({"metadata": {"finalizers": ["example.com/stay"]}})
}

/// A pod does not terminate.
pub(super) fn stuck(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("stuck", draw)
        .after(0, UserAction::PatchPod(PodSelector::Any(draw.of(&[0, 1, 3])), stay()))
        .rollout(draw)
        .after(draw.of(&[30_000, 3000]), UserAction::RemoveFinalizers)
        .after(2000, NO_ACTION)
        .build()
}

/// A pod does not terminate, and creates wait for it.
pub(super) fn stuck_waiting_for_termination(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"podReplacementPolicy": "TerminationComplete", "strategy": draw.bounds()});
    ScenarioBuilder::of("stuck-waiting-for-termination", draw, &spec)
        .ranked(4)
        .after(0, UserAction::PatchPod(PodSelector::Any(draw.of(&[0, 1, 3])), stay()))
        .rollout(draw)
        .after(draw.of(&[60_000, 3000]), UserAction::RemoveFinalizers)
        .after(2000, NO_ACTION)
        .build()
}

/// Nodes are cordoned and tainted, and later schedulable again.
pub(super) fn cordoned(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({
        "strategy": draw.bounds(),
        "deletionOrder": {"nodePriorities": [{"unschedulable": true, "priority": 5}, {"taintKeys": ["gone"], "priority": 9}]},
    });
    let cordon = |name: &str, cordoned: bool| {
        UserAction::Patch(node(name), json!({"spec": {"unschedulable": cordoned}}))
    };
    let taints = json!([{"key": "gone", "effect": "NoExecute"}]);
    let taint =
        |taints: serde_json::Value| UserAction::Patch(node("n3"), json!({"spec": {"taints": taints}}));
    ScenarioBuilder::of("cordoned", draw, &spec)
        .after(0, cordon("n2", true))
        .rollout(draw)
        .when_updated(1, taint(taints))
        .after(draw.pause(1000), cordon("n1", true))
        .after(draw.pause(1000), cordon("n2", false))
        .after(draw.pause(1000), taint(serde_json::Value::Null))
        .after(draw.pause(1000), cordon("n1", false))
        .build()
}

/// A kubelet stops for some time: its pods are unready.
pub(super) fn node_lost(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let name = draw.of(&["n3", "n1", "n2"]);
    four("node-lost", draw)
        .rollout(draw)
        .when_updated(1, UserAction::StopNode(name.to_owned()))
        .after(draw.of(&[20_000, 500, 5000]), UserAction::StartNode(name.to_owned()))
        .after(2000, NO_ACTION)
        .build()
}

/// A kubelet stops until its pods are evicted. They terminate when it starts again.
pub(super) fn node_lost_for_long(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let name = draw.of(&["n3", "n1", "n2"]);
    let policy = draw.of(&["TerminationStarted", "TerminationComplete"]);
    let spec = json!({"podReplacementPolicy": policy, "strategy": draw.bounds()});
    ScenarioBuilder::of("node-lost-for-long", draw, &spec)
        .ranked(4)
        .after(0, UserAction::StopNode(name.to_owned()))
        .rollout(draw)
        .after(draw.of(&[400_000, 310_000]), UserAction::StartNode(name.to_owned()))
        .after(2000, NO_ACTION)
        .build()
}

/// A node and its pods are deleted.
pub(super) fn node_deleted(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let rules = json!([{"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, "priority": 5}]);
    let spec = json!({"replicas": 4, "strategy": draw.bounds(), "deletionOrder": {"nodePriorities": rules}});
    ScenarioBuilder::of("node-deleted", draw, &spec)
        .rollout(draw)
        .when_updated(1, UserAction::DeleteNode(draw.of(&["n3", "n1", "n2"]).to_owned()))
        .after(5000, NO_ACTION)
        .build()
}

/// Old and new pods fail during the rollout.
pub(super) fn pods_fail(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("pods-fail", draw)
        .after(0, UserAction::FailPod(PodSelector::Any(1)))
        .rollout(draw)
        .when_updated(1, UserAction::FailPod(PodSelector::Updated(0)))
        .after(draw.pause(500), UserAction::FailPod(PodSelector::Old(0)))
        .after(draw.pause(500), UserAction::SetReady(PodSelector::Old(0), false))
        .build()
}

/// A user deletes old and updated pods during the rollout.
pub(super) fn pods_lost(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("pods-lost", draw)
        .rollout(draw)
        .when_updated(1, UserAction::ForceDeletePod(PodSelector::Updated(0)))
        .after(draw.pause(300), UserAction::DeletePod(PodSelector::Old(1)))
        .after(draw.pause(300), UserAction::ForceDeletePod(PodSelector::Old(0)))
        .after(draw.pause(300), UserAction::DeletePod(PodSelector::Any(2)))
        .build()
}

/// The namespace is deleted. Nothing can be created in it, and the finalizer of a pod keeps it for some time.
pub(super) fn namespace_deleted(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let mut web = deployment("shop", &json!({"replicas": 3}));
    web["metadata"]["namespace"] = json!("shop");
    let shop = "/api/v1/namespaces/shop";
    let there = "/apis/ordereddeployment.io/v1alpha1/namespaces/shop/ordereddeployments/shop";
    let mut keeper = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "keeper", "namespace": "shop", "finalizers": ["example.com/stay"]},
        "spec": {"containers": [{"name": "main", "image": "keeper"}]},
    });
    keeper["metadata"]["labels"] = json!({"app": "keeper"});
    let pods = format!("{shop}/pods");
    ScenarioBuilder::new("namespace-deleted", draw)
        .after(
            0,
            UserAction::Create(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            ),
        )
        .after(0, UserAction::Create(keeper))
        .after(100, UserAction::Create(web))
        .field_equals(
            there,
            "/status/availableReplicas",
            json!(3),
            UserAction::Patch(there.to_owned(), json!({"spec": {"template": template("web:2")}})),
        )
        .after(draw.pause(1500), UserAction::Delete(shop.to_owned(), json!({})))
        .after(
            draw.pause(3000),
            UserAction::Patch(format!("{pods}/keeper"), json!({"metadata": {"finalizers": null}})),
        )
        .not_found(shop, NO_ACTION)
        .build_with(Outcome::Deleted)
}
