//! L1: a scenario has its outcome if crashes are its only faults.

use serde_json::Value;

use super::history::Violation;
use super::history::{History, found};
use crate::case::{Fault, Outcome, UserAction};
use crate::log::{RunEvent, RunEventKind};

/// L1: the conditions of all steps happen, and the scenario has its outcome.
pub(super) fn as_expected(history: &History<'_>) -> Vec<Violation> {
    let Some(end) = history.log.event(&RunEventKind::Finished) else { return Vec::new() };
    let crashes_only = history.case.faults.iter().all(is_accounted_for);
    let refused = |event: &RunEvent| matches!(event.kind, RunEventKind::Step { refused: Some(_), .. });
    if history.case.outcome == Outcome::Any || !crashes_only || history.log.events.iter().any(refused) {
        return Vec::new();
    }
    let late = history.log.events.iter().find_map(|event| match event.kind {
        RunEventKind::Step { place, in_time: false, .. } => Some((event.at, place)),
        _ => None,
    });
    if let Some((at, place)) = late {
        return vec![found("L1", at, format!("step {place} waits for a condition that does not happen"))];
    }
    let at_end = |plural| history.all_at(plural, end.requests).collect();
    let objects = Objects {
        deployments: at_end("ordereddeployments"),
        sets: at_end("orderedreplicasets"),
        pods: at_end("pods"),
    };
    objects.differs(history.case.outcome).map(|message| found("L1", end.at, message)).into_iter().collect()
}

/// Whether a scenario has its outcome in spite of this fault.
fn is_accounted_for(fault: &Fault) -> bool {
    let is_expected = |action: &UserAction| {
        matches!(action, UserAction::Delete(..) | UserAction::SetGarbageCollector { .. })
    };
    match fault {
        Fault::Crash { .. } => true,
        Fault::ActionBefore { action, .. } => is_expected(action),
        _ => false,
    }
}

/// The objects at the end.
struct Objects<'a> {
    deployments: Vec<&'a Value>,
    sets: Vec<&'a Value>,
    pods: Vec<&'a Value>,
}

impl Objects<'_> {
    /// Why the objects do not have that outcome.
    fn differs(&self, outcome: Outcome) -> Option<String> {
        let each = |holds: fn(&Value) -> bool| self.deployments.iter().all(|one| holds(one));
        let pods = self.pods.iter().filter(|pod| self.is_active(pod)).count();
        let unless = |holds: bool, message: &str| (!holds).then(|| message.to_owned());
        match outcome {
            Outcome::Complete => {
                let wanted: i64 =
                    self.deployments.iter().filter_map(|one| one["spec"]["replicas"].as_i64()).sum();
                unless(!self.deployments.is_empty(), "there is no object")
                    .or_else(|| unless(each(|one| has(one, "Complete")), "it is not complete"))
                    .or_else(|| {
                        unless(i64::try_from(pods) == Ok(wanted), &format!("{pods} pods, not {wanted}"))
                    })
            }
            Outcome::Held => unless(each(|one| one["status"]["hold"].is_object()), "it is not held"),
            Outcome::Paused => unless(each(|one| one["spec"]["paused"] == true), "it is not paused")
                .or_else(|| unless(each(|one| !has(one, "Complete")), "it is complete")),
            Outcome::Stalled => unless(each(|one| has(one, "Stalled")), "it is not stalled"),
            Outcome::Deleted => {
                let nothing = self.deployments.is_empty() && self.sets.is_empty() && pods == 0;
                unless(nothing, "objects are left")
            }
            Outcome::Any => None,
            // S14 checks the pods.
            Outcome::Orphaned => {
                unless(self.deployments.is_empty(), "the object still exists").or_else(|| {
                    let left = !self.sets.is_empty() && self.sets.iter().copied().all(is_orphan);
                    unless(left, "its sets are not orphans")
                })
            }
        }
    }

    /// Finished pods do not count, nor do orphans while an object exists.
    fn is_active(&self, pod: &Value) -> bool {
        let finished = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        !finished && (!is_orphan(pod) || self.deployments.is_empty())
    }
}

fn is_orphan(object: &Value) -> bool {
    object["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty)
}

fn has(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == condition && one["status"] == "True"))
}
