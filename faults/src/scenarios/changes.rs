//! Specs changed on the way.

use ordereddeployment_api::names::{annotation, condition, reason};
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::story::{Draw, NOTHING, Story, annotate, image, scale};
use crate::case::{Act, Case, Ends, Pick};

/// Under way to a second template, with so many pods of it.
fn under_way(name: &str, draw: &mut Draw<'_>) -> Story {
    let spec = json!({"strategy": draw.bounds()});
    Story::of(name, draw, &spec).ranked(4).rollout(draw).updated(draw.of(&[1, 2]), NOTHING)
}

/// Held on the way to a second template.
fn held(name: &str, draw: &mut Draw<'_>) -> Story {
    let spec = json!({"strategy": draw.bounds()});
    let (place, point) = (draw.place(1, 3), draw.point());
    Story::of(name, draw, &spec).ranked(4).point(Pick::Any(place), point).rollout(draw).held(NOTHING)
}

pub(super) fn third_template(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    under_way("third-template", draw).after(draw.pause(100), image("web:3")).end()
}

pub(super) fn undo(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    under_way("undo", draw).after(draw.pause(100), image("web:1")).end()
}

pub(super) fn scaled(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    under_way("scaled-on-the-way", draw)
        .after(draw.pause(100), scale(draw.of(&[6, 2, 5, 3, 1])))
        .after(draw.pause(1500), scale(draw.of(&[3, 6, 1])))
        .end()
}

pub(super) fn to_nothing_and_back(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    under_way("to-nothing-and-back", draw)
        .after(draw.pause(100), scale(0))
        .after(draw.pause(2000), scale(3))
        .end()
}

/// Another order on the way.
pub(super) fn order(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 5, "strategy": draw.bounds()});
    let pool = |pool: &str| {
        json!({"nodePriorities": [
            {"nodeSelector": {"matchLabels": {"node.usage": pool}}, "priority": 5},
        ]})
    };
    let order = |order: Value| Act::Spec(json!({"deletionOrder": order}));
    Story::of("order-changed", draw, &spec)
        .rollout(draw)
        .updated(1, order(pool("hybrid")))
        .after(draw.pause(1000), order(draw.of(&[pool("inference"), Value::Null])))
        .end()
}

pub(super) fn bounds(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let to = json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
    let recreate = json!({"strategy": {"type": "Recreate", "rollingUpdate": null}});
    under_way("bounds-changed", draw).after(draw.pause(100), Act::Spec(draw.of(&[to, recreate]))).end()
}

fn pause(paused: bool) -> Act {
    Act::Spec(json!({"paused": paused}))
}

/// Paused on the way, and scaled there.
pub(super) fn paused(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    under_way("paused", draw)
        .after(draw.pause(100), pause(true))
        .after(draw.pause(3000), scale(draw.of(&[6, 2, 0])))
        .after(draw.pause(3000), scale(draw.of(&[4, 0, 5])))
        .after(draw.pause(3000), pause(false))
        .end()
}

pub(super) fn paused_for_ever(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let pauses = draw.pause(50);
    Story::of("paused-for-ever", draw, &json!({}))
        .slow()
        .ranked(4)
        .after(pauses, image("web:2"))
        .updated(1, pause(true))
        .ends(Ends::Paused)
}

pub(super) fn held_scaled(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    held("held-scaled", draw)
        .after(draw.pause(0), scale(draw.of(&[6, 2, 1])))
        .after(draw.pause(3000), scale(draw.of(&[3, 5, 1])))
        .after(draw.pause(3000), NOTHING)
        .resumed()
        .end()
}

/// The split is the same afterwards. Of a point `after` only once its pod is gone: before, the pod would go by the scaling, and
/// the point with it.
pub(super) fn held_to_nothing_and_back(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    held("held-to-nothing-and-back", draw)
        .told(condition::HELD, reason::ROLLOUT_HELD, NOTHING)
        .after(draw.pause(0), scale(0))
        .after(draw.pause(4000), scale(4))
        .after(draw.pause(4000), NOTHING)
        .resumed()
        .end()
}

/// Scaled on the way to a pause point, so that only pods with one are left, and on at the hold.
pub(super) fn scaled_at_a_point(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 5, "strategy": draw.bounds()});
    let (place, point) = (draw.place(3, 4), draw.point());
    Story::of("scaled-at-a-point", draw, &spec)
        .ranked(5)
        .point(Pick::Any(place), point)
        .rollout(draw)
        .after(draw.pause(500), scale(draw.of(&[2, 3, 1])))
        .held(scale(draw.of(&[4, 1, 6])))
        .after(draw.pause(2000), scale(draw.of(&[1, 3])))
        .after(draw.pause(2000), NOTHING)
        .resumed()
        .end()
}

/// The only pause point outlives its pod.
pub(super) fn to_nothing_with_a_point(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let (place, bounds) = (draw.place(2, 4), draw.bounds());
    Story::of("to-nothing-with-a-point", draw, &json!({"strategy": bounds}))
        .ranked(4)
        .point(Pick::Any(place), "before")
        .rollout(draw)
        .after(draw.pause(200), scale(0))
        .after(draw.pause(4000), scale(4))
        .resumed()
        .end()
}

/// A hold that ends by itself, scaled meanwhile, to nothing too.
pub(super) fn timed_held_scaled(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"strategy": draw.bounds()});
    let (place, point, lasts) = (draw.place(1, 3), draw.point(), draw.of(&["30s", "5s", "2m"]));
    let pod = Pick::Any(place);
    Story::of("timed-held-scaled", draw, &spec)
        .ranked(4)
        .point(pod, point)
        .after(0, annotate(pod, annotation::PAUSE_DURATION, Some(lasts)))
        .rollout(draw)
        .after(draw.pause(3000), scale(draw.of(&[6, 2, 0])))
        .after(draw.pause(4000), scale(draw.of(&[0, 3, 1])))
        .after(draw.pause(4000), scale(4))
        .after(130_000, NOTHING)
        .end()
}

pub(super) fn held_undone(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    held("held-undone", draw).after(draw.pause(0), image("web:1")).end()
}

/// A pod still annotated holds again.
pub(super) fn held_third_template(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"strategy": draw.bounds()});
    Story::of("held-third-template", draw, &spec)
        .ranked(4)
        .point(Pick::Any(draw.of(&[1, 2, 3])), "before")
        .rollout(draw)
        .held(image("web:3"))
        .resumed()
        .end()
}

pub(super) fn held_and_paused(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    held("held-and-paused", draw)
        .after(draw.pause(0), pause(true))
        .after(draw.pause(1000), scale(draw.of(&[5, 3])))
        .resumed()
        .after(draw.pause(2000), pause(false))
        .end()
}

pub(super) fn held_bounds(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let to = |surge: u32, unavailable: u32| {
        Act::Spec(json!({"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}))
    };
    held("held-bounds", draw)
        .after(draw.pause(0), to(3, 0))
        .after(draw.pause(2000), to(0, draw.of(&[2, 4])))
        .after(draw.pause(2000), NOTHING)
        .resumed()
        .end()
}
