//! Short scenarios, which get crashes at every pair of writes, and one of two instances, which gets one crash.

use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::builder::{Draw, ScenarioBuilder, image, prioritise, scale};
use crate::case::{Case, Outcome, PodSelector, UserAction};
use crate::user::DEPLOYMENT;

fn few(name: &str, draw: &mut Draw<'_>, replicas: u32, strategy: &Value) -> ScenarioBuilder {
    ScenarioBuilder::of(name, draw, &json!({"replicas": replicas, "strategy": strategy}))
}

fn bounds(surge: u32, unavailable: u32) -> Value {
    json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

pub(super) fn rollout(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let bounds = draw.of(&[bounds(1, 0), bounds(0, 1)]);
    few("short-rollout", draw, 1, &bounds).after(0, image("web:2")).build_short()
}

pub(super) fn scale_down(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    few("short-scale-down", draw, 3, &bounds(1, 1))
        .after(0, prioritise(PodSelector::Any(1), 9))
        .after(0, scale(draw.of(&[1, 0, 2])))
        .build_short()
}

pub(super) fn hold_before(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let bounds = draw.of(&[bounds(1, 0), bounds(0, 1)]);
    few("short-hold-before", draw, 1, &bounds)
        .point(PodSelector::Any(0), "before")
        .after(0, image("web:2"))
        .resume()
        .build_short()
}

pub(super) fn hold_after(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let bounds = draw.of(&[bounds(0, 1), bounds(1, 1)]);
    few("short-hold-after", draw, 2, &bounds)
        .ranked(1)
        .point(PodSelector::Any(0), "after")
        .after(0, image("web:2"))
        .resume()
        .build_short()
}

pub(super) fn recreate(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    few("short-recreate", draw, 1, &json!({"type": "Recreate"})).after(0, image("web:2")).build_short()
}

pub(super) fn deleted(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let policy = draw.of(&["Background", "Foreground"]);
    let case = few("short-deleted", draw, 1, &bounds(1, 0))
        .after(0, image("web:2"))
        .when_updated(1, UserAction::Delete(DEPLOYMENT.to_owned(), json!({"propagationPolicy": policy})))
        .build_with(Outcome::Deleted);
    Case { short: true, ..case }
}

/// Two instances, of which one leads.
pub(super) fn two_instances(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let mut case = few("short-two-instances", draw, 2, &bounds(1, 1)).after(0, image("web:2")).build();
    case.cluster.instances = 2;
    case
}
