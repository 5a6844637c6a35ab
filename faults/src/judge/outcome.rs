//! L1: how a scenario goes, and what it comes to, where nothing comes between but crashes and what it is about.

use serde_json::Value;

use super::history::{History, found};
use super::violation::Violation;
use crate::case::{Act, Ends, Fault};
use crate::log::{Mark, What};

/// L1: what its steps wait for comes, and it ends as its scenario says.
pub(super) fn as_it_says(history: &History<'_>) -> Vec<Violation> {
    let Some(end) = history.log.mark(&What::End) else { return Vec::new() };
    let crashes_only = history.case.faults.iter().all(is_accounted_for);
    let refused = |mark: &Mark| matches!(mark.what, What::Step { refused: Some(_), .. });
    if history.case.ends == Ends::Anyhow || !crashes_only || history.log.marks.iter().any(refused) {
        return Vec::new();
    }
    let late = history.log.marks.iter().find_map(|mark| match mark.what {
        What::Step { place, in_time: false, .. } => Some((mark.at, place)),
        _ => None,
    });
    if let Some((at, place)) = late {
        return vec![found("L1", at, format!("what step {place} waits for never comes"))];
    }
    let standing = |plural| history.all_at(plural, end.requests).collect();
    let world = World {
        deployments: standing("ordereddeployments"),
        sets: standing("orderedreplicasets"),
        pods: standing("pods"),
    };
    world.unlike(history.case.ends).map(|words| found("L1", end.at, words)).into_iter().collect()
}

/// Whether a scenario ends as it says although this fault struck.
fn is_accounted_for(fault: &Fault) -> bool {
    let told = |act: &Act| matches!(act, Act::Delete(..) | Act::Collector { .. });
    match fault {
        Fault::Crash { .. } => true,
        Fault::Before { act, .. } => told(act),
        _ => false,
    }
}

/// What the server has at the end.
struct World<'a> {
    deployments: Vec<&'a Value>,
    sets: Vec<&'a Value>,
    pods: Vec<&'a Value>,
}

impl World<'_> {
    /// In what it is not as it should be.
    fn unlike(&self, ends: Ends) -> Option<String> {
        let each = |holds: fn(&Value) -> bool| self.deployments.iter().all(|one| holds(one));
        let pods = self.pods.iter().filter(|pod| self.is_active(pod)).count();
        let unless = |holds: bool, words: &str| (!holds).then(|| words.to_owned());
        match ends {
            Ends::Complete => {
                let wanted: i64 =
                    self.deployments.iter().filter_map(|one| one["spec"]["replicas"].as_i64()).sum();
                unless(!self.deployments.is_empty(), "there is nothing")
                    .or_else(|| unless(each(|one| has(one, "Complete")), "it is not complete"))
                    .or_else(|| {
                        unless(i64::try_from(pods) == Ok(wanted), &format!("{pods} pods, not {wanted}"))
                    })
            }
            Ends::Held => unless(each(|one| one["status"]["hold"].is_object()), "it is not held"),
            Ends::Paused => unless(each(|one| one["spec"]["paused"] == true), "it is not paused")
                .or_else(|| unless(each(|one| !has(one, "Complete")), "it is complete")),
            Ends::Stalled => unless(each(|one| has(one, "Stalled")), "it is not stalled"),
            Ends::Gone => {
                let nothing = self.deployments.is_empty() && self.sets.is_empty() && pods == 0;
                unless(nothing, "something is left")
            }
            Ends::Anyhow => None,
            // Which pods were there at the mark is S14's.
            Ends::Orphaned => unless(self.deployments.is_empty(), "it is still there").or_else(|| {
                let left = !self.sets.is_empty() && self.sets.iter().copied().all(is_orphan);
                unless(left, "its sets are not orphans")
            }),
        }
    }

    /// Those that finished count for nothing, nor do those of nobody while there is somebody.
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
