//! Templates that no pod can be made of, or whose pods never get ready.

use ordereddeployment_api::names::{condition, reason};
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::story::{Draw, NOTHING, Story, image, template};
use crate::case::{Act, Case, Ends};

/// The deadline passes.
fn late(name: &str, draw: &mut Draw<'_>) -> Story {
    let spec = json!({"progressDeadlineSeconds": draw.of(&[10, 2, 30]), "strategy": draw.bounds()});
    Story::of(name, draw, &spec)
        .ranked(4)
        .after(draw.pause(50), image(draw.of(&["broken:2", "crash:2"])))
        .told(condition::PROGRESSING, reason::PROGRESS_DEADLINE_EXCEEDED, NOTHING)
}

pub(super) fn never_ready(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    late("never-ready", draw).after(draw.pause(500), image(draw.of(&["web:2", "web:1"]))).end()
}

pub(super) fn never_ready_for_ever(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"progressDeadlineSeconds": draw.of(&[10, 2, 30]), "strategy": draw.bounds()});
    Story::of("never-ready-for-ever", draw, &spec)
        .ranked(4)
        .after(draw.pause(50), image("broken:2"))
        .told(condition::PROGRESSING, reason::PROGRESS_DEADLINE_EXCEEDED, NOTHING)
        .ends(Ends::Stalled)
}

/// What no server takes.
fn bad() -> Act {
    let mut template: Value = template("web:2");
    template["spec"]["containers"][0]["name"] = json!("Not A Name");
    Act::Spec(json!({"template": template}))
}

fn stalled(name: &str, draw: &mut Draw<'_>, strategy: &Value) -> Story {
    Story::of(name, draw, &json!({"strategy": strategy})).ranked(4).after(draw.pause(50), bad()).told(
        condition::STALLED,
        reason::TEMPLATE_REFUSED,
        NOTHING,
    )
}

pub(super) fn refused(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let bounds = draw.bounds();
    stalled("template-refused", draw, &bounds)
        .after(draw.pause(500), image(draw.of(&["web:2", "web:1"])))
        .end()
}

pub(super) fn refused_under_recreate(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    stalled("template-refused-under-recreate", draw, &json!({"type": "Recreate"}))
        .after(draw.pause(500), image(draw.of(&["web:2", "web:1"])))
        .end()
}

pub(super) fn refused_for_ever(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let bounds = draw.bounds();
    stalled("template-refused-for-ever", draw, &bounds).ends(Ends::Stalled)
}

/// Every pod fails at once.
pub(super) fn rejected_by_kubelets(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 3, "strategy": draw.bounds()});
    Story::of("rejected-by-kubelets", draw, &spec)
        .after(draw.pause(50), image("refused:2"))
        .told(condition::REPLICA_FAILURE, reason::PODS_FAILED, NOTHING)
        .after(draw.pause(500), image(draw.of(&["web:2", "web:1"])))
        .end()
}
