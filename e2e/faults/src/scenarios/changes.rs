//! The spec changes during a rollout.

use ordereddeployment_api::names::{annotation, condition, reason};
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::builder::{Draw, NO_ACTION, ScenarioBuilder, annotate, image, scale};
use crate::case::{Case, Outcome, PodSelector, UserAction};

/// A rollout of a second template, with some updated pods.
fn in_a_rollout(name: &str, draw: &mut Draw<'_>) -> ScenarioBuilder {
    let spec = json!({"strategy": draw.bounds()});
    ScenarioBuilder::of(name, draw, &spec).ranked(4).rollout(draw).when_updated(draw.of(&[1, 2]), NO_ACTION)
}

/// A rollout of a second template that is held.
fn held(name: &str, draw: &mut Draw<'_>) -> ScenarioBuilder {
    let spec = json!({"strategy": draw.bounds()});
    let (place, point) = (draw.place(1, 3), draw.point());
    ScenarioBuilder::of(name, draw, &spec)
        .ranked(4)
        .point(PodSelector::Any(place), point)
        .rollout(draw)
        .when_held(NO_ACTION)
}

pub(super) fn third_template(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    in_a_rollout("third-template", draw).after(draw.pause(100), image("web:3")).build()
}

pub(super) fn undo(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    in_a_rollout("undo", draw).after(draw.pause(100), image("web:1")).build()
}

pub(super) fn scaled(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    in_a_rollout("scaled-in-a-rollout", draw)
        .after(draw.pause(100), scale(draw.of(&[6, 2, 5, 3, 1])))
        .after(draw.pause(1500), scale(draw.of(&[3, 6, 1])))
        .build()
}

pub(super) fn scaled_to_zero_and_back(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    in_a_rollout("scaled-to-zero-and-back", draw)
        .after(draw.pause(100), scale(0))
        .after(draw.pause(2000), scale(3))
        .build()
}

/// The order changes during the rollout.
pub(super) fn order(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 5, "strategy": draw.bounds()});
    let pool = |pool: &str| {
        json!({"nodePriorities": [
            {"nodeSelector": {"matchLabels": {"node.usage": pool}}, "priority": 5},
        ]})
    };
    let order = |order: Value| UserAction::PatchSpec(json!({"deletionOrder": order}));
    ScenarioBuilder::of("order-changed", draw, &spec)
        .rollout(draw)
        .when_updated(1, order(pool("hybrid")))
        .after(draw.pause(1000), order(draw.of(&[pool("inference"), Value::Null])))
        .build()
}

pub(super) fn bounds(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let to = json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
    let recreate = json!({"strategy": {"type": "Recreate", "rollingUpdate": null}});
    in_a_rollout("bounds-changed", draw)
        .after(draw.pause(100), UserAction::PatchSpec(draw.of(&[to, recreate])))
        .build()
}

fn pause(paused: bool) -> UserAction {
    UserAction::PatchSpec(json!({"paused": paused}))
}

/// The rollout is paused, and scaled while it is paused.
pub(super) fn paused(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    in_a_rollout("paused", draw)
        .after(draw.pause(100), pause(true))
        .after(draw.pause(3000), scale(draw.of(&[6, 2, 0])))
        .after(draw.pause(3000), scale(draw.of(&[4, 0, 5])))
        .after(draw.pause(3000), pause(false))
        .build()
}

pub(super) fn stays_paused(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let pauses = draw.pause(50);
    ScenarioBuilder::of("stays-paused", draw, &json!({}))
        .slow_pods()
        .ranked(4)
        .after(pauses, image("web:2"))
        .when_updated(1, pause(true))
        .build_with(Outcome::Paused)
}

pub(super) fn held_scaled(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    held("held-scaled", draw)
        .after(draw.pause(0), scale(draw.of(&[6, 2, 1])))
        .after(draw.pause(3000), scale(draw.of(&[3, 5, 1])))
        .after(draw.pause(3000), NO_ACTION)
        .resume()
        .build()
}

/// The split is the same afterwards. The scenario waits until the pod of a point `after` is deleted: before that, scaling deletes the
/// pod and its point.
pub(super) fn held_scaled_to_zero_and_back(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    held("held-scaled-to-zero-and-back", draw)
        .reason(condition::HELD, reason::ROLLOUT_HELD, NO_ACTION)
        .after(draw.pause(0), scale(0))
        .after(draw.pause(4000), scale(4))
        .after(draw.pause(4000), NO_ACTION)
        .resume()
        .build()
}

/// The rollout is scaled before its pause point, so that only pods with a point are left, and again during the hold.
pub(super) fn scaled_at_a_point(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 5, "strategy": draw.bounds()});
    let (place, point) = (draw.place(3, 4), draw.point());
    ScenarioBuilder::of("scaled-at-a-point", draw, &spec)
        .ranked(5)
        .point(PodSelector::Any(place), point)
        .rollout(draw)
        .after(draw.pause(500), scale(draw.of(&[2, 3, 1])))
        .when_held(scale(draw.of(&[4, 1, 6])))
        .after(draw.pause(2000), scale(draw.of(&[1, 3])))
        .after(draw.pause(2000), NO_ACTION)
        .resume()
        .build()
}

/// The hold at the only pause point stays after its pod is deleted.
pub(super) fn scaled_to_zero_with_a_point(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let (place, bounds) = (draw.place(2, 4), draw.bounds());
    ScenarioBuilder::of("scaled-to-zero-with-a-point", draw, &json!({"strategy": bounds}))
        .ranked(4)
        .point(PodSelector::Any(place), "before")
        .rollout(draw)
        .after(draw.pause(200), scale(0))
        .after(draw.pause(4000), scale(4))
        .resume()
        .build()
}

/// A timed hold, which is scaled, also to zero.
pub(super) fn timed_held_scaled(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"strategy": draw.bounds()});
    let (place, point, lasts) = (draw.place(1, 3), draw.point(), draw.of(&["30s", "5s", "2m"]));
    let pod = PodSelector::Any(place);
    ScenarioBuilder::of("timed-held-scaled", draw, &spec)
        .ranked(4)
        .point(pod, point)
        .after(0, annotate(pod, annotation::PAUSE_DURATION, Some(lasts)))
        .rollout(draw)
        .after(draw.pause(3000), scale(draw.of(&[6, 2, 0])))
        .after(draw.pause(4000), scale(draw.of(&[0, 3, 1])))
        .after(draw.pause(4000), scale(4))
        .after(130_000, NO_ACTION)
        .build()
}

pub(super) fn held_undone(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    held("held-undone", draw).after(draw.pause(0), image("web:1")).build()
}

/// A pod that still has its annotation holds the next rollout.
pub(super) fn held_third_template(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"strategy": draw.bounds()});
    ScenarioBuilder::of("held-third-template", draw, &spec)
        .ranked(4)
        .point(PodSelector::Any(draw.of(&[1, 2, 3])), "before")
        .rollout(draw)
        .when_held(image("web:3"))
        .resume()
        .build()
}

pub(super) fn held_and_paused(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    held("held-and-paused", draw)
        .after(draw.pause(0), pause(true))
        .after(draw.pause(1000), scale(draw.of(&[5, 3])))
        .resume()
        .after(draw.pause(2000), pause(false))
        .build()
}

pub(super) fn held_bounds(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let to = |surge: u32, unavailable: u32| {
        UserAction::PatchSpec(
            json!({"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}),
        )
    };
    held("held-bounds", draw)
        .after(draw.pause(0), to(3, 0))
        .after(draw.pause(2000), to(0, draw.of(&[2, 4])))
        .after(draw.pause(2000), NO_ACTION)
        .resume()
        .build()
}
