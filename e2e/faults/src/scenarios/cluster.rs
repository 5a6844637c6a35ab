//! Changes of the cluster: quotas, pods that do not terminate, nodes that fail, a namespace that is deleted.

use super::builder::prelude::*;

/// The scenarios of this file.
pub(super) const ALL: &[Scenario] = &[
    // A quota allows no more pods for some time.
    Scenario("quota", |draw| {
        let spec =
            json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": draw.of(&[0, 1])}}});
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
            "spec": {"hard": {"pods": draw.of(&["4", "3"])}},
        });
        web(draw, &spec)
            .ranked(4)
            .after(0, Create(quota))
            .rollout(draw)
            .until(condition::REPLICA_FAILURE, reason::FAILED_CREATE)
            .after(
                draw.pause(2000),
                Delete("/api/v1/namespaces/default/resourcequotas/few".to_owned(), json!({})),
            )
    }),
    // A pod does not terminate.
    Scenario("stuck", |draw| {
        line(draw)
            .after(0, PatchPod(Any(draw.of(&[0, 1, 3])), stay()))
            .rollout(draw)
            .after(draw.of(&[30_000, 3000]), RemoveFinalizers)
            .wait(2000)
    }),
    // A pod does not terminate, and creates wait for it.
    Scenario("stuck-waiting-for-termination", |draw| {
        bounded(draw, json!({"podReplacementPolicy": "TerminationComplete"}))
            .ranked(4)
            .after(0, PatchPod(Any(draw.of(&[0, 1, 3])), stay()))
            .rollout(draw)
            .after(draw.of(&[60_000, 3000]), RemoveFinalizers)
            .wait(2000)
    }),
    // Nodes are cordoned and tainted, and later schedulable again.
    Scenario("cordoned", |draw| {
        let spec = json!({
            "strategy": draw.bounds(),
            "deletionOrder": {"nodePriorities": [{"unschedulable": true, "priority": 5},
            {"taintKeys": ["gone"], "priority": 9}]},
        });
        let cordon =
            |name: &str, cordoned: bool| Patch(node(name), json!({"spec": {"unschedulable": cordoned}}));
        let taints = json!([{"key": "gone", "effect": "NoExecute"}]);
        let taint = |taints: Value| Patch(node("n3"), json!({"spec": {"taints": taints}}));
        web(draw, &spec)
            .after(0, cordon("n2", true))
            .rollout(draw)
            .when_updated(1, taint(taints))
            .after(draw.pause(1000), cordon("n1", true))
            .after(draw.pause(1000), cordon("n2", false))
            .after(draw.pause(1000), taint(Value::Null))
            .after(draw.pause(1000), cordon("n1", false))
    }),
    // A kubelet stops for some time: its pods are unready.
    Scenario("node-lost", |draw| {
        let name = draw.of(&["n3", "n1", "n2"]);
        line(draw)
            .rollout(draw)
            .when_updated(1, StopNode(name.to_owned()))
            .after(draw.of(&[20_000, 500, 5000]), StartNode(name.to_owned()))
            .wait(2000)
    }),
    // A kubelet stops until its pods are evicted. They terminate when it starts again.
    Scenario("node-lost-for-long", |draw| {
        let name = draw.of(&["n3", "n1", "n2"]);
        let policy = draw.of(&["TerminationStarted", "TerminationComplete"]);
        bounded(draw, json!({"podReplacementPolicy": policy}))
            .ranked(4)
            .after(0, StopNode(name.to_owned()))
            .rollout(draw)
            .after(draw.of(&[400_000, 310_000]), StartNode(name.to_owned()))
            .wait(2000)
    }),
    // A node and its pods are deleted.
    Scenario("node-deleted", |draw| {
        let rules = json!([{"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, "priority": 5}]);
        let spec =
            json!({"replicas": 4, "strategy": draw.bounds(), "deletionOrder": {"nodePriorities": rules}});
        web(draw, &spec)
            .rollout(draw)
            .when_updated(1, DeleteNode(draw.of(&["n3", "n1", "n2"]).to_owned()))
            .wait(5000)
    }),
    // Old and new pods fail during the rollout.
    Scenario("pods-fail", |draw| {
        line(draw)
            .after(0, FailPod(Any(1)))
            .rollout(draw)
            .when_updated(1, FailPod(Updated(0)))
            .after(draw.pause(500), FailPod(Old(0)))
            .after(draw.pause(500), SetReady(Old(0), false))
    }),
    // A user deletes old and updated pods during the rollout.
    Scenario("pods-lost", |draw| {
        line(draw)
            .rollout(draw)
            .when_updated(1, ForceDeletePod(Updated(0)))
            .after(draw.pause(300), DeletePod(Old(1)))
            .after(draw.pause(300), ForceDeletePod(Old(0)))
            .after(draw.pause(300), DeletePod(Any(2)))
    }),
    // The namespace is deleted. Nothing can be created in it, and the finalizer of a pod keeps it for some
    // time.
    Scenario("namespace-deleted", |draw| {
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
        ScenarioBuilder::new(draw)
            .after(0, Create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})))
            .after(0, Create(keeper))
            .after(100, Create(web))
            .field_equals(
                there,
                "/status/availableReplicas",
                json!(3),
                Patch(there.to_owned(), json!({"spec": {"template": template("web:2")}})),
            )
            .after(draw.pause(1500), Delete(shop.to_owned(), json!({})))
            .after(
                draw.pause(3000),
                Patch(format!("{pods}/keeper"), json!({"metadata": {"finalizers": null}})),
            )
            .until_gone(shop)
            .ends(Outcome::Deleted)
    }),
];
