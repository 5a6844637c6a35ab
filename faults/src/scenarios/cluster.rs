//! What the cluster does meanwhile: quotas, pods that do not end, nodes that go, a namespace that ends.

use ordereddeployment_api::names::{condition, reason};
use rand::rngs::StdRng;
use serde_json::json;

use super::rollouts::node;
use super::story::{Draw, NOTHING, Story, deployment, template};
use crate::case::{Act, Case, Ends, Pick};

fn four(name: &str, draw: &mut Draw<'_>) -> Story {
    let bounds = draw.bounds();
    Story::of(name, draw, &json!({"strategy": bounds})).ranked(4)
}

/// No pod more for a while.
pub(super) fn quota(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": draw.of(&[0, 1])}}});
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
        "spec": {"hard": {"pods": draw.of(&["4", "3"])}},
    });
    Story::of("quota", draw, &spec)
        .ranked(4)
        .after(0, Act::Create(quota))
        .rollout(draw)
        .told(condition::REPLICA_FAILURE, reason::FAILED_CREATE, NOTHING)
        .after(
            draw.pause(2000),
            Act::Delete("/api/v1/namespaces/default/resourcequotas/few".to_owned(), json!({})),
        )
        .end()
}

fn stay() -> serde_json::Value {
    json!({"metadata": {"finalizers": ["example.com/stay"]}})
}

/// A pod does not end.
pub(super) fn stuck(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("stuck", draw)
        .after(0, Act::Pod(Pick::Any(draw.of(&[0, 1, 3])), stay()))
        .rollout(draw)
        .after(draw.of(&[30_000, 3000]), Act::Free)
        .after(2000, NOTHING)
        .end()
}

/// A pod does not end, and creates wait for it.
pub(super) fn stuck_waiting_for_ends(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"podReplacementPolicy": "TerminationComplete", "strategy": draw.bounds()});
    Story::of("stuck-waiting-for-ends", draw, &spec)
        .ranked(4)
        .after(0, Act::Pod(Pick::Any(draw.of(&[0, 1, 3])), stay()))
        .rollout(draw)
        .after(draw.of(&[60_000, 3000]), Act::Free)
        .after(2000, NOTHING)
        .end()
}

/// A node takes no pods, another one goes out of service and back.
pub(super) fn cordoned(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({
        "strategy": draw.bounds(),
        "deletionOrder": {"nodePriorities": [{"unschedulable": true, "priority": 5}, {"taintKeys": ["gone"], "priority": 9}]},
    });
    let cordon =
        |name: &str, cordoned: bool| Act::Patch(node(name), json!({"spec": {"unschedulable": cordoned}}));
    let taints = json!([{"key": "gone", "effect": "NoExecute"}]);
    let taint = |taints: serde_json::Value| Act::Patch(node("n3"), json!({"spec": {"taints": taints}}));
    Story::of("cordoned", draw, &spec)
        .after(0, cordon("n2", true))
        .rollout(draw)
        .updated(1, taint(taints))
        .after(draw.pause(1000), cordon("n1", true))
        .after(draw.pause(1000), cordon("n2", false))
        .after(draw.pause(1000), taint(serde_json::Value::Null))
        .after(draw.pause(1000), cordon("n1", false))
        .end()
}

/// A node is not heard of for a while: its pods are unready.
pub(super) fn node_lost(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let name = draw.of(&["n3", "n1", "n2"]);
    four("node-lost", draw)
        .rollout(draw)
        .updated(1, Act::NodeLost(name.to_owned()))
        .after(draw.of(&[20_000, 500, 5000]), Act::NodeBack(name.to_owned()))
        .after(2000, NOTHING)
        .end()
}

/// So long that its pods are evicted, and do not end until it is back.
pub(super) fn node_lost_for_long(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let name = draw.of(&["n3", "n1", "n2"]);
    let policy = draw.of(&["TerminationStarted", "TerminationComplete"]);
    let spec = json!({"podReplacementPolicy": policy, "strategy": draw.bounds()});
    Story::of("node-lost-for-long", draw, &spec)
        .ranked(4)
        .after(0, Act::NodeLost(name.to_owned()))
        .rollout(draw)
        .after(draw.of(&[400_000, 310_000]), Act::NodeBack(name.to_owned()))
        .after(2000, NOTHING)
        .end()
}

/// A node is deleted, and its pods with it.
pub(super) fn node_gone(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let rules = json!([{"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, "priority": 5}]);
    let spec = json!({"replicas": 4, "strategy": draw.bounds(), "deletionOrder": {"nodePriorities": rules}});
    Story::of("node-gone", draw, &spec)
        .rollout(draw)
        .updated(1, Act::NodeGone(draw.of(&["n3", "n1", "n2"]).to_owned()))
        .after(5000, NOTHING)
        .end()
}

/// Old and new pods fail on the way.
pub(super) fn pods_fail(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("pods-fail", draw)
        .after(0, Act::Fail(Pick::Any(1)))
        .rollout(draw)
        .updated(1, Act::Fail(Pick::Updated(0)))
        .after(draw.pause(500), Act::Fail(Pick::Old(0)))
        .after(draw.pause(500), Act::Ready(Pick::Old(0), false))
        .end()
}

/// Somebody deletes pods of all kinds on the way.
pub(super) fn pods_lost(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("pods-lost", draw)
        .rollout(draw)
        .updated(1, Act::KillPod(Pick::Updated(0)))
        .after(draw.pause(300), Act::DeletePod(Pick::Old(1)))
        .after(draw.pause(300), Act::KillPod(Pick::Old(0)))
        .after(draw.pause(300), Act::DeletePod(Pick::Any(2)))
        .end()
}

/// Nothing can be created in it any more, and a pod keeps it for a while.
pub(super) fn namespace_ends(rng: &mut StdRng) -> Case {
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
    Story::new("namespace-ends", draw)
        .after(0, Act::Create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})))
        .after(0, Act::Create(keeper))
        .after(100, Act::Create(web))
        .shows(
            there,
            "/status/availableReplicas",
            json!(3),
            Act::Patch(there.to_owned(), json!({"spec": {"template": template("web:2")}})),
        )
        .after(draw.pause(1500), Act::Delete(shop.to_owned(), json!({})))
        .after(
            draw.pause(3000),
            Act::Patch(format!("{pods}/keeper"), json!({"metadata": {"finalizers": null}})),
        )
        .gone(shop, NOTHING)
        .ends(Ends::Gone)
}
