//! Rollouts and scale-downs without problems.

use super::builder::prelude::*;

/// Unready pods are deleted in order.
fn waiting_in_order(draw: &mut Draw<'_>) -> ScenarioBuilder {
    let spec = json!({
        "replicas": 4, "deletionOrder": {"unavailablePods": "InOrder"},
        "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    });
    web(draw, &spec)
        .ranked(4)
        .after(0, SetReady(Any(3), false))
        .rollout(draw)
        .until(condition::STALLED, reason::WAITING_IN_ORDER)
}

/// The scenarios of this file.
pub(super) const ALL: &[Scenario] = &[
    Scenario("rollout", |draw| {
        let spec = json!({"replicas": draw.of(&[3, 4, 5, 6])});
        bounded(draw, spec)
            .after(0, prioritise(Any(2), 5))
            .after(0, prioritise(Any(1), draw.of(&[3, -3, 5])))
            .rollout(draw)
    }),
    // Pods on cordoned nodes are deleted first, then those of the shared pool.
    Scenario("pools", |draw| {
        let by_pool = draw.of(&["deletionCost", "priority"]);
        let hybrid = draw.of(&[-100, 7]);
        let spec = json!({
            "replicas": draw.pods(), "strategy": draw.bounds(),
            "deletionOrder": {"nodePriorities": [
                {"unschedulable": true, "priority": 50},
                {"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, by_pool: hybrid},
            ]},
        });
        let cordon = |cordoned: bool| Patch(node("n1"), json!({"spec": {"unschedulable": cordoned}}));
        web(draw, &spec)
            .after(0, annotate(Any(3), annotation::POD_DELETION_COST, Some("-200")))
            .after(0, cordon(true))
            .rollout(draw)
            .when_complete(cordon(false))
    }),
    // Scale-downs right after an annotation, to zero, and a scale-up.
    Scenario("scale-down", |draw| {
        web(draw, &json!({"replicas": 5}))
            .after(0, prioritise(Any(3), 9))
            .after(0, scale(draw.of(&[3, 4, 2, 1])))
            .when_complete(scale(0))
            .when_complete(scale(2))
    }),
    Scenario("scale-down-by-pool", |draw| {
        let rules = json!([{"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, "priority": 5}]);
        let spec = json!({"replicas": 6, "deletionOrder": {"nodePriorities": rules}});
        web(draw, &spec)
            .after(0, Patch(node("n1"), json!({"metadata": {"labels": {"node.usage": "hybrid"}}})))
            .after(draw.pause(0), scale(draw.of(&[4, 5, 3])))
            .when_complete(prioritise(Any(0), -3))
            .after(0, prioritise(Any(1), 8))
            .after(0, scale(2))
    }),
    Scenario("recreate", |draw| {
        let spec = json!({"replicas": 4, "strategy": {"type": "Recreate"}});
        web(draw, &spec).after(0, prioritise(Any(1), 5)).after(0, prioritise(Any(2), 3)).rollout(draw)
    }),
    Scenario("evict", |draw| {
        bounded(draw, json!({"replicas": 4, "podDeletion": "Evict"}))
            .after(0, prioritise(Any(2), 5))
            .after(0, SetReady(Any(3), false))
            .rollout(draw)
    }),
    // A PodDisruptionBudget allows no disruption for some time.
    Scenario("evict-with-a-budget", |draw| {
        let spec = json!({"replicas": 4, "podDeletion": "Evict", "strategy": draw.bounds()});
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"minAvailable": 99, "selector": {"matchLabels": {"app": "web"}}},
        });
        let place = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web";
        web(draw, &spec)
            .after(0, Create(budget))
            .field_equals(place, "/status/currentHealthy", json!(4), prioritise(Any(2), 5))
            .rollout(draw)
            .until(condition::REPLICA_FAILURE, reason::EVICTION_REFUSED)
            .after(draw.pause(500), Delete(place.to_owned(), json!({})))
    }),
    // Terminating pods count against the ceiling.
    Scenario("wait-for-termination", |draw| {
        let spec = json!({
        "replicas": 4, "podReplacementPolicy": "TerminationComplete"});
        bounded(draw, spec).ranked(4).rollout(draw)
    }),
    // Pods become available after `minReadySeconds`.
    Scenario("min-ready", |draw| {
        let spec = json!({"replicas": 4, "minReadySeconds": draw.of(&[5, 1, 20])});
        bounded(draw, spec)
            .after(0, prioritise(Any(2), 5))
            .rollout(draw)
            .when_updated(2, SetReady(Updated(0), false))
            .after(draw.pause(1000), SetReady(Updated(0), true))
    }),
    // Unready pods are deleted out of order when the rollout is blocked.
    Scenario("when-blocked", |draw| {
        let spec =
            json!({"replicas": 4, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
        web(draw, &spec).ranked(4).after(0, SetReady(Any(draw.of(&[3, 2, 1])), false)).rollout(draw)
    }),
    // Unready pods are deleted in order. They become ready later.
    Scenario("in-order", |draw| waiting_in_order(draw).after(500, SetReady(Old(3), true))),
    // Unready pods are deleted in order. They stay unready, and the rollout stalls.
    Scenario("in-order-stalled", |draw| waiting_in_order(draw).ends(Outcome::Stalled)),
    // Only the newest old sets are kept, as `revisionHistoryLimit` says.
    Scenario("history", |draw| {
        let spec = json!({"replicas": 1, "revisionHistoryLimit": draw.of(&[1, 0, 2])});
        ScenarioBuilder::new(draw)
            .after(100, Create(deployment("web", &spec)))
            .when_complete(image("web:2"))
            .when_complete(image("web:3"))
            .when_complete(image("web:4"))
            .when_complete(image("web:3"))
    }),
];
