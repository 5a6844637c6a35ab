//! Rollouts with declared pause points.

use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::builder::{Draw, NO_ACTION, ScenarioBuilder, scale};
use crate::case::{Case, PodSelector, ResumeRequest, UserAction};

/// Five pods with descending priorities and these points.
fn with_points(name: &str, draw: &mut Draw<'_>, points: &Value) -> ScenarioBuilder {
    let mut strategy = draw.bounds();
    strategy["pausePoints"] = points.clone();
    ScenarioBuilder::of(name, draw, &json!({"replicas": 5, "strategy": strategy})).ranked(5)
}

fn points(points: &Value) -> UserAction {
    UserAction::PatchSpec(json!({"strategy": {"pausePoints": points}}))
}

pub(super) fn numbers(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let canary = draw.of(&[1, 2]);
    let points = json!([{"name": "canary", "afterUpdated": canary}, {"name": "half", "afterUpdated": "50%"}]);
    with_points("declared-numbers", draw, &points).rollout(draw).resume().resume().build()
}

/// Places in the order, and a pod with a point of its own.
pub(super) fn places(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let points = json!([
        {"name": "low", "beforePriority": draw.of(&[30, 20])},
        {"name": "pool", "beforeNodes": {"matchLabels": {"node.usage": "hybrid"}}},
    ]);
    let (place, point) = (draw.place(3, 5), draw.point());
    with_points("declared-places", draw, &points)
        .point(PodSelector::Any(place), point)
        .rollout(draw)
        .resume()
        .after(60_000, UserAction::Resume(ResumeRequest::Current))
        .after(60_000, UserAction::Resume(ResumeRequest::All))
        .build()
}

pub(super) fn groups(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let mut strategy = draw.bounds();
    strategy["pausePoints"] = json!([{"name": "each-pool", "betweenNodeGroups": "node.usage"}]);
    ScenarioBuilder::of("declared-groups", draw, &json!({"replicas": 6, "strategy": strategy}))
        .rollout(draw)
        .resume()
        .build()
}

pub(super) fn timed(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let lasts = draw.of(&["20s", "1ms", "3m0.5s"]);
    let points = json!([{"name": "canary", "afterUpdated": 1, "duration": lasts}]);
    with_points("declared-timed", draw, &points).rollout(draw).after(200_000, NO_ACTION).build()
}

pub(super) fn under_recreate(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let strategy = json!({"type": "Recreate", "pausePoints": [{"name": "low", "beforePriority": 30}]});
    ScenarioBuilder::of("declared-under-recreate", draw, &json!({"replicas": 6, "strategy": strategy}))
        .ranked(6)
        .rollout(draw)
        .resume()
        .build()
}

/// The rollout is scaled before its point, and in the hold.
pub(super) fn scaled(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let points = json!([{"name": "half", "afterUpdated": draw.of(&["50%", "30%", "80%"])}]);
    with_points("declared-scaled", draw, &points)
        .rollout(draw)
        .after(draw.pause(500), scale(draw.of(&[8, 4, 3])))
        .when_held(scale(draw.of(&[5, 9, 2])))
        .after(draw.pause(2000), NO_ACTION)
        .resume()
        .build()
}

/// The rollout is suspended without pods, and goes on afterwards.
pub(super) fn scaled_to_zero_and_back(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let points = json!([{"name": "half", "afterUpdated": "50%"}]);
    with_points("declared-scaled-to-zero-and-back", draw, &points)
        .rollout(draw)
        .after(draw.pause(500), scale(0))
        .after(draw.pause(4000), scale(draw.of(&[5, 4, 7])))
        .resume()
        .build()
}

/// The held point is edited and removed, others are added.
pub(super) fn edited(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let before = json!([{"name": "canary", "afterUpdated": 2}]);
    let more = json!([
        {"name": "one", "afterUpdated": 1}, {"name": "canary", "afterUpdated": 4}, {"name": "low", "beforePriority": 10},
    ]);
    with_points("declared-edited", draw, &before)
        .rollout(draw)
        .when_held(points(&more))
        .after(draw.pause(1000), points(&json!([{"name": "low", "beforePriority": 10}])))
        .resume()
        .build()
}

/// Old and updated pods are lost before the point and in the hold.
pub(super) fn pods_lost(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let points = json!([{"name": "canary", "afterUpdated": 2}]);
    with_points("declared-pods-lost", draw, &points)
        .slow_pods()
        .rollout(draw)
        .when_updated(1, UserAction::ForceDeletePod(PodSelector::Old(draw.of(&[0, 1, 2]))))
        .after(draw.pause(500), UserAction::DeletePod(PodSelector::Old(1)))
        .when_held(UserAction::ForceDeletePod(PodSelector::Updated(0)))
        .after(draw.pause(500), UserAction::ForceDeletePod(PodSelector::Old(0)))
        .after(draw.pause(3000), NO_ACTION)
        .resume()
        .build()
}

/// A request is repeated: it passes no other point.
pub(super) fn resumed_twice(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let points = json!([{"name": "canary", "afterUpdated": 1}, {"name": "half", "afterUpdated": "50%"}]);
    with_points("declared-resumed-twice", draw, &points)
        .rollout(draw)
        .resume()
        .after(draw.pause(0), UserAction::Resume(ResumeRequest::Previous))
        .when_held(UserAction::Resume(ResumeRequest::Previous))
        .after(draw.pause(3000), NO_ACTION)
        .resume()
        .build()
}
