//! Templates that no pod can be made of, or whose pods never get ready.

use ordereddeployment_api::names::{condition, reason};
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::story::{Draw, NOTHING, SPELLINGS, Story, image, respell, template};
use crate::case::{Act, Case, Ends, Pick};

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

/// The template is written in other words, and in others again.
pub(super) fn spelled_at_rest(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 3, "strategy": draw.bounds()});
    let (first, second) = (draw.place(0, SPELLINGS), draw.place(1, SPELLINGS));
    Story::of("spelled-at-rest", draw, &spec)
        .after(draw.pause(50), respell("web:1", first))
        .after(draw.pause(500), respell("web:1", second))
        .complete(image("web:2"))
        .end()
}

pub(super) fn spelled_in_a_rollout(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({"replicas": 4, "strategy": draw.bounds()});
    let how = draw.place(0, SPELLINGS);
    Story::of("spelled-in-a-rollout", draw, &spec)
        .slow()
        .ranked(4)
        .rollout(draw)
        .updated(draw.of(&[1, 2, 3]), respell("web:2", how))
        .end()
}

pub(super) fn spelled_while_held(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let how = draw.place(1, SPELLINGS);
    let (spec, point) = (json!({"replicas": 4, "strategy": draw.bounds()}), draw.point());
    Story::of("spelled-while-held", draw, &spec)
        .ranked(4)
        .point(Pick::Any(2), point)
        .rollout(draw)
        .held(respell("web:2", how))
        .after(draw.pause(1000), NOTHING)
        .resumed()
        .end()
}

/// Back to the template before, in words that no set has.
pub(super) fn undone_in_other_words(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let how = draw.place(2, SPELLINGS);
    let spec = json!({"replicas": 4, "strategy": draw.bounds()});
    Story::of("undone-in-other-words", draw, &spec)
        .rollout(draw)
        .updated(draw.of(&[2, 4, 1]), respell("web:1", how))
        .end()
}
