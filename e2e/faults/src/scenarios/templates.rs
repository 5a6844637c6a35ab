//! Templates that the server refuses, whose pods never become ready, or that are spelled differently.

use super::builder::prelude::*;

/// The progress deadline is exceeded.
fn late(draw: &mut Draw<'_>) -> ScenarioBuilder {
    let spec = json!({"progressDeadlineSeconds": draw.of(&[10, 2, 30])});
    bounded(draw, spec)
        .ranked(4)
        .after(draw.pause(50), image(draw.of(&["broken:2", "crash:2"])))
        .until(condition::PROGRESSING, reason::PROGRESS_DEADLINE_EXCEEDED)
}

/// A template that the server refuses.
fn bad() -> UserAction {
    let mut template: Value = template("web:2");
    template["spec"]["containers"][0]["name"] = json!("Not A Name");
    PatchSpec(json!({"template": template}))
}

fn stalled(draw: &mut Draw<'_>, strategy: &Value) -> ScenarioBuilder {
    web(draw, &json!({"strategy": strategy}))
        .ranked(4)
        .after(draw.pause(50), bad())
        .until(condition::STALLED, reason::TEMPLATE_REFUSED)
}

/// The scenarios of this file.
pub(super) const ALL: &[Scenario] = &[
    Scenario("never-ready", |draw| late(draw).after(draw.pause(500), image(draw.of(&["web:2", "web:1"])))),
    Scenario("never-ready-stalled", |draw| {
        let spec = json!({"progressDeadlineSeconds": draw.of(&[10, 2, 30])});
        bounded(draw, spec)
            .ranked(4)
            .after(draw.pause(50), image("broken:2"))
            .until(condition::PROGRESSING, reason::PROGRESS_DEADLINE_EXCEEDED)
            .ends(Outcome::Stalled)
    }),
    Scenario("template-refused", |draw| {
        let bounds = draw.bounds();
        stalled(draw, &bounds).after(draw.pause(500), image(draw.of(&["web:2", "web:1"])))
    }),
    Scenario("template-refused-under-recreate", |draw| {
        stalled(draw, &json!({"type": "Recreate"}))
            .after(draw.pause(500), image(draw.of(&["web:2", "web:1"])))
    }),
    Scenario("template-refused-stalled", |draw| {
        let bounds = draw.bounds();
        stalled(draw, &bounds).ends(Outcome::Stalled)
    }),
    // The kubelets reject every pod.
    Scenario("rejected-by-kubelets", |draw| {
        bounded(draw, json!({"replicas": 3}))
            .after(draw.pause(50), image("refused:2"))
            .until(condition::REPLICA_FAILURE, reason::PODS_FAILED)
            .after(draw.pause(500), image(draw.of(&["web:2", "web:1"])))
    }),
    // The spelling of the template changes twice.
    Scenario("spelled-at-rest", |draw| {
        let spec = json!({"replicas": 3, "strategy": draw.bounds()});
        let (first, second) = (draw.place(0, SPELLINGS), draw.place(1, SPELLINGS));
        web(draw, &spec)
            .after(draw.pause(50), respell("web:1", first))
            .after(draw.pause(500), respell("web:1", second))
            .when_complete(image("web:2"))
    }),
    Scenario("spelled-in-a-rollout", |draw| {
        let spec = json!({"replicas": 4, "strategy": draw.bounds()});
        let spelling = draw.place(0, SPELLINGS);
        web(draw, &spec)
            .slow_pods()
            .ranked(4)
            .rollout(draw)
            .when_updated(draw.of(&[1, 2, 3]), respell("web:2", spelling))
    }),
    Scenario("spelled-while-held", |draw| {
        let spelling = draw.place(1, SPELLINGS);
        let (spec, point) = (json!({"replicas": 4, "strategy": draw.bounds()}), draw.point());
        web(draw, &spec)
            .ranked(4)
            .point(Any(2), point)
            .rollout(draw)
            .when_held(respell("web:2", spelling))
            .wait(draw.pause(1000))
            .resume()
    }),
    // The rollout is undone with a spelling that no set has.
    Scenario("undone-with-another-spelling", |draw| {
        let spelling = draw.place(2, SPELLINGS);
        four(draw).rollout(draw).when_updated(draw.of(&[2, 4, 1]), respell("web:1", spelling))
    }),
];
