//! Rollouts and scale-downs without problems.

use ordereddeployment_api::names::{annotation, condition, reason};
use rand::rngs::StdRng;
use serde_json::json;

use super::builder::{Draw, NO_ACTION, ScenarioBuilder, annotate, deployment, image, prioritise, scale};
use crate::case::{Case, Outcome, PodSelector, UserAction};

pub(super) fn plain(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": draw.of(&[3, 4, 5, 6]), "strategy": draw.bounds()});
    ScenarioBuilder::of("rollout", draw, &spec)
        .after(0, prioritise(PodSelector::Any(2), 5))
        .after(0, prioritise(PodSelector::Any(1), draw.of(&[3, -3, 5])))
        .rollout(draw)
        .build()
}

/// Pods on cordoned nodes are deleted first, then those of the shared pool.
pub(super) fn pools(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let by_pool = draw.of(&["deletionCost", "priority"]);
    let hybrid = draw.of(&[-100, 7]);
    let spec = json!({
        "replicas": draw.pods(), "strategy": draw.bounds(),
        "deletionOrder": {"nodePriorities": [
            {"unschedulable": true, "priority": 50},
            {"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, by_pool: hybrid},
        ]},
    });
    let cordon = |cordoned: bool| UserAction::Patch(node("n1"), json!({"spec": {"unschedulable": cordoned}}));
    ScenarioBuilder::of("pools", draw, &spec)
        .after(0, annotate(PodSelector::Any(3), annotation::POD_DELETION_COST, Some("-200")))
        .after(0, cordon(true))
        .rollout(draw)
        .when_complete(cordon(false))
        .build()
}

/// Scale-downs right after an annotation, to zero, and a scale-up.
pub(super) fn down(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    ScenarioBuilder::of("scale-down", draw, &json!({"replicas": 5}))
        .after(0, prioritise(PodSelector::Any(3), 9))
        .after(0, scale(draw.of(&[3, 4, 2, 1])))
        .when_complete(scale(0))
        .when_complete(scale(2))
        .build()
}

pub(super) fn down_by_pool(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let rules = json!([{"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, "priority": 5}]);
    let spec = json!({"replicas": 6, "deletionOrder": {"nodePriorities": rules}});
    ScenarioBuilder::of("scale-down-by-pool", draw, &spec)
        .after(0, UserAction::Patch(node("n1"), json!({"metadata": {"labels": {"node.usage": "hybrid"}}})))
        .after(draw.pause(0), scale(draw.of(&[4, 5, 3])))
        .when_complete(prioritise(PodSelector::Any(0), -3))
        .after(0, prioritise(PodSelector::Any(1), 8))
        .after(0, scale(2))
        .build()
}

pub(super) fn recreate(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 4, "strategy": {"type": "Recreate"}});
    ScenarioBuilder::of("recreate", draw, &spec)
        .after(0, prioritise(PodSelector::Any(1), 5))
        .after(0, prioritise(PodSelector::Any(2), 3))
        .rollout(draw)
        .build()
}

pub(super) fn evict(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 4, "podDeletion": "Evict", "strategy": draw.bounds()});
    ScenarioBuilder::of("evict", draw, &spec)
        .after(0, prioritise(PodSelector::Any(2), 5))
        .after(0, UserAction::SetReady(PodSelector::Any(3), false))
        .rollout(draw)
        .build()
}

/// A PodDisruptionBudget allows no disruption for some time.
pub(super) fn evict_with_a_budget(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 4, "podDeletion": "Evict", "strategy": draw.bounds()});
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 99, "selector": {"matchLabels": {"app": "web"}}},
    });
    let place = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web";
    ScenarioBuilder::of("evict-with-a-budget", draw, &spec)
        .after(0, UserAction::Create(budget))
        .field_equals(place, "/status/currentHealthy", json!(4), prioritise(PodSelector::Any(2), 5))
        .rollout(draw)
        .reason(condition::REPLICA_FAILURE, reason::EVICTION_REFUSED, NO_ACTION)
        .after(draw.pause(500), UserAction::Delete(place.to_owned(), json!({})))
        .build()
}

/// Terminating pods count against the ceiling.
pub(super) fn wait_for_termination(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({
        "replicas": 4, "podReplacementPolicy": "TerminationComplete", "strategy": draw.bounds(),
    });
    ScenarioBuilder::of("wait-for-termination", draw, &spec).ranked(4).rollout(draw).build()
}

/// Pods become available after `minReadySeconds`.
pub(super) fn min_ready(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 4, "minReadySeconds": draw.of(&[5, 1, 20]), "strategy": draw.bounds()});
    ScenarioBuilder::of("min-ready", draw, &spec)
        .after(0, prioritise(PodSelector::Any(2), 5))
        .rollout(draw)
        .when_updated(2, UserAction::SetReady(PodSelector::Updated(0), false))
        .after(draw.pause(1000), UserAction::SetReady(PodSelector::Updated(0), true))
        .build()
}

/// Unready pods are deleted out of order when the rollout is blocked.
pub(super) fn when_blocked(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 4, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
    ScenarioBuilder::of("when-blocked", draw, &spec)
        .ranked(4)
        .after(0, UserAction::SetReady(PodSelector::Any(draw.of(&[3, 2, 1])), false))
        .rollout(draw)
        .build()
}

/// Unready pods are deleted in order. They become ready later.
pub(super) fn in_order(rng: &mut StdRng) -> Case {
    waiting_in_order("in-order", rng).after(500, UserAction::SetReady(PodSelector::Old(3), true)).build()
}

/// Unready pods are deleted in order. They stay unready, and the rollout stalls.
pub(super) fn in_order_stalled(rng: &mut StdRng) -> Case {
    waiting_in_order("in-order-stalled", rng).build_with(Outcome::Stalled)
}

fn waiting_in_order(name: &str, rng: &mut StdRng) -> ScenarioBuilder {
    let draw = &mut Draw::from(rng);
    let spec = json!({
        "replicas": 4, "deletionOrder": {"unavailablePods": "InOrder"},
        "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    });
    ScenarioBuilder::of(name, draw, &spec)
        .ranked(4)
        .after(0, UserAction::SetReady(PodSelector::Any(3), false))
        .rollout(draw)
        .reason(condition::STALLED, reason::WAITING_IN_ORDER, NO_ACTION)
}

/// Only the newest old sets are kept, as `revisionHistoryLimit` says.
pub(super) fn history(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 1, "revisionHistoryLimit": draw.of(&[1, 0, 2])});
    ScenarioBuilder::new("history", draw)
        .after(100, UserAction::Create(deployment("web", &spec)))
        .when_complete(image("web:2"))
        .when_complete(image("web:3"))
        .when_complete(image("web:4"))
        .when_complete(image("web:3"))
        .build()
}

pub(super) fn node(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}
