//! S11: what is stored follows from what was seen: how a hold may begin, change and end, and counts that are not ahead.

use ordereddeployment_api::names::{annotation, condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeploymentStatus, PausePoint, validate};
use ordereddeployment_planner::{Decision, Point};
use serde_json::Value;

use super::Violation;
use super::history::{History, Kind, Write, found};
use super::view::{View, has_begun};
use crate::log::Decided;

fn status(object: &Value) -> OrderedDeploymentStatus {
    serde_json::from_value(object["status"].clone()).unwrap_or_default()
}

/// Each status that a controller stored: what it was before, what it is, and the decision.
fn each<'a>(
    history: &History<'a>,
    mut check: impl FnMut(&Decided, &OrderedDeploymentStatus, &OrderedDeploymentStatus) -> Option<String>,
) -> Vec<Violation> {
    let stored = history.committed().filter(|(_, write)| write.kind == Kind::Status && !write.is_late);
    let wrong = stored.filter_map(|(commit, write): (_, &Write<'a>)| {
        let decided = history.decided(write.decision?);
        let words = check(decided, &status(commit.previous.as_ref()?), &status(&commit.object))?;
        Some(found("S11", commit.at, words))
    });
    wrong.collect()
}

/// S11: the status speaks of nothing that the decision had not seen.
pub(super) fn never_ahead(history: &History<'_>) -> Vec<Violation> {
    each(history, |decided, before, after| {
        let deployment = &decided.observed.deployment;
        let moved = before.observed_generation != after.observed_generation;
        if moved && after.observed_generation > deployment.metadata.generation {
            return Some(format!(
                "observedGeneration {:?} was stored where {:?} was seen",
                after.observed_generation, deployment.metadata.generation
            ));
        }
        if !is_looked_at(decided) {
            return None;
        }
        let view = View::of(&decided.observed);
        let counts = [
            ("replicas", after.replicas, super::view::count(view.pods.len())),
            ("updatedReplicas", after.updated_replicas, view.updated()),
            ("readyReplicas", after.ready_replicas, view.ready()),
            ("availableReplicas", after.available_replicas, view.available()),
            ("terminatingReplicas", after.terminating_replicas, view.terminating()),
        ];
        let wrong = counts.into_iter().find(|(_, told, seen)| told.map(i64::from) != Some(*seen));
        wrong.map(|(field, told, seen)| format!("{field} {told:?} was stored where {seen} were seen"))
    })
}

/// S11: conditions say what was seen: that all is done, that enough pods are available, that it is held.
pub(super) fn conditions(history: &History<'_>) -> Vec<Violation> {
    each(history, |decided, _, after| {
        let annotations = decided.observed.deployment.metadata.annotations.iter().flatten();
        if !is_looked_at(decided) || annotations.into_iter().any(|(key, _)| key == annotation::HANDING_BACK) {
            return None;
        }
        let view = View::of(&decided.observed);
        let done = view.old().next().is_none()
            && after.hold.is_none()
            && view.updated() == view.desired
            && view.updated_available() == view.desired;
        let floor = if view.recreates() { view.desired } else { view.floor };
        let held = after.hold.as_ref().is_some_and(|hold| !has_begun(hold));
        let all = [
            (condition::COMPLETE, done),
            (condition::AVAILABLE, view.available() >= floor),
            (condition::HELD, held),
        ];
        let says = |type_: &str| Some(after.condition(type_)?.status == ConditionStatus::True);
        let wrong = all.into_iter().find(|(type_, is)| says(type_) != Some(*is));
        wrong.map(|(type_, is)| format!("{type_} is told to be {:?} where it is {is}", says(type_)))
    })
}

/// Whether all pods were counted for that decision: of a spec that is invalid nothing is looked at.
fn is_looked_at(decided: &Decided) -> bool {
    matches!(decided.decision, Decision::Act(_)) && validate(&decided.observed.deployment.spec).is_empty()
}

/// S11: a hold begins at the barrier, one at a time, and ends only as the contract says.
pub(super) fn transitions(history: &History<'_>) -> Vec<Violation> {
    each(history, |decided, before, after| {
        let hash = |status: &OrderedDeploymentStatus| {
            status.rollout.as_ref().map(|rollout| rollout.template_hash.clone())
        };
        let revision =
            |status: &OrderedDeploymentStatus| status.rollout.as_ref().map_or(0, |rollout| rollout.revision);
        let is_renamed = before.collision_count != after.collision_count;
        // Another set of the same template may be the oldest from now on: that is another rollout of the same revision.
        if revision(after) != revision(before) || (!is_renamed && hash(after) != hash(before)) {
            let cleared = (&after.hold, &after.passed, &after.resume_requested) == (&None, &None, &None);
            return (!cleared || hash(before) == hash(after))
                .then(|| "a new rollout does not begin with a clear status".to_owned());
        }
        if is_renamed {
            let same = (&before.hold, &before.passed) == (&after.hold, &after.passed);
            return (!same).then(|| "another name of a set is no other rollout".to_owned());
        }
        let view = View::of(&decided.observed);
        let requested = before.resume_requested.as_deref();
        let named = before.hold.as_ref().is_some_and(|hold| Some(hold.id.as_str()) == requested);
        let all = requested == Some(&format!("*@{}", revision(before)));
        let answered = named || all;
        if requested.is_some() && after.resume_requested.is_some() {
            return Some("a request to resume is not answered in one write".to_owned());
        }
        let blocked = blocked_pod(&view, before, requested);
        let expired = before.hold.as_ref().filter(|hold| may_end(&view, hold));
        let ended = [expired.map(|hold| hold.pod_uid.as_str()), blocked.as_deref()];
        passed(before, after, named, all, ended).or_else(|| held(&view, before, after, answered))
    })
}

/// The pod of the point at which the rollout is told to be blocked, where the request names it.
fn blocked_pod(view: &View<'_>, before: &OrderedDeploymentStatus, requested: Option<&str>) -> Option<String> {
    let stalled = before.condition(condition::STALLED)?;
    let stands = stalled.status == ConditionStatus::True && stalled.reason == reason::BLOCKED;
    before.blocked.as_ref().filter(|blocked| stands && Some(blocked.id.as_str()) == requested)?;
    let (at, ..) = view.barrier()?;
    view.old().nth(at).map(|member| member.pod.facts.uid.to_string())
}

/// Points are passed by a request that names the hold, or all of the revision, or by the end of its time.
fn passed(
    before: &OrderedDeploymentStatus,
    after: &OrderedDeploymentStatus,
    named: bool,
    all: bool,
    ended: [Option<&str>; 2],
) -> Option<String> {
    let earlier = before.passed.clone().unwrap_or_default();
    let held = before.hold.as_ref().map(|hold| hold.pod_uid.as_str());
    let mut new = after.passed.iter().flatten().filter(|passed| !earlier.contains(passed));
    let wrong = new.find(|passed| {
        let uid = passed.pod_uid.as_str();
        let by_request = named && held == Some(uid) || all && uid == "*";
        !by_request && !ended.contains(&Some(uid))
    });
    wrong.map(|passed| format!("{} was passed, which nobody asked for", passed.pod_uid))
}

fn held(
    view: &View<'_>,
    before: &OrderedDeploymentStatus,
    after: &OrderedDeploymentStatus,
    answered: bool,
) -> Option<String> {
    match (&before.hold, &after.hold) {
        (Some(hold), None) => {
            (!answered && !may_end(view, hold)).then(|| format!("the hold {} ended by itself", hold.id))
        }
        (Some(hold), Some(next)) => {
            let again = (hold.point, &hold.id) != (next.point, &next.id);
            if has_begun(hold) && next.deleted != Some(true) && again {
                // Its pod is there still, and another point, or another side of it, is reached first.
                return begins(view, next);
            }
            if (&hold.id, &hold.pod_uid) != (&next.id, &next.pod_uid) {
                return Some(format!("the hold {} became {}", hold.id, next.id));
            }
            let there = view.pods.iter().any(|member| member.is(&hold.pod_uid));
            if next.deleted == Some(true) && hold.deleted != Some(true) && there {
                return Some(format!("{} is told to be deleted, and is there", hold.pod));
            }
            // One that loses its duration gives its surge up.
            let untimed = hold.until.is_some() && next.until.is_none();
            (!has_begun(hold) && !untimed && hold.sizes != next.sizes)
                .then(|| "the stored sizes changed".to_owned())
        }
        (None, Some(hold)) => begins(view, hold),
        (None, None) => None,
    }
}

/// Whether a hold may end with no request.
fn may_end(view: &View<'_>, hold: &ordereddeployment_api::Hold) -> bool {
    let observed = view.observed;
    let over = !has_begun(hold) && hold.until.as_ref().is_some_and(|until| until.0 <= observed.now);
    let pod = view.pods.iter().find(|member| member.is(&hold.pod_uid));
    let unmarked = pod.is_some_and(|member| member.pod.point == Point::None);
    let none_left = view.desired > 0 && view.old().next().is_none();
    observed.live && (over || unmarked) || none_left
}

fn begins(view: &View<'_>, hold: &ordereddeployment_api::Hold) -> Option<String> {
    let wrong = |words: &str| Some(format!("the hold {} began {words}", hold.id));
    let Some((at, side, _)) = view.barrier() else { return wrong("where no barrier stands") };
    let old: Vec<_> = view.old().collect();
    if !old.get(at).is_some_and(|member| member.is(&hold.pod_uid)) {
        return wrong("not at the barrier");
    }
    let rollout = view.status.rollout.as_ref();
    let scaled = rollout
        .is_some_and(|rollout| i64::from(rollout.replicas) != view.desired || rollout.scaled_from.is_some());
    if hold.point == PausePoint::Before && (scaled || view.desired == 0) {
        // Scaling would take the last pod with a point away.
        return None;
    }
    if hold.point != side {
        return wrong("on the wrong side of its pod");
    }
    if at > 0 {
        return wrong("while some are ahead of it");
    }
    let told = hold.point == PausePoint::After && hold.deleted != Some(false);
    if told { wrong("with its pod deleted") } else { None }
}
