//! Rollouts that are aborted.

use ordereddeployment_api::names::{condition, reason};
use rand::rngs::StdRng;
use serde_json::json;

use super::builder::{Draw, NO_ACTION, ScenarioBuilder, image, prioritise, scale};
use crate::case::{Case, Outcome, PodSelector, ResumeRequest, UserAction};

/// A rollout that pauses after some updated pods.
fn rollout(name: &str, draw: &mut Draw<'_>) -> ScenarioBuilder {
    let mut strategy = draw.bounds();
    strategy["pausePoints"] = json!([{"name": "canary", "afterUpdated": draw.of(&[1, 2, 3])}]);
    let (place, point) = (draw.place(3, 4), draw.point());
    ScenarioBuilder::of(name, draw, &json!({"replicas": 4, "strategy": strategy}))
        .ranked(4)
        .point(PodSelector::Any(place), point)
        .rollout(draw)
}

/// The rollout stays aborted.
fn stays(builder: ScenarioBuilder) -> Case {
    builder.reason(condition::STALLED, reason::ABORTED, NO_ACTION).build_with(Outcome::Stalled)
}

/// A priority that is set before the request counts.
pub(super) fn held(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let builder = rollout("aborted-in-a-hold", draw).when_held(prioritise(PodSelector::Updated(0), 50));
    stays(builder.after(draw.pause(0), UserAction::Abort))
}

/// The rollout is aborted before it reaches a point, and the request is repeated.
pub(super) fn running(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let builder = rollout("aborted", draw).slow_pods().when_updated(1, UserAction::Abort);
    stays(builder.after(draw.pause(100), UserAction::Abort))
}

pub(super) fn retried(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    rollout("aborted-and-retried", draw)
        .when_held(UserAction::Abort)
        .reason(condition::STALLED, reason::ABORTED, NO_ACTION)
        .after(draw.pause(500), UserAction::Retry)
        .resume()
        .after(60_000, UserAction::Resume(ResumeRequest::All))
        .build()
}

pub(super) fn third_template(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    rollout("aborted-third-template", draw)
        .when_held(UserAction::Abort)
        .after(draw.pause(500), image(draw.of(&["web:3", "web:1"])))
        .after(60_000, UserAction::Resume(ResumeRequest::All))
        .build()
}

pub(super) fn scaled(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let builder = rollout("aborted-and-scaled", draw)
        .when_held(UserAction::Abort)
        .after(draw.pause(100), scale(draw.of(&[8, 3, 0])))
        .after(draw.pause(1000), scale(draw.of(&[5, 1, 7])));
    stays(builder)
}

pub(super) fn by_the_deadline(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let spec = json!({
        "replicas": 4, "strategy": draw.bounds(), "progressDeadlineSeconds": 30, "progressDeadlineAction": "Abort",
    });
    let builder =
        ScenarioBuilder::of("aborted-by-the-deadline", draw, &spec).after(draw.pause(50), image("broken:2"));
    stays(builder)
}

/// One user resumes while another aborts: whichever comes first.
pub(super) fn racing_a_resume(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    rollout("aborted-and-resumed", draw)
        .when_held(UserAction::Resume(ResumeRequest::Current))
        .after(draw.pause(0), UserAction::Abort)
        .after(draw.pause(0), UserAction::Resume(ResumeRequest::All))
        .after(60_000, NO_ACTION)
        .build_with(Outcome::Any)
}
