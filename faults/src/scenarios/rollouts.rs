//! Rollouts and scale-downs with nothing in their way but their own rules.

use ordereddeployment_api::names::{annotation, condition, reason};
use rand::rngs::StdRng;
use serde_json::json;

use super::story::{Draw, NOTHING, Story, annotate, deployment, image, prioritise, scale};
use crate::case::{Act, Case, Ends, Pick};

pub(super) fn plain(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": draw.of(&[3, 4, 5, 6]), "strategy": draw.bounds()});
    Story::of("rollout", draw, &spec)
        .after(0, prioritise(Pick::Any(2), 5))
        .after(0, prioritise(Pick::Any(1), draw.of(&[3, -3, 5])))
        .rollout(draw)
        .end()
}

/// The shared pool first, cordoned nodes ahead of all.
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
    let cordon = |cordoned: bool| Act::Patch(node("n1"), json!({"spec": {"unschedulable": cordoned}}));
    Story::of("pools", draw, &spec)
        .after(0, annotate(Pick::Any(3), annotation::POD_DELETION_COST, Some("-200")))
        .after(0, cordon(true))
        .rollout(draw)
        .complete(cordon(false))
        .end()
}

/// Annotated and scaled at once, to nothing and up again.
pub(super) fn down(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    Story::of("scale-down", draw, &json!({"replicas": 5}))
        .after(0, prioritise(Pick::Any(3), 9))
        .after(0, scale(draw.of(&[3, 4, 2, 1])))
        .complete(scale(0))
        .complete(scale(2))
        .end()
}

pub(super) fn down_by_pool(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let rules = json!([{"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, "priority": 5}]);
    let spec = json!({"replicas": 6, "deletionOrder": {"nodePriorities": rules}});
    Story::of("scale-down-by-pool", draw, &spec)
        .after(0, Act::Patch(node("n1"), json!({"metadata": {"labels": {"node.usage": "hybrid"}}})))
        .after(draw.pause(0), scale(draw.of(&[4, 5, 3])))
        .complete(prioritise(Pick::Any(0), -3))
        .after(0, prioritise(Pick::Any(1), 8))
        .after(0, scale(2))
        .end()
}

pub(super) fn recreate(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 4, "strategy": {"type": "Recreate"}});
    Story::of("recreate", draw, &spec)
        .after(0, prioritise(Pick::Any(1), 5))
        .after(0, prioritise(Pick::Any(2), 3))
        .rollout(draw)
        .end()
}

pub(super) fn evict(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 4, "podDeletion": "Evict", "strategy": draw.bounds()});
    Story::of("evict", draw, &spec)
        .after(0, prioritise(Pick::Any(2), 5))
        .after(0, Act::Ready(Pick::Any(3), false))
        .rollout(draw)
        .end()
}

/// A budget that allows nothing for a while.
pub(super) fn evict_with_a_budget(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 4, "podDeletion": "Evict", "strategy": draw.bounds()});
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 99, "selector": {"matchLabels": {"app": "web"}}},
    });
    let place = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web";
    Story::of("evict-with-a-budget", draw, &spec)
        .after(0, Act::Create(budget))
        .shows(place, "/status/currentHealthy", json!(4), prioritise(Pick::Any(2), 5))
        .rollout(draw)
        .told(condition::REPLICA_FAILURE, reason::EVICTION_REFUSED, NOTHING)
        .after(draw.pause(500), Act::Delete(place.to_owned(), json!({})))
        .end()
}

/// A pod counts until it is gone.
pub(super) fn wait_for_ends(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({
        "replicas": 4, "podReplacementPolicy": "TerminationComplete", "strategy": draw.bounds(),
    });
    Story::of("wait-for-ends", draw, &spec).ranked(4).rollout(draw).end()
}

/// Ready is not yet available.
pub(super) fn min_ready(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 4, "minReadySeconds": draw.of(&[5, 1, 20]), "strategy": draw.bounds()});
    Story::of("min-ready", draw, &spec)
        .after(0, prioritise(Pick::Any(2), 5))
        .rollout(draw)
        .updated(2, Act::Ready(Pick::Updated(0), false))
        .after(draw.pause(1000), Act::Ready(Pick::Updated(0), true))
        .end()
}

/// Unready pods go out of turn where nothing else can.
pub(super) fn when_blocked(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 4, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
    Story::of("when-blocked", draw, &spec)
        .ranked(4)
        .after(0, Act::Ready(Pick::Any(draw.of(&[3, 2, 1])), false))
        .rollout(draw)
        .end()
}

/// They wait for their turn, until they are ready again.
pub(super) fn in_order(rng: &mut StdRng) -> Case {
    waiting_in_order("in-order", rng).after(500, Act::Ready(Pick::Old(3), true)).end()
}

/// They wait for their turn, which never comes.
pub(super) fn in_order_for_ever(rng: &mut StdRng) -> Case {
    waiting_in_order("in-order-for-ever", rng).ends(Ends::Stalled)
}

fn waiting_in_order(name: &str, rng: &mut StdRng) -> Story {
    let draw = &mut Draw::from(rng);
    let spec = json!({
        "replicas": 4, "deletionOrder": {"unavailablePods": "InOrder"},
        "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    });
    Story::of(name, draw, &spec).ranked(4).after(0, Act::Ready(Pick::Any(3), false)).rollout(draw).told(
        condition::STALLED,
        reason::WAITING_IN_ORDER,
        NOTHING,
    )
}

/// Only the newest old sets are kept.
pub(super) fn history(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 1, "revisionHistoryLimit": draw.of(&[1, 0, 2])});
    Story::new("history", draw)
        .after(100, Act::Create(deployment("web", &spec)))
        .complete(image("web:2"))
        .complete(image("web:3"))
        .complete(image("web:4"))
        .complete(image("web:3"))
        .end()
}

pub(super) fn node(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}
