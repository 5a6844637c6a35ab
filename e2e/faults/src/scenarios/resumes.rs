//! Resume requests: in time, early, late and invalid.

use rand::rngs::StdRng;
use serde_json::json;

use super::builder::{Draw, NO_ACTION, ScenarioBuilder};
use crate::case::{Case, PodSelector, ResumeRequest, UserAction};

/// Four pods with descending priorities and pause points at the second and the fourth.
fn two_points(name: &str, draw: &mut Draw<'_>) -> ScenarioBuilder {
    let spec = json!({"strategy": draw.bounds()});
    let points = [draw.of(&["before", "after"]), draw.of(&["before", "true"])];
    ScenarioBuilder::of(name, draw, &spec)
        .ranked(4)
        .point(PodSelector::Any(1), points[0])
        .point(PodSelector::Any(3), points[1])
        .rollout(draw)
}

fn resume(request: ResumeRequest) -> UserAction {
    UserAction::Resume(request)
}

/// A request for a hold that does not exist yet is dropped. The hold begins later.
pub(super) fn early(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    two_points("resume-early", draw)
        .after(draw.pause(0), resume(ResumeRequest::AtPod(PodSelector::Old(1))))
        .when_held(resume(ResumeRequest::AtPod(PodSelector::Old(1))))
        .after(draw.pause(3000), NO_ACTION)
        .resume()
        .after(20_000, resume(ResumeRequest::Current))
        .build()
}

/// The second request names a passed point.
pub(super) fn twice(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    two_points("resume-twice", draw)
        .resume()
        .after(draw.pause(0), resume(ResumeRequest::Previous))
        .after(draw.pause(200), resume(ResumeRequest::Previous))
        .after(20_000, NO_ACTION)
        .resume()
        .build()
}

/// A request that names the previous hold does not end the current one.
pub(super) fn stale(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    two_points("resume-stale", draw)
        .resume()
        .after(20_000, NO_ACTION)
        .when_held(resume(ResumeRequest::Previous))
        .after(draw.pause(3000), NO_ACTION)
        .resume()
        .build()
}

/// A request passes all points.
pub(super) fn all(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    two_points("resume-all", draw)
        .when_held(resume(ResumeRequest::Raw(draw.of(&["*@1", "*@3", "*"]).to_owned())))
        .after(draw.pause(2000), NO_ACTION)
        .when_held(resume(ResumeRequest::All))
        .build()
}

pub(super) fn garbage(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let texts = ["", "@", "nothing@2", "web@2", "*@99999999999999999999", "*@２", "\u{0}", " ", "x@2\n*@2"];
    two_points("resume-garbage", draw)
        .when_held(resume(ResumeRequest::Raw(draw.of(&texts[1..]).to_owned())))
        .after(draw.pause(500), resume(ResumeRequest::Raw(draw.of(&texts).to_owned())))
        .after(draw.pause(2000), NO_ACTION)
        .when_held(resume(ResumeRequest::All))
        .build()
}

/// Requests are repeated while the next hold begins.
pub(super) fn racing(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let builder = two_points("resume-racing", draw).resume();
    let builder = (0..6).fold(builder, |builder, _| {
        builder
            .after(draw.pause(700), resume(ResumeRequest::Previous))
            .after(draw.pause(0), resume(ResumeRequest::AtPod(PodSelector::Old(0))))
    });
    builder
        .after(20_000, resume(ResumeRequest::Current))
        .after(20_000, resume(ResumeRequest::Current))
        .build()
}
