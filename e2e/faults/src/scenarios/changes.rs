//! The spec changes during a rollout.

use super::builder::prelude::*;

/// A rollout of a second template, with some updated pods.
fn in_a_rollout(draw: &mut Draw<'_>) -> ScenarioBuilder {
    line(draw).rollout(draw).when_updated(draw.of(&[1, 2]), NoAction)
}

/// A rollout of a second template that is held.
fn held(draw: &mut Draw<'_>) -> ScenarioBuilder {
    let spec = json!({"strategy": draw.bounds()});
    let (place, point) = (draw.place(1, 3), draw.point());
    web(draw, &spec).ranked(4).point(Any(place), point).rollout(draw).when_held(NoAction)
}

fn pause(paused: bool) -> UserAction {
    PatchSpec(json!({"paused": paused}))
}

/// The scenarios of this file.
pub(super) const ALL: &[Scenario] = &[
    Scenario("third-template", |draw| in_a_rollout(draw).after(draw.pause(100), image("web:3"))),
    Scenario("undo", |draw| in_a_rollout(draw).after(draw.pause(100), image("web:1"))),
    Scenario("scaled-in-a-rollout", |draw| {
        in_a_rollout(draw)
            .after(draw.pause(100), scale(draw.of(&[6, 2, 5, 3, 1])))
            .after(draw.pause(1500), scale(draw.of(&[3, 6, 1])))
    }),
    Scenario("scaled-to-zero-and-back", |draw| {
        in_a_rollout(draw).after(draw.pause(100), scale(0)).after(draw.pause(2000), scale(3))
    }),
    // The order changes during the rollout.
    Scenario("order-changed", |draw| {
        let spec = json!({"replicas": 5, "strategy": draw.bounds()});
        let pool = |pool: &str| {
            json!({"nodePriorities": [
                {"nodeSelector": {"matchLabels": {"node.usage": pool}}, "priority": 5},
            ]})
        };
        let order = |order: Value| PatchSpec(json!({"deletionOrder": order}));
        web(draw, &spec)
            .rollout(draw)
            .when_updated(1, order(pool("hybrid")))
            .after(draw.pause(1000), order(draw.of(&[pool("inference"), Value::Null])))
    }),
    Scenario("bounds-changed", |draw| {
        let to = json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
        let recreate = json!({"strategy": {"type": "Recreate", "rollingUpdate": null}});
        in_a_rollout(draw).after(draw.pause(100), PatchSpec(draw.of(&[to, recreate])))
    }),
    // The rollout is paused, and scaled while it is paused.
    Scenario("paused", |draw| {
        in_a_rollout(draw)
            .after(draw.pause(100), pause(true))
            .after(draw.pause(3000), scale(draw.of(&[6, 2, 0])))
            .after(draw.pause(3000), scale(draw.of(&[4, 0, 5])))
            .after(draw.pause(3000), pause(false))
    }),
    Scenario("stays-paused", |draw| {
        let pauses = draw.pause(50);
        web(draw, &json!({}))
            .slow_pods()
            .ranked(4)
            .after(pauses, image("web:2"))
            .when_updated(1, pause(true))
            .ends(Outcome::Paused)
    }),
    Scenario("held-scaled", |draw| {
        held(draw)
            .after(draw.pause(0), scale(draw.of(&[6, 2, 1])))
            .after(draw.pause(3000), scale(draw.of(&[3, 5, 1])))
            .wait(draw.pause(3000))
            .resume()
    }),
    // The split is the same afterwards. The scenario waits until the pod of a point `after` is deleted:
    // before that, scaling deletes the pod and its point.
    Scenario("held-scaled-to-zero-and-back", |draw| {
        held(draw)
            .until(condition::HELD, reason::ROLLOUT_HELD)
            .after(draw.pause(0), scale(0))
            .after(draw.pause(4000), scale(4))
            .wait(draw.pause(4000))
            .resume()
    }),
    // The rollout is scaled before its pause point, so that only pods with a point are left, and again during
    // the hold.
    Scenario("scaled-at-a-point", |draw| {
        let spec = json!({"replicas": 5, "strategy": draw.bounds()});
        let (place, point) = (draw.place(3, 4), draw.point());
        web(draw, &spec)
            .ranked(5)
            .point(Any(place), point)
            .rollout(draw)
            .after(draw.pause(500), scale(draw.of(&[2, 3, 1])))
            .when_held(scale(draw.of(&[4, 1, 6])))
            .after(draw.pause(2000), scale(draw.of(&[1, 3])))
            .wait(draw.pause(2000))
            .resume()
    }),
    // The hold at the only pause point stays after its pod is deleted.
    Scenario("scaled-to-zero-with-a-point", |draw| {
        let (place, bounds) = (draw.place(2, 4), draw.bounds());
        web(draw, &json!({"strategy": bounds}))
            .ranked(4)
            .point(Any(place), "before")
            .rollout(draw)
            .after(draw.pause(200), scale(0))
            .after(draw.pause(4000), scale(4))
            .resume()
    }),
    // A timed hold, which is scaled, also to zero.
    Scenario("timed-held-scaled", |draw| {
        let spec = json!({"strategy": draw.bounds()});
        let (place, point, lasts) = (draw.place(1, 3), draw.point(), draw.of(&["30s", "5s", "2m"]));
        let pod = Any(place);
        web(draw, &spec)
            .ranked(4)
            .point(pod, point)
            .after(0, annotate(pod, annotation::PAUSE_DURATION, Some(lasts)))
            .rollout(draw)
            .after(draw.pause(3000), scale(draw.of(&[6, 2, 0])))
            .after(draw.pause(4000), scale(draw.of(&[0, 3, 1])))
            .after(draw.pause(4000), scale(4))
            .wait(130_000)
    }),
    Scenario("held-undone", |draw| held(draw).after(draw.pause(0), image("web:1"))),
    // A pod that still has its annotation holds the next rollout.
    Scenario("held-third-template", |draw| {
        line(draw).point(Any(draw.of(&[1, 2, 3])), "before").rollout(draw).when_held(image("web:3")).resume()
    }),
    Scenario("held-and-paused", |draw| {
        held(draw)
            .after(draw.pause(0), pause(true))
            .after(draw.pause(1000), scale(draw.of(&[5, 3])))
            .resume()
            .after(draw.pause(2000), pause(false))
    }),
    Scenario("held-bounds", |draw| {
        let to = |surge: u32, unavailable: u32| {
            PatchSpec(
                json!({"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}),
            )
        };
        held(draw)
            .after(draw.pause(0), to(3, 0))
            .after(draw.pause(2000), to(0, draw.of(&[2, 4])))
            .wait(draw.pause(2000))
            .resume()
    }),
];
