//! S6: every write is to the object itself, its sets and their pods, or takes in an orphan that matches.

use ordereddeployment_api::OrderedReplicaSet;
use serde_json::Value;

use super::history::{History, Kind, Write, controller, deployment, found, name, uid};
use super::violation::Violation;
use crate::case::{Fault, How};

/// S6: only what is ours is written.
pub(super) fn targets(history: &History<'_>) -> Vec<Violation> {
    let wrong = history.writes.iter().filter_map(|write| Some((write, why_not_ours(history, write)?)));
    let words = |(write, why): (&Write<'_>, &str)| {
        found("S6", write.record.at, format!("{} {}: {why}", write.record.verb, write.record.path))
    };
    wrong.map(words).collect()
}

fn why_not_ours(history: &History<'_>, write: &Write<'_>) -> Option<&'static str> {
    match write.kind {
        Kind::Event | Kind::Lease => None,
        Kind::Other => Some("no controller of ours has any business there"),
        Kind::PatchPod => owners(history, write, true),
        Kind::PatchSet if body(write, "ownerReferences").is_some() => owners(history, write, false),
        // What was refused moved nothing; it may be that it is gone.
        _ if write.is_late || !write.is_accepted() && write.record.code != 409 => None,
        Kind::DeletePod => {
            let Some(pod) = write.precondition("uid").and_then(|uid| history.at(uid, write.place)) else {
                return write.is_accepted().then_some("it was not named by its UID");
            };
            let view = &history.decided(write.decision?).snapshot;
            let seen = view.pods.iter().find(|seen| *seen.facts.uid == *uid(pod)).map(|seen| &*seen.set);
            let owner = controller(pod).and_then(|set| history.controller_of(set, write.place));
            let by_view = seen.and_then(|set| history.controller_of(set, write.place));
            let ours = [owner, by_view].contains(&Some(deployment(history.decided(write.decision?))));
            (!ours).then_some("that pod is not controlled by a set of ours")
        }
        // The server's log has what a webhook left of it.
        Kind::CreatePod | Kind::CreateSet if is_mutated(history) => None,
        Kind::CreatePod | Kind::CreateSet => (write.owner.is_none() || write.decision.is_none())
            .then_some("it belongs to nobody we decide for"),
        Kind::PatchSet | Kind::SetStatus | Kind::DeleteSet | Kind::Status => {
            // One that meant an older version moved nothing: another object may have the name by now.
            (write.decision.is_none() && write.is_accepted()).then_some("nothing was decided for its owner")
        }
    }
}

/// Whether a webhook changes what is created.
fn is_mutated(history: &History<'_>) -> bool {
    let mutates = |fault: &Fault| matches!(fault, Fault::Request { how: How::Mutated(_), .. });
    history.case.faults.iter().any(mutates)
}

fn body<'a>(write: &Write<'a>, field: &str) -> Option<&'a Value> {
    write.record.body.as_ref()?.get("metadata")?.get(field)
}

/// An owner is taken on only where there was no controller and everything matches, and only our own reference is given up.
fn owners(history: &History<'_>, write: &Write<'_>, is_pod: bool) -> Option<&'static str> {
    let Some(wanted) = body(write, "ownerReferences") else { return Some("only owners may be changed") };
    if !write.is_accepted() {
        return None;
    }
    let named = body(write, "uid").and_then(Value::as_str).unwrap_or_default();
    let Some(before) = history.at(named, write.place) else { return Some("it was not named by its UID") };
    let after = serde_json::json!({"metadata": {"ownerReferences": wanted}});
    match (controller(before), controller(&after)) {
        (None, Some(owner)) if is_pod => {
            let Some(set) = history.at(owner, write.place) else { return Some("adopted by nobody") };
            let set: Option<OrderedReplicaSet> = serde_json::from_value(set.clone()).ok();
            let labels = serde_json::from_value(before["metadata"]["labels"].clone()).unwrap_or_default();
            let matches = set.is_some_and(|set| set.spec.selector.matches(&labels));
            (!matches).then_some("the pod that is adopted does not match")
        }
        (None, Some(owner)) => {
            let gone = history.at(owner, write.place).is_none() && !name(before).is_empty();
            gone.then_some("adopted by nobody")
        }
        (Some(owner), None) => {
            let set = if is_pod { history.controller_of(owner, write.place) } else { Some(owner) };
            let known = set.is_some_and(|owner| {
                history.log.decisions.iter().any(|decided| deployment(decided) == owner)
            });
            (!known).then_some("what is released was never ours")
        }
        (Some(before), Some(after)) if before != after => Some("it is taken from another controller"),
        _ => None,
    }
}
