//! S6: every write is to the object itself, its sets and their pods, or adopts an orphan that matches.
//! Nothing that happens in one namespace has an effect in another one.

use std::collections::BTreeSet;

use ordereddeployment_api::OrderedReplicaSet;
use ordereddeployment_api::names::annotation;
use serde_json::Value;

use super::history::Violation;
use super::history::{History, Kind, Write, controller, deployment, found, name, uid};
use crate::case::{Fault, RequestFault};
use crate::log::instance;
use crate::user::HOSTILE;

/// S6: only owned objects are written.
pub(super) fn targets(history: &History<'_>) -> Vec<Violation> {
    history.wrong("S6", |write| why_not_owned(history, write))
}

fn why_not_owned(history: &History<'_>, write: &Write<'_>) -> Option<&'static str> {
    match write.kind {
        Kind::Event | Kind::Lease => None,
        Kind::Other => Some("the controllers never send such a write"),
        Kind::PatchPod if is_recount(write) => of_recount(history, write),
        Kind::PatchPod => owners(history, write, true),
        Kind::PatchSet if body(write, "ownerReferences").is_some() => owners(history, write, false),
        // A refused write changed nothing. Its object may be deleted.
        _ if write.is_delayed || !write.is_accepted() && write.record.code != 409 => None,
        Kind::DeletePod => {
            let Some(pod) = write.precondition("uid").and_then(|uid| history.at(uid, write.place)) else {
                return write.is_accepted().then_some("the write does not name its UID");
            };
            let view = &history.decided(write.decision?).snapshot;
            let seen = view.pods.iter().find(|seen| *seen.facts.uid == *uid(pod)).map(|seen| &*seen.set);
            let owner = controller(pod).and_then(|set| history.controller_of(set, write.place));
            let by_view = seen.and_then(|set| history.controller_of(set, write.place));
            let is_owned = [owner, by_view].contains(&Some(deployment(history.decided(write.decision?))));
            (!is_owned).then_some("the pod is not controlled by a set of the object")
        }
        // The server's log has the object as the webhook changed it.
        Kind::CreatePod | Kind::CreateSet if is_mutated(history) => None,
        Kind::CreatePod | Kind::CreateSet => {
            (write.owner.is_none() || write.decision.is_none()).then_some("the owner has no decision")
        }
        Kind::PatchSet | Kind::SetStatus | Kind::DeleteSet | Kind::Status => {
            // A write with an older version changed nothing: the name may be another object's by now.
            (write.decision.is_none() && write.is_accepted()).then_some("the owner has no decision")
        }
    }
}

/// Whether a webhook changes what is created.
fn is_mutated(history: &History<'_>) -> bool {
    let mutates = |fault: &Fault| matches!(fault, Fault::Request { effect: RequestFault::Mutate(_), .. });
    history.case.faults.iter().any(mutates)
}

fn body<'a>(write: &Write<'a>, field: &str) -> Option<&'a Value> {
    write.record.body.as_ref()?.get("metadata")?.get(field)
}

/// Whether the write only annotates a pod, so that its disruption budget is counted again.
fn is_recount(write: &Write<'_>) -> bool {
    let keys =
        body(write, "annotations").and_then(Value::as_object).map(|all| all.keys().collect::<Vec<_>>());
    keys.is_some_and(|keys| keys == [annotation::BUDGET_RECOUNT]) && body(write, "ownerReferences").is_none()
}

/// Only pods of the object are annotated.
fn of_recount(history: &History<'_>, write: &Write<'_>) -> Option<&'static str> {
    if !write.is_accepted() {
        return None;
    }
    let named = body(write, "uid").and_then(Value::as_str).unwrap_or_default();
    let Some(pod) = history.at(named, write.place) else { return Some("the write does not name its UID") };
    let owner = controller(pod).and_then(|set| history.controller_of(set, write.place));
    (!is_reconciled(history, owner)).then_some("the annotated pod is not controlled by a set of the object")
}

/// Whether a decision was made for the object with that UID.
fn is_reconciled(history: &History<'_>, owner: Option<&str>) -> bool {
    owner.is_some_and(|owner| history.log.decisions.iter().any(|decided| deployment(decided) == owner))
}

/// A pod is adopted only if it has no controller and matches, and released only by its controller.
fn owners(history: &History<'_>, write: &Write<'_>, is_pod: bool) -> Option<&'static str> {
    let Some(wanted) = body(write, "ownerReferences") else {
        return Some("the write changes more than owners");
    };
    if !write.is_accepted() {
        return None;
    }
    let named = body(write, "uid").and_then(Value::as_str).unwrap_or_default();
    let Some(before) = history.at(named, write.place) else { return Some("the write does not name its UID") };
    let after = serde_json::json!({"metadata": {"ownerReferences": wanted}});
    match (controller(before), controller(&after)) {
        (None, Some(owner)) if is_pod => {
            let Some(set) = history.at(owner, write.place) else {
                return Some("the new owner does not exist");
            };
            let set: Option<OrderedReplicaSet> = serde_json::from_value(set.clone()).ok();
            let labels = serde_json::from_value(before["metadata"]["labels"].clone()).unwrap_or_default();
            let matches = set.is_some_and(|set| set.spec.selector.matches(&labels));
            (!matches).then_some("the adopted pod does not match")
        }
        (None, Some(owner)) => {
            let is_missing = history.at(owner, write.place).is_none() && !name(before).is_empty();
            is_missing.then_some("the new owner does not exist")
        }
        (Some(owner), None) => {
            let set = if is_pod { history.controller_of(owner, write.place) } else { Some(owner) };
            (!is_reconciled(history, set)).then_some("the released object had another controller")
        }
        (Some(before), Some(after)) if before != after => Some("the object has another controller"),
        _ => None,
    }
}

/// S6: no request of a controller is for the namespace without an OrderedDeployment, and no decision is made
/// on an object of it. That its objects cause no write elsewhere follows from `steady_state::writes_at_rest`:
/// they are forged again at rest.
pub(super) fn tenants(history: &History<'_>) -> Vec<Violation> {
    let requests = history.log.requests.iter();
    let sent = requests
        .filter(|record| {
            instance(&record.user_agent).is_some() && record.namespace.as_deref() == Some(HOSTILE)
        })
        .map(|record| found("S6", record.at, format!("{} {}", record.verb, record.path)));
    let forged: BTreeSet<&str> = history.log.hostile.iter().map(|commit| uid(&commit.object)).collect();
    let decided = history.log.decisions.iter().filter_map(|decided| {
        let pods = decided.snapshot.pods.iter().map(|pod| &pod.facts.uid);
        let mut all = pods.chain(decided.snapshot.sets.iter().map(|set| &set.uid));
        let uid = all.find(|uid| forged.contains(&***uid))?;
        Some(found(
            "S6",
            decided.at,
            format!("the decision is made on {uid}, an object of another namespace"),
        ))
    });
    sent.chain(decided).collect()
}
