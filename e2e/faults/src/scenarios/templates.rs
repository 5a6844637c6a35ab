//! Templates that the server refuses, whose pods never become ready, or that are spelled differently.

use ordereddeployment_api::names::{condition, reason};
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::builder::{Draw, NO_ACTION, SPELLINGS, ScenarioBuilder, image, respell, template};
use crate::case::{Case, Outcome, PodSelector, UserAction};

/// The progress deadline is exceeded.
fn late(name: &str, draw: &mut Draw<'_>) -> ScenarioBuilder {
    let spec = json!({"progressDeadlineSeconds": draw.of(&[10, 2, 30]), "strategy": draw.bounds()});
    ScenarioBuilder::of(name, draw, &spec)
        .ranked(4)
        .after(draw.pause(50), image(draw.of(&["broken:2", "crash:2"])))
        .reason(condition::PROGRESSING, reason::PROGRESS_DEADLINE_EXCEEDED, NO_ACTION)
}

pub(super) fn never_ready(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    late("never-ready", draw).after(draw.pause(500), image(draw.of(&["web:2", "web:1"]))).build()
}

pub(super) fn never_ready_stalled(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"progressDeadlineSeconds": draw.of(&[10, 2, 30]), "strategy": draw.bounds()});
    ScenarioBuilder::of("never-ready-stalled", draw, &spec)
        .ranked(4)
        .after(draw.pause(50), image("broken:2"))
        .reason(condition::PROGRESSING, reason::PROGRESS_DEADLINE_EXCEEDED, NO_ACTION)
        .build_with(Outcome::Stalled)
}

/// A template that the server refuses.
fn bad() -> UserAction {
    let mut template: Value = template("web:2");
    template["spec"]["containers"][0]["name"] = json!("Not A Name");
    UserAction::PatchSpec(json!({"template": template}))
}

fn stalled(name: &str, draw: &mut Draw<'_>, strategy: &Value) -> ScenarioBuilder {
    ScenarioBuilder::of(name, draw, &json!({"strategy": strategy}))
        .ranked(4)
        .after(draw.pause(50), bad())
        .reason(condition::STALLED, reason::TEMPLATE_REFUSED, NO_ACTION)
}

pub(super) fn refused(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let bounds = draw.bounds();
    stalled("template-refused", draw, &bounds)
        .after(draw.pause(500), image(draw.of(&["web:2", "web:1"])))
        .build()
}

pub(super) fn refused_under_recreate(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    stalled("template-refused-under-recreate", draw, &json!({"type": "Recreate"}))
        .after(draw.pause(500), image(draw.of(&["web:2", "web:1"])))
        .build()
}

pub(super) fn refused_stalled(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let bounds = draw.bounds();
    stalled("template-refused-stalled", draw, &bounds).build_with(Outcome::Stalled)
}

/// The kubelets reject every pod.
pub(super) fn rejected_by_kubelets(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 3, "strategy": draw.bounds()});
    ScenarioBuilder::of("rejected-by-kubelets", draw, &spec)
        .after(draw.pause(50), image("refused:2"))
        .reason(condition::REPLICA_FAILURE, reason::PODS_FAILED, NO_ACTION)
        .after(draw.pause(500), image(draw.of(&["web:2", "web:1"])))
        .build()
}

/// The spelling of the template changes twice.
pub(super) fn spelled_at_rest(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 3, "strategy": draw.bounds()});
    let (first, second) = (draw.place(0, SPELLINGS), draw.place(1, SPELLINGS));
    ScenarioBuilder::of("spelled-at-rest", draw, &spec)
        .after(draw.pause(50), respell("web:1", first))
        .after(draw.pause(500), respell("web:1", second))
        .when_complete(image("web:2"))
        .build()
}

pub(super) fn spelled_in_a_rollout(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 4, "strategy": draw.bounds()});
    let spelling = draw.place(0, SPELLINGS);
    ScenarioBuilder::of("spelled-in-a-rollout", draw, &spec)
        .slow_pods()
        .ranked(4)
        .rollout(draw)
        .when_updated(draw.of(&[1, 2, 3]), respell("web:2", spelling))
        .build()
}

pub(super) fn spelled_while_held(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spelling = draw.place(1, SPELLINGS);
    let (spec, point) = (json!({"replicas": 4, "strategy": draw.bounds()}), draw.point());
    ScenarioBuilder::of("spelled-while-held", draw, &spec)
        .ranked(4)
        .point(PodSelector::Any(2), point)
        .rollout(draw)
        .when_held(respell("web:2", spelling))
        .after(draw.pause(1000), NO_ACTION)
        .resume()
        .build()
}

/// The rollout is undone with a spelling that no set has.
pub(super) fn undone_with_another_spelling(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spelling = draw.place(2, SPELLINGS);
    let spec = json!({"replicas": 4, "strategy": draw.bounds()});
    ScenarioBuilder::of("undone-with-another-spelling", draw, &spec)
        .rollout(draw)
        .when_updated(draw.of(&[2, 4, 1]), respell("web:1", spelling))
        .build()
}
