//! Rollouts that halt at pause points.

use ordereddeployment_api::names::{annotation, condition, reason};
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::story::{Draw, NOTHING, Story, annotate, prioritise};
use crate::case::{Act, Case, Ends, Pick, Resumption};

/// Four pods in a line.
fn line(name: &str, draw: &mut Draw<'_>) -> Story {
    let spec = json!({"strategy": draw.bounds()});
    Story::of(name, draw, &spec).ranked(4)
}

pub(super) fn before(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let place = draw.place(1, 4);
    line("hold-before", draw).point(Pick::Any(place), "before").rollout(draw).resumed().end()
}

pub(super) fn after(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let place = draw.place(1, 3);
    line("hold-after", draw).point(Pick::Any(place), "after").rollout(draw).resumed().end()
}

pub(super) fn first(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let point = draw.point();
    line("hold-at-the-first", draw).point(Pick::Any(0), point).rollout(draw).resumed().end()
}

/// After the last one there is nothing to hold.
pub(super) fn last(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let story = line("hold-at-the-last", draw).point(Pick::Any(3), "before").rollout(draw).resumed();
    story
        .complete(annotate(Pick::Any(0), annotation::PAUSE_POINT, Some("after")))
        .after(0, prioritise(Pick::Any(0), -5))
        .after(0, super::story::image("web:3"))
        .end()
}

pub(super) fn timed(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let (place, point, lasts) = (draw.place(1, 3), draw.point(), draw.of(&["20s", "1ms", "3m0.5s"]));
    line("hold-timed", draw)
        .point(Pick::Any(place), point)
        .after(0, annotate(Pick::Any(place), annotation::PAUSE_DURATION, Some(lasts)))
        .rollout(draw)
        .after(200_000, NOTHING)
        .end()
}

/// The time is changed while it runs; once to none at all.
pub(super) fn duration_edited(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let lasts = |lasts: Option<&str>| annotate(Pick::Held, annotation::PAUSE_DURATION, lasts);
    line("hold-duration-edited", draw)
        .point(Pick::Any(1), "before")
        .after(0, annotate(Pick::Any(1), annotation::PAUSE_DURATION, Some("1h")))
        .rollout(draw)
        .held(lasts(Some(draw.of(&["2h", "garbage", "-3s"]))))
        .after(draw.pause(500), lasts(None))
        .after(draw.pause(500), lasts(Some("30s")))
        .end()
}

pub(super) fn in_a_row(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let (one, other, last) = (draw.point(), draw.point(), draw.of(&["before", "true"]));
    line("hold-in-a-row", draw)
        .point(Pick::Any(0), one)
        .point(Pick::Any(1), other)
        .point(Pick::Any(3), last)
        .rollout(draw)
        .resumed()
        .resumed()
        .resumed()
        .end()
}

/// What a hold leaves deleted is not refilled.
pub(super) fn under_recreate(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let (place, point) = (draw.place(2, 3), draw.point());
    Story::of("hold-under-recreate", draw, &json!({"strategy": {"type": "Recreate"}}))
        .ranked(4)
        .point(Pick::Any(place), point)
        .rollout(draw)
        .resumed()
        .end()
}

/// Only an unready pod behind the barrier could go.
pub(super) fn blocked(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let unready = Pick::Any(draw.of(&[3, 2, 1]));
    to_blocked("blocked", draw, unready)
        .told(condition::STALLED, reason::BLOCKED, Act::Ready(unready, true))
        .resumed()
        .end()
}

/// By its id, while the pod in the way stays as it is.
pub(super) fn blocked_and_resumed(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let unready = Pick::Any(draw.of(&[3, 2, 1]));
    to_blocked("blocked-resumed", draw, unready)
        .told(condition::STALLED, reason::BLOCKED, Act::Resume(Resumption::At(Pick::Any(1))))
        .end()
}

/// The rollout cannot reach its point: only a pod at or behind it is unavailable.
fn to_blocked(name: &str, draw: &mut Draw<'_>, unready: Pick) -> Story {
    let spec = json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
    Story::of(name, draw, &spec)
        .ranked(4)
        .point(Pick::Any(1), "before")
        .after(0, Act::Ready(unready, false))
        .rollout(draw)
}

/// Nobody resumes it.
pub(super) fn for_ever(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let (place, point) = (draw.place(1, 3), draw.point());
    line("hold-for-ever", draw).point(Pick::Any(place), point).rollout(draw).held(NOTHING).ends(Ends::Held)
}

/// In the midst of the rollout.
pub(super) fn point_added(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    line("point-added", draw)
        .rollout(draw)
        .updated(1, NOTHING)
        .after(
            draw.pause(0),
            annotate(Pick::Old(draw.of(&[2, 1, 0])), annotation::PAUSE_POINT, Some("before")),
        )
        .after(draw.pause(5000), Act::Resume(Resumption::Current))
        .after(60_000, Act::Resume(Resumption::All))
        .end()
}

/// Of the held pod: that ends the hold. The other one before it is reached.
pub(super) fn point_removed(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let gone = |pick| annotate(pick, annotation::PAUSE_POINT, None);
    line("point-removed", draw)
        .point(Pick::Any(1), "before")
        .point(Pick::Any(3), draw.point())
        .rollout(draw)
        .held(gone(Pick::Old(2)))
        .after(draw.pause(500), gone(Pick::Held))
        .end()
}

/// Of the held pod: that keeps the hold.
pub(super) fn point_malformed(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    line("point-malformed", draw)
        .point(Pick::Any(1), "before")
        .point(Pick::Any(2), "sometimes")
        .rollout(draw)
        .held(annotate(
            Pick::Held,
            annotation::PAUSE_POINT,
            Some(draw.of(&["Before", "", "nonsense", "ａｆｔｅｒ"])),
        ))
        .after(draw.pause(2000), NOTHING)
        .resumed()
        .end()
}

/// The held pod is gone; the hold outlives it.
pub(super) fn pod_lost(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let how: fn(Pick) -> Act = if draw.of(&[false, true]) { Act::DeletePod } else { Act::KillPod };
    line("held-pod-lost", draw)
        .point(Pick::Any(draw.of(&[1, 2])), "before")
        .rollout(draw)
        .held(how(Pick::Held))
        .after(draw.pause(5000), NOTHING)
        .resumed()
        .end()
}

/// A pod with a point not yet reached is gone.
pub(super) fn point_lost(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let change: Value = json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    Story::of("point-lost", draw, &change)
        .ranked(4)
        .point(Pick::Any(0), "before")
        .point(Pick::Any(2), draw.point())
        .rollout(draw)
        .held(Act::KillPod(Pick::Old(2)))
        .after(draw.pause(3000), NOTHING)
        .resumed()
        .end()
}
