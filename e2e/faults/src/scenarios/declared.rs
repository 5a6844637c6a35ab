//! Rollouts with declared pause points.

use super::builder::prelude::*;

/// Five pods with descending priorities and these points.
fn with_points(draw: &mut Draw<'_>, points: Value) -> ScenarioBuilder {
    let mut strategy = draw.bounds();
    strategy["pausePoints"] = points;
    web(draw, &json!({"replicas": 5, "strategy": strategy})).ranked(5)
}

fn points(points: &Value) -> UserAction {
    PatchSpec(json!({"strategy": {"pausePoints": points}}))
}

/// The scenarios of this file.
pub(super) const ALL: &[Scenario] = &[
    Scenario("declared-numbers", |draw| {
        let canary = draw.of(&[1, 2]);
        let points =
            json!([{"name": "canary", "afterUpdated": canary}, {"name": "half", "afterUpdated": "50%"}]);
        with_points(draw, points).rollout(draw).resume().resume()
    }),
    // Places in the order, and a pod with a point of its own.
    Scenario("declared-places", |draw| {
        let points = json!([
            {"name": "low", "beforePriority": draw.of(&[30, 20])},
            {"name": "pool", "beforeNodes": {"matchLabels": {"node.usage": "hybrid"}}},
        ]);
        let (place, point) = (draw.place(3, 5), draw.point());
        with_points(draw, points)
            .point(Any(place), point)
            .rollout(draw)
            .resume()
            .after(60_000, Resume(Current))
            .after(60_000, Resume(All))
    }),
    Scenario("declared-groups", |draw| {
        let mut strategy = draw.bounds();
        strategy["pausePoints"] = json!([{"name": "each-pool", "betweenNodeGroups": "node.usage"}]);
        web(draw, &json!({"replicas": 6, "strategy": strategy})).rollout(draw).resume()
    }),
    Scenario("declared-timed", |draw| {
        let lasts = draw.of(&["20s", "1ms", "3m0.5s"]);
        let points = json!([{"name": "canary", "afterUpdated": 1, "duration": lasts}]);
        with_points(draw, points).rollout(draw).wait(200_000)
    }),
    Scenario("declared-under-recreate", |draw| {
        let strategy = json!({"type": "Recreate", "pausePoints": [{"name": "low", "beforePriority": 30}]});
        web(draw, &json!({"replicas": 6, "strategy": strategy})).ranked(6).rollout(draw).resume()
    }),
    // The rollout is scaled before its point, and in the hold.
    Scenario("declared-scaled", |draw| {
        let points = json!([{"name": "half", "afterUpdated": draw.of(&["50%", "30%", "80%"])}]);
        with_points(draw, points)
            .rollout(draw)
            .after(draw.pause(500), scale(draw.of(&[8, 4, 3])))
            .when_held(scale(draw.of(&[5, 9, 2])))
            .wait(draw.pause(2000))
            .resume()
    }),
    // The rollout is suspended without pods, and goes on afterwards.
    Scenario("declared-scaled-to-zero-and-back", |draw| {
        let points = json!([{"name": "half", "afterUpdated": "50%"}]);
        with_points(draw, points)
            .rollout(draw)
            .after(draw.pause(500), scale(0))
            .after(draw.pause(4000), scale(draw.of(&[5, 4, 7])))
            .resume()
    }),
    // The held point is edited and removed, others are added.
    Scenario("declared-edited", |draw| {
        let before = json!([{"name": "canary", "afterUpdated": 2}]);
        let more = json!([
            {"name": "one", "afterUpdated": 1}, {"name": "canary", "afterUpdated": 4}, {"name": "low",
            "beforePriority": 10},
        ]);
        with_points(draw, before)
            .rollout(draw)
            .when_held(points(&more))
            .after(draw.pause(1000), points(&json!([{"name": "low", "beforePriority": 10}])))
            .resume()
    }),
    // Old and updated pods are lost before the point and in the hold.
    Scenario("declared-pods-lost", |draw| {
        let points = json!([{"name": "canary", "afterUpdated": 2}]);
        with_points(draw, points)
            .slow_pods()
            .rollout(draw)
            .when_updated(1, ForceDeletePod(Old(draw.of(&[0, 1, 2]))))
            .after(draw.pause(500), DeletePod(Old(1)))
            .when_held(ForceDeletePod(Updated(0)))
            .after(draw.pause(500), ForceDeletePod(Old(0)))
            .wait(draw.pause(3000))
            .resume()
    }),
    // A request is repeated: it passes no other point.
    Scenario("declared-resumed-twice", |draw| {
        let points = json!([{"name": "canary", "afterUpdated": 1}, {"name": "half", "afterUpdated": "50%"}]);
        with_points(draw, points)
            .rollout(draw)
            .resume()
            .after(draw.pause(0), Resume(Previous))
            .when_held(Resume(Previous))
            .wait(draw.pause(3000))
            .resume()
    }),
];
