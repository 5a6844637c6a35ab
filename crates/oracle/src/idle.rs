//! What a decision that changes nothing must not leave undone.

use ordereddeployment_api::names::condition;
use ordereddeployment_api::{ConditionStatus, PausePoint};

use crate::Violation;
use crate::view::{View, count};

/// The rules that an idle decision breaks. `is_final`: the controller waits for nothing: no pod, no timer, no resume. `refused`: pods
/// cannot be created.
#[must_use]
pub fn check_idle(view: &View<'_>, is_final: bool, refused: bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut add = |oracle, message: String| violations.push(Violation { rule: "L1", oracle, message });
    if let Some(message) = surge(view) {
        add("idle::surge", message);
    }
    if is_final {
        if let Some(message) = undone(view, refused) {
            add("idle::progress", message);
        }
        let is_true = |type_: &str| {
            view.status.condition(type_).is_some_and(|found| found.status == ConditionStatus::True)
        };
        // After a rollout no deadline runs: for unready pods of the current template there is nothing to do.
        let is_over = view.old().next().is_none() && count(view.pods.len()) == view.desired;
        let is_reported =
            [condition::COMPLETE, condition::STALLED, condition::REPLICA_FAILURE].into_iter().any(is_true);
        if !is_reported && !is_over {
            add("idle::reported", "the rollout has stopped, and no condition says why".to_owned());
        }
        if view.held().is_some() {
            add("idle::resumes", "no resume ends the hold".to_owned());
        }
    }
    violations
}

/// Surge pods that a hold without a duration keeps.
fn surge(view: &View<'_>) -> Option<String> {
    let hold = view.untimed_hold()?;
    let old = count(view.old().count());
    let surplus = view.updated() - (view.desired - old).max(0);
    let may_delete =
        view.available() > view.floor || view.pods.iter().any(|one| one.updated && !one.available);
    // Sizes for another D follow other rules.
    let sizes_are_current = i64::from(hold.replicas) == view.desired && !view.snapshot.deployment.spec.paused;
    (surplus > 0 && may_delete && sizes_are_current && view.status.resume_requested.is_none())
        .then(|| format!("a hold keeps {surplus} surge pods"))
}

/// What remains to be done by the contract.
fn undone(view: &View<'_>, refused: bool) -> Option<String> {
    if view.keeps_sizes() || (view.aborts && view.current.is_empty()) {
        return None;
    }
    let old: Vec<_> = view.old().collect();
    let pods = count(view.pods.len());
    if view.desired == 0 {
        return (pods > 0).then(|| format!("{pods} pods are left, D is 0"));
    }
    if old.is_empty() {
        let surplus = pods > view.desired;
        let missing = pods < view.desired && !refused && view.terminating() == 0;
        return (surplus || missing).then(|| format!("{pods} pods, D is {}", view.desired));
    }
    let barrier = view.barrier();
    let number = view.declared_barrier().filter(|_| view.is_declared()).and_then(|point| point.updated);
    let waits = number.is_some_and(|updated| view.updated_available() < updated);
    let kept = view.most_updated().map_or(0, |most| view.desired - most);
    if count(old.len()) < kept && pods < view.ceiling && !refused {
        return Some("a lost old pod may be created again".to_owned());
    }
    let reached = match barrier {
        _ if waits => false,
        Some((0, PausePoint::Before, _)) => true,
        Some((0, PausePoint::After, begun)) => !begun,
        _ => false,
    };
    if reached && view.recreates() {
        return Some("a pause point is reached, and no hold is stored".to_owned());
    }
    let head = old.first().filter(|_| view.rollout_limit() > 0);
    if view.recreates() {
        return head.map(|head| format!("{} may be deleted", head.pod.name));
    }
    if pods < view.ceiling && view.updated() < view.wanted() && !refused {
        return Some("a pod may be created".to_owned());
    }
    if reached {
        return Some("a pause point is reached, and no hold is stored".to_owned());
    }
    let may = |available: bool| view.reliable() > view.floor && (!available || view.available() > view.floor);
    if let Some(head) = head.filter(|head| may(head.available)) {
        return Some(format!("{} may be deleted", head.pod.name));
    }
    let full = pods >= view.ceiling || view.updated() >= view.wanted() || refused;
    let behind = old.iter().take(view.rollout_limit()).find(|one| !one.available);
    let behind = behind.filter(|one| barrier.is_none_or(|(at, ..)| !old[at].is(&one.pod.facts.uid)));
    let allowed = full && (view.all_updated_available() || view.is_overdue()) && view.is_when_blocked();
    behind
        .filter(|_| allowed && may(false))
        .map(|one| format!("{} may be deleted out of order", one.pod.name))
}
