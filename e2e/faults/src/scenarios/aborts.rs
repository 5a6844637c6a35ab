//! Rollouts that are aborted.

use super::builder::prelude::*;

/// A rollout that pauses after some updated pods.
fn rollout(draw: &mut Draw<'_>) -> ScenarioBuilder {
    let mut strategy = draw.bounds();
    strategy["pausePoints"] = json!([{"name": "canary", "afterUpdated": draw.of(&[1, 2, 3])}]);
    let (place, point) = (draw.place(3, 4), draw.point());
    web(draw, &json!({"replicas": 4, "strategy": strategy})).ranked(4).point(Any(place), point).rollout(draw)
}

/// The rollout stays aborted.
fn stays(builder: ScenarioBuilder) -> ScenarioBuilder {
    builder.until(condition::STALLED, reason::ABORTED).ends(Outcome::Stalled)
}

/// The scenarios of this file.
pub(super) const ALL: &[Scenario] = &[
    // A priority that is set before the request counts.
    Scenario("aborted-in-a-hold", |draw| {
        stays(rollout(draw).when_held(prioritise(Updated(0), 50)).after(draw.pause(0), Abort))
    }),
    // The rollout is aborted before it reaches a point, and the request is repeated.
    Scenario("aborted", |draw| {
        stays(rollout(draw).slow_pods().when_updated(1, Abort).after(draw.pause(100), Abort))
    }),
    Scenario("aborted-and-retried", |draw| {
        rollout(draw)
            .when_held(Abort)
            .until(condition::STALLED, reason::ABORTED)
            .after(draw.pause(500), Retry)
            .resume()
            .after(60_000, Resume(All))
    }),
    Scenario("aborted-third-template", |draw| {
        rollout(draw)
            .when_held(Abort)
            .after(draw.pause(500), image(draw.of(&["web:3", "web:1"])))
            .after(60_000, Resume(All))
    }),
    Scenario("aborted-and-scaled", |draw| {
        let scaled = rollout(draw).when_held(Abort).after(draw.pause(100), scale(draw.of(&[8, 3, 0])));
        stays(scaled.after(draw.pause(1000), scale(draw.of(&[5, 1, 7]))))
    }),
    Scenario("aborted-by-the-deadline", |draw| {
        let spec = json!({
            "replicas": 4, "strategy": draw.bounds(), "progressDeadlineSeconds": 30,
            "progressDeadlineAction": "Abort",
        });
        stays(web(draw, &spec).after(draw.pause(50), image("broken:2")))
    }),
    // One user resumes while another aborts: whichever comes first.
    Scenario("aborted-and-resumed", |draw| {
        rollout(draw)
            .when_held(Resume(Current))
            .after(draw.pause(0), Abort)
            .after(draw.pause(0), Resume(All))
            .wait(60_000)
            .ends(Outcome::Any)
    }),
];
