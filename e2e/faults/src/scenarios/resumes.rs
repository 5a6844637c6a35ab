//! Resume requests: in time, early, late and invalid.

use super::builder::prelude::*;

/// Four pods with descending priorities and pause points at the second and the fourth.
fn two_points(draw: &mut Draw<'_>) -> ScenarioBuilder {
    let spec = json!({"strategy": draw.bounds()});
    let points = [draw.of(&["before", "after"]), draw.of(&["before", "true"])];
    web(draw, &spec).ranked(4).point(Any(1), points[0]).point(Any(3), points[1]).rollout(draw)
}

/// The scenarios of this file.
pub(super) const ALL: &[Scenario] = &[
    // A request for a hold that does not exist yet is dropped. The hold begins later.
    Scenario("resume-early", |draw| {
        two_points(draw)
            .after(draw.pause(0), Resume(AtPod(Old(1))))
            .when_held(Resume(AtPod(Old(1))))
            .wait(draw.pause(3000))
            .resume()
            .after(20_000, Resume(Current))
    }),
    // The second request names a passed point.
    Scenario("resume-twice", |draw| {
        two_points(draw)
            .resume()
            .after(draw.pause(0), Resume(Previous))
            .after(draw.pause(200), Resume(Previous))
            .wait(20_000)
            .resume()
    }),
    // A request that names the previous hold does not end the current one.
    Scenario("resume-stale", |draw| {
        two_points(draw).resume().wait(20_000).when_held(Resume(Previous)).wait(draw.pause(3000)).resume()
    }),
    // A request passes all points.
    Scenario("resume-all", |draw| {
        two_points(draw)
            .when_held(Resume(Raw(draw.of(&["*@1", "*@3", "*"]).to_owned())))
            .wait(draw.pause(2000))
            .when_held(Resume(All))
    }),
    Scenario("resume-garbage", |draw| {
        let texts =
            ["", "@", "nothing@2", "web@2", "*@99999999999999999999", "*@２", "\u{0}", " ", "x@2\n*@2"];
        two_points(draw)
            .when_held(Resume(Raw(draw.of(&texts[1..]).to_owned())))
            .after(draw.pause(500), Resume(Raw(draw.of(&texts).to_owned())))
            .wait(draw.pause(2000))
            .when_held(Resume(All))
    }),
    // Requests are repeated while the next hold begins.
    Scenario("resume-racing", |draw| {
        let builder = two_points(draw).resume();
        let builder = (0..6).fold(builder, |builder, _| {
            builder.after(draw.pause(700), Resume(Previous)).after(draw.pause(0), Resume(AtPod(Old(0))))
        });
        builder.after(20_000, Resume(Current)).after(20_000, Resume(Current))
    }),
];
