//! What may not be left undone: judged where a decision changes nothing.

use ordereddeployment_api::names::condition;
use ordereddeployment_api::{ConditionStatus, PausePoint};
use ordereddeployment_planner::Snapshot;

use crate::Wrong;
use crate::view::{View, count};

/// What is wrong with standing still on that observation. `for_good`: nothing is waited for any more, neither pods nor time nor a
/// resume. `refused`: pods cannot be created.
#[must_use]
pub fn rest(snapshot: &Snapshot, for_good: bool, refused: bool) -> Vec<Wrong> {
    let view = View::of(snapshot);
    let mut found = Vec::new();
    let mut wrong = |oracle, words: String| found.push(Wrong { rule: "L1", oracle, words });
    if let Some(words) = surge(&view) {
        wrong("rest::surge", words);
    }
    if for_good {
        if let Some(words) = undone(&view, refused) {
            wrong("rest::goes_on", words);
        }
        let says = |type_: &str| {
            view.status.condition(type_).is_some_and(|found| found.status == ConditionStatus::True)
        };
        // After a rollout no deadline runs: pods of the current template that are unready are nothing to act on.
        let is_over = view.old().next().is_none() && count(view.pods.len()) == view.desired;
        let told =
            [condition::COMPLETE, condition::STALLED, condition::REPLICA_FAILURE].into_iter().any(says);
        if !told && !is_over {
            wrong("rest::says_why", "it stands still for good, and no condition says why".to_owned());
        }
        if view.held().is_some() {
            wrong("rest::resumes", "a hold stands that no resume ends".to_owned());
        }
    }
    found
}

/// What a hold without a duration keeps though it has no use for it.
fn surge(view: &View<'_>) -> Option<String> {
    let hold = view.held_for_good()?;
    let old = count(view.old().count());
    let surplus = view.updated() - (view.desired - old).max(0);
    let may_go = view.available() > view.floor || view.pods.iter().any(|one| one.updated && !one.available);
    // Sizes for another D follow rules of their own.
    let is_settled = i64::from(hold.replicas) == view.desired && !view.snapshot.deployment.spec.paused;
    (surplus > 0 && may_go && is_settled && view.status.resume_requested.is_none())
        .then(|| format!("a hold keeps {surplus} pods more than it has use for"))
}

/// What the contract would have done.
fn undone(view: &View<'_>, refused: bool) -> Option<String> {
    if view.is_kept() {
        return None;
    }
    let old: Vec<_> = view.old().collect();
    let pods = count(view.pods.len());
    if view.desired == 0 {
        return (pods > 0).then(|| format!("{pods} pods are left, where D is 0"));
    }
    if old.is_empty() {
        let surplus = pods > view.desired;
        let missing = pods < view.desired && !refused && view.terminating() == 0;
        return (surplus || missing).then(|| format!("{pods} pods, where D is {}", view.desired));
    }
    let barrier = view.barrier();
    let reached = match barrier {
        Some((0, PausePoint::Before, _)) => true,
        Some((0, PausePoint::After, begun)) => !begun,
        _ => false,
    };
    if reached && view.recreates() {
        return Some("a pause point is reached and not stored".to_owned());
    }
    let head = old.first().filter(|_| view.may_go() > 0);
    if view.recreates() {
        return head.map(|head| format!("{} may go", head.pod.name));
    }
    if pods < view.ceiling && view.updated() < view.wanted() && !refused {
        return Some("a pod may be created".to_owned());
    }
    if reached {
        return Some("a pause point is reached and not stored".to_owned());
    }
    let may = |available: bool| view.reliable() > view.floor && (!available || view.available() > view.floor);
    if let Some(head) = head.filter(|head| may(head.available)) {
        return Some(format!("{} may go", head.pod.name));
    }
    let full = pods >= view.ceiling || view.updated() >= view.wanted() || refused;
    let behind = old.iter().take(view.may_go()).find(|one| !one.available);
    let behind = behind.filter(|one| barrier.is_none_or(|(at, ..)| !old[at].is(&one.pod.facts.uid)));
    let allowed = full && (view.all_updated_available() || view.is_overdue()) && view.is_when_blocked();
    behind.filter(|_| allowed && may(false)).map(|one| format!("{} may go out of turn", one.pod.name))
}
