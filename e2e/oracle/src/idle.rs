//! What a decision that changes nothing must not leave undone.

use ordereddeployment_api::UnavailablePods;
use ordereddeployment_api::names::{condition, reason};

use crate::Violation;
use crate::history::History;
use crate::view::{View, count, is_true};

/// The rules that an idle decision breaks. `is_final`: the controller waits for nothing: no pod, no timer, no
/// resume. `refused`: pods cannot be created.
pub fn check_idle(history: &History, view: &View<'_>, is_final: bool, refused: bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut add = |oracle, message: String| violations.push(Violation { rule: "L1", oracle, message });
    if is_final {
        if let Some(message) = undone(history, view, refused) {
            add("idle::progress", message);
        }
        // After a rollout no deadline runs: for unready pods of the current template there is nothing to do.
        let is_over = view.old().next().is_none() && count(view.pods.len()) == view.desired;
        let is_reported =
            [condition::COMPLETE, condition::STALLED, condition::REPLICA_FAILURE, condition::HELD]
                .into_iter()
                .any(|type_| is_true(view.status, type_));
        let is_paused = view.snapshot.deployment.spec.paused || view.desired == 0;
        if !is_reported && !is_over && !is_paused {
            add("idle::reported", "the rollout has stopped, and no condition says why".to_owned());
        }
        if view.status.hold.is_some() {
            add("idle::resumes", "no resume ends the hold".to_owned());
        }
    }
    violations
}

/// What remains to be done by the contract.
fn undone(history: &History, view: &View<'_>, refused: bool) -> Option<String> {
    if view.aborts && view.current.is_empty() {
        return None;
    }
    let pods = count(view.pods.len());
    if view.desired == 0 {
        return (pods > 0).then(|| format!("{pods} pods are left, D is 0"));
    }
    // A point keeps old pods, and there is no revision to make them of: the condition must say so.
    let stalled = view.status.condition(condition::STALLED);
    let is_told = stalled.is_some_and(|found| found.reason == reason::NO_EARLIER_REVISION);
    let is_kept = history.limit(view).is_some_and(|limit| view.updated() >= limit)
        && history.last_other(view).is_none()
        && is_told;
    let missing = pods < view.desired && !refused && view.terminating() == 0 && !view.recreates() && !is_kept;
    let is_alone = view.old().next().is_none() && history.limit(view).is_none();
    let surplus = is_alone && pods > view.desired;
    if surplus || missing {
        return Some(format!("{pods} pods, D is {}", view.desired));
    }
    // With an exhausted quota, deleting an unavailable old pod makes room.
    let spec = &view.snapshot.deployment.spec;
    let in_order =
        spec.deletion_order.as_ref().is_some_and(|order| order.unavailable_pods == UnavailablePods::InOrder);
    let goes_on = !in_order && !spec.paused && history.limit(view).is_none() && !view.has_invalid_points;
    let goes_on = goes_on && view.reliable() > view.floor;
    let room = view.old().find(|active| !active.available).filter(|_| goes_on && history.is_rollout);
    room.map(|active| format!("the unavailable pod {} is left, and nothing is ahead", active.pod.name))
}
