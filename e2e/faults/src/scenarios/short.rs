//! Short scenarios, which get crashes at every pair of writes, and one of two instances, which gets one
//! crash.

use super::builder::prelude::*;

fn few(draw: &mut Draw<'_>, replicas: u32, strategy: &Value) -> ScenarioBuilder {
    web(draw, &json!({"replicas": replicas, "strategy": strategy}))
}

fn bounds(surge: u32, unavailable: u32) -> Value {
    json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

/// The scenarios of this file.
pub(super) const ALL: &[Scenario] = &[
    Scenario("short-rollout", |draw| {
        let bounds = draw.of(&[bounds(1, 0), bounds(0, 1)]);
        few(draw, 1, &bounds).after(0, image("web:2")).short()
    }),
    Scenario("short-scale-down", |draw| {
        few(draw, 3, &bounds(1, 1))
            .after(0, prioritise(Any(1), 9))
            .after(0, scale(draw.of(&[1, 0, 2])))
            .short()
    }),
    Scenario("short-hold-before", |draw| {
        let bounds = draw.of(&[bounds(1, 0), bounds(0, 1)]);
        few(draw, 1, &bounds).point(Any(0), "before").after(0, image("web:2")).resume().short()
    }),
    Scenario("short-hold-after", |draw| {
        let bounds = draw.of(&[bounds(0, 1), bounds(1, 1)]);
        few(draw, 2, &bounds).ranked(1).point(Any(0), "after").after(0, image("web:2")).resume().short()
    }),
    Scenario("short-recreate", |draw| {
        few(draw, 1, &json!({"type": "Recreate"})).after(0, image("web:2")).short()
    }),
    Scenario("short-deleted", |draw| {
        let policy = draw.of(&["Background", "Foreground"]);
        few(draw, 1, &bounds(1, 0))
            .after(0, image("web:2"))
            .when_updated(1, delete(DEPLOYMENT, policy))
            .ends(Outcome::Deleted)
            .short()
    }),
    // Two instances, of which one leads.
    Scenario("short-two-instances", |draw| few(draw, 2, &bounds(1, 1)).after(0, image("web:2")).instances(2)),
];
