//! Rollouts with pause points.

use super::builder::prelude::*;

/// The rollout cannot reach its point: only a pod at or behind the point is unavailable.
fn to_blocked(draw: &mut Draw<'_>, unready: PodSelector) -> ScenarioBuilder {
    let spec = json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
    web(draw, &spec).ranked(4).point(Any(1), "before").after(0, SetReady(unready, false)).rollout(draw)
}

/// The scenarios of this file.
pub(super) const ALL: &[Scenario] = &[
    Scenario("hold-before", |draw| {
        let place = draw.place(1, 4);
        line(draw).point(Any(place), "before").rollout(draw).resume()
    }),
    Scenario("hold-after", |draw| {
        let place = draw.place(1, 3);
        line(draw).point(Any(place), "after").rollout(draw).resume()
    }),
    Scenario("hold-at-the-first", |draw| {
        let point = draw.point();
        line(draw).point(Any(0), point).rollout(draw).resume()
    }),
    // A point `after` at the last pod holds nothing.
    Scenario("hold-at-the-last", |draw| {
        let builder = line(draw).point(Any(3), "before").rollout(draw).resume();
        builder
            .when_complete(annotate(Any(0), annotation::PAUSE_POINT, Some("after")))
            .after(0, prioritise(Any(0), -5))
            .after(0, image("web:3"))
    }),
    Scenario("hold-timed", |draw| {
        let (place, point, lasts) = (draw.place(1, 3), draw.point(), draw.of(&["20s", "1ms", "3m0.5s"]));
        line(draw)
            .point(Any(place), point)
            .after(0, annotate(Any(place), annotation::PAUSE_DURATION, Some(lasts)))
            .rollout(draw)
            .wait(200_000)
    }),
    // The duration of the hold is changed and removed during the hold.
    Scenario("hold-duration-edited", |draw| {
        let lasts = |lasts: Option<&str>| annotate(Held, annotation::PAUSE_DURATION, lasts);
        line(draw)
            .point(Any(1), "before")
            .after(0, annotate(Any(1), annotation::PAUSE_DURATION, Some("1h")))
            .rollout(draw)
            .when_held(lasts(Some(draw.of(&["2h", "garbage", "-3s"]))))
            .after(draw.pause(500), lasts(None))
            .after(draw.pause(500), lasts(Some("30s")))
    }),
    Scenario("hold-in-a-row", |draw| {
        let (one, other, last) = (draw.point(), draw.point(), draw.of(&["before", "true"]));
        line(draw)
            .point(Any(0), one)
            .point(Any(1), other)
            .point(Any(3), last)
            .rollout(draw)
            .resume()
            .resume()
            .resume()
    }),
    // Recreate does not replace deleted pods during a hold.
    Scenario("hold-under-recreate", |draw| {
        let (place, point) = (draw.place(2, 3), draw.point());
        web(draw, &json!({"strategy": {"type": "Recreate"}}))
            .ranked(4)
            .point(Any(place), point)
            .rollout(draw)
            .resume()
    }),
    // The rollout is blocked: only an unready pod behind the barrier can be deleted.
    Scenario("blocked", |draw| {
        let unready = Any(draw.of(&[3, 2, 1]));
        to_blocked(draw, unready)
            .reason(condition::STALLED, reason::BLOCKED, SetReady(unready, true))
            .resume()
    }),
    // A user resumes the blocked point by its ID, while the pod stays unready.
    Scenario("blocked-resumed", |draw| {
        let unready = Any(draw.of(&[3, 2, 1]));
        to_blocked(draw, unready).reason(condition::STALLED, reason::BLOCKED, Resume(AtPod(Any(1))))
    }),
    // The hold is not resumed.
    Scenario("hold-never-resumed", |draw| {
        let (place, point) = (draw.place(1, 3), draw.point());
        line(draw).point(Any(place), point).rollout(draw).when_held(NoAction).ends(Outcome::Held)
    }),
    // A pause point is added during the rollout.
    Scenario("point-added", |draw| {
        line(draw)
            .rollout(draw)
            .when_updated(1, NoAction)
            .after(draw.pause(0), annotate(Old(draw.of(&[2, 1, 0])), annotation::PAUSE_POINT, Some("before")))
            .after(draw.pause(5000), Resume(Current))
            .after(60_000, Resume(All))
    }),
    // The pause point of the held pod is removed, which ends the hold. Another point is removed before it is
    // reached.
    Scenario("point-removed", |draw| {
        let remove_point = |selector| annotate(selector, annotation::PAUSE_POINT, None);
        line(draw)
            .point(Any(1), "before")
            .point(Any(3), draw.point())
            .rollout(draw)
            .when_held(remove_point(Old(2)))
            .after(draw.pause(500), remove_point(Held))
    }),
    // The pause point of the held pod gets an invalid value, which keeps the hold.
    Scenario("point-malformed", |draw| {
        line(draw)
            .point(Any(1), "before")
            .point(Any(2), "sometimes")
            .rollout(draw)
            .when_held(annotate(
                Held,
                annotation::PAUSE_POINT,
                Some(draw.of(&["Before", "", "nonsense", "ａｆｔｅｒ"])),
            ))
            .wait(draw.pause(2000))
            .resume()
    }),
    // The held pod is deleted; the hold stays.
    Scenario("held-pod-lost", |draw| {
        let delete: fn(PodSelector) -> UserAction =
            if draw.of(&[false, true]) { DeletePod } else { ForceDeletePod };
        line(draw)
            .point(Any(draw.of(&[1, 2])), "before")
            .rollout(draw)
            .when_held(delete(Held))
            .wait(draw.pause(5000))
            .resume()
    }),
    // A pod is deleted before its point is reached; the rollout is still held there.
    Scenario("point-lost", |draw| {
        let change: Value = json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
        web(draw, &change)
            .ranked(4)
            .point(Any(0), "before")
            .point(Any(2), draw.point())
            .rollout(draw)
            .when_held(ForceDeletePod(Old(2)))
            .wait(draw.pause(3000))
            .resume()
            .resume()
    }),
];
