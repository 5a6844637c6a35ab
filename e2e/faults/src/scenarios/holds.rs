//! Rollouts with pause points.

use ordereddeployment_api::names::{annotation, condition, reason};
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::builder::{Draw, NO_ACTION, ScenarioBuilder, annotate, prioritise};
use crate::case::{Case, Outcome, PodSelector, ResumeRequest, UserAction};

/// Four pods with descending priorities.
fn line(name: &str, draw: &mut Draw<'_>) -> ScenarioBuilder {
    let spec = json!({"strategy": draw.bounds()});
    ScenarioBuilder::of(name, draw, &spec).ranked(4)
}

pub(super) fn before(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let place = draw.place(1, 4);
    line("hold-before", draw).point(PodSelector::Any(place), "before").rollout(draw).resume().build()
}

pub(super) fn after(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let place = draw.place(1, 3);
    line("hold-after", draw).point(PodSelector::Any(place), "after").rollout(draw).resume().build()
}

pub(super) fn first(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let point = draw.point();
    line("hold-at-the-first", draw).point(PodSelector::Any(0), point).rollout(draw).resume().build()
}

/// A point `after` at the last pod holds nothing.
pub(super) fn last(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let builder = line("hold-at-the-last", draw).point(PodSelector::Any(3), "before").rollout(draw).resume();
    builder
        .when_complete(annotate(PodSelector::Any(0), annotation::PAUSE_POINT, Some("after")))
        .after(0, prioritise(PodSelector::Any(0), -5))
        .after(0, super::builder::image("web:3"))
        .build()
}

pub(super) fn timed(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let (place, point, lasts) = (draw.place(1, 3), draw.point(), draw.of(&["20s", "1ms", "3m0.5s"]));
    line("hold-timed", draw)
        .point(PodSelector::Any(place), point)
        .after(0, annotate(PodSelector::Any(place), annotation::PAUSE_DURATION, Some(lasts)))
        .rollout(draw)
        .after(200_000, NO_ACTION)
        .build()
}

/// The duration of the hold is changed and removed during the hold.
pub(super) fn duration_edited(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let lasts = |lasts: Option<&str>| annotate(PodSelector::Held, annotation::PAUSE_DURATION, lasts);
    line("hold-duration-edited", draw)
        .point(PodSelector::Any(1), "before")
        .after(0, annotate(PodSelector::Any(1), annotation::PAUSE_DURATION, Some("1h")))
        .rollout(draw)
        .when_held(lasts(Some(draw.of(&["2h", "garbage", "-3s"]))))
        .after(draw.pause(500), lasts(None))
        .after(draw.pause(500), lasts(Some("30s")))
        .build()
}

pub(super) fn in_a_row(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let (one, other, last) = (draw.point(), draw.point(), draw.of(&["before", "true"]));
    line("hold-in-a-row", draw)
        .point(PodSelector::Any(0), one)
        .point(PodSelector::Any(1), other)
        .point(PodSelector::Any(3), last)
        .rollout(draw)
        .resume()
        .resume()
        .resume()
        .build()
}

/// Recreate does not replace deleted pods during a hold.
pub(super) fn under_recreate(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let (place, point) = (draw.place(2, 3), draw.point());
    ScenarioBuilder::of("hold-under-recreate", draw, &json!({"strategy": {"type": "Recreate"}}))
        .ranked(4)
        .point(PodSelector::Any(place), point)
        .rollout(draw)
        .resume()
        .build()
}

/// The rollout is blocked: only an unready pod behind the barrier can be deleted.
pub(super) fn blocked(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let unready = PodSelector::Any(draw.of(&[3, 2, 1]));
    to_blocked("blocked", draw, unready)
        .reason(condition::STALLED, reason::BLOCKED, UserAction::SetReady(unready, true))
        .resume()
        .build()
}

/// A user resumes the blocked point by its ID, while the pod stays unready.
pub(super) fn blocked_and_resumed(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let unready = PodSelector::Any(draw.of(&[3, 2, 1]));
    to_blocked("blocked-resumed", draw, unready)
        .reason(
            condition::STALLED,
            reason::BLOCKED,
            UserAction::Resume(ResumeRequest::AtPod(PodSelector::Any(1))),
        )
        .build()
}

/// The rollout cannot reach its point: only a pod at or behind the point is unavailable.
fn to_blocked(name: &str, draw: &mut Draw<'_>, unready: PodSelector) -> ScenarioBuilder {
    let spec = json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
    ScenarioBuilder::of(name, draw, &spec)
        .ranked(4)
        .point(PodSelector::Any(1), "before")
        .after(0, UserAction::SetReady(unready, false))
        .rollout(draw)
}

/// The hold is not resumed.
pub(super) fn never_resumed(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let (place, point) = (draw.place(1, 3), draw.point());
    line("hold-never-resumed", draw)
        .point(PodSelector::Any(place), point)
        .rollout(draw)
        .when_held(NO_ACTION)
        .build_with(Outcome::Held)
}

/// A pause point is added during the rollout.
pub(super) fn point_added(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    line("point-added", draw)
        .rollout(draw)
        .when_updated(1, NO_ACTION)
        .after(
            draw.pause(0),
            annotate(PodSelector::Old(draw.of(&[2, 1, 0])), annotation::PAUSE_POINT, Some("before")),
        )
        .after(draw.pause(5000), UserAction::Resume(ResumeRequest::Current))
        .after(60_000, UserAction::Resume(ResumeRequest::All))
        .build()
}

/// The pause point of the held pod is removed, which ends the hold. Another point is removed before it is reached.
pub(super) fn point_removed(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let remove_point = |selector| annotate(selector, annotation::PAUSE_POINT, None);
    line("point-removed", draw)
        .point(PodSelector::Any(1), "before")
        .point(PodSelector::Any(3), draw.point())
        .rollout(draw)
        .when_held(remove_point(PodSelector::Old(2)))
        .after(draw.pause(500), remove_point(PodSelector::Held))
        .build()
}

/// The pause point of the held pod gets an invalid value, which keeps the hold.
pub(super) fn point_malformed(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    line("point-malformed", draw)
        .point(PodSelector::Any(1), "before")
        .point(PodSelector::Any(2), "sometimes")
        .rollout(draw)
        .when_held(annotate(
            PodSelector::Held,
            annotation::PAUSE_POINT,
            Some(draw.of(&["Before", "", "nonsense", "ａｆｔｅｒ"])),
        ))
        .after(draw.pause(2000), NO_ACTION)
        .resume()
        .build()
}

/// The held pod is deleted; the hold stays.
pub(super) fn pod_lost(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let delete: fn(PodSelector) -> UserAction =
        if draw.of(&[false, true]) { UserAction::DeletePod } else { UserAction::ForceDeletePod };
    line("held-pod-lost", draw)
        .point(PodSelector::Any(draw.of(&[1, 2])), "before")
        .rollout(draw)
        .when_held(delete(PodSelector::Held))
        .after(draw.pause(5000), NO_ACTION)
        .resume()
        .build()
}

/// A pod is deleted before its point is reached; the rollout is still held there.
pub(super) fn point_lost(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let change: Value = json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    ScenarioBuilder::of("point-lost", draw, &change)
        .ranked(4)
        .point(PodSelector::Any(0), "before")
        .point(PodSelector::Any(2), draw.point())
        .rollout(draw)
        .when_held(UserAction::ForceDeletePod(PodSelector::Old(2)))
        .after(draw.pause(3000), NO_ACTION)
        .resume()
        .resume()
        .build()
}
