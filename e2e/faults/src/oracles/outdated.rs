//! S10: no writes for an object that is deleted or has changed.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::history::Violation;
use super::history::{History, Kind, Write, deployment, is_terminating, number, uid, version};
use super::leadership;
use super::staleness::max_staleness;

/// The time until a controller stops a decision that is outdated.
const AT_ONCE: SignedDuration = SignedDuration::from_millis(100);

/// S10: nothing is created or deleted for an object that is deleted or terminating, once the controller can
/// know it.
pub(super) fn deleted_object(history: &History<'_>) -> Vec<Violation> {
    let mut deleted: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for commit in history.log.commits.iter().filter(|commit| commit.plural == "ordereddeployments") {
        if commit.deleted || is_terminating(&commit.object) {
            deleted.entry(uid(&commit.object)).or_insert(commit.at);
        }
    }
    history.wrong("S10", |write| {
        let decided =
            history.decided(write.decision.filter(|_| moves(write) || write.kind == Kind::PatchSet)?);
        let since = deleted.get(deployment(decided)).filter(|_| !write.is_delayed)?;
        let knows = decided.snapshot.deployment.metadata.deletion_timestamp.is_some();
        let can_know = decided.at > *since + max_staleness(history.case, history.log, decided.at);
        (knows || can_know).then_some("the object is deleted")
    })
}

fn moves(write: &Write<'_>) -> bool {
    matches!(write.kind, Kind::CreatePod | Kind::DeletePod | Kind::CreateSet | Kind::DeleteSet)
}

/// S10: a decision is not carried out long after the object has changed or is deleted, or its rollout is to
/// be aborted.
pub(super) fn changed_object(history: &History<'_>) -> Vec<Violation> {
    history.wrong("S10", |write| {
        let decided = history.decided(write.decision.filter(|_| moves(write) && !write.is_delayed)?);
        let metadata = &decided.snapshot.deployment.metadata;
        let seen = number(metadata.resource_version.as_deref().unwrap_or_default());
        let changed = history.changes(deployment(decided)).find(|commit| {
            commit.deleted
                || commit.object["metadata"]["generation"].as_i64() > metadata.generation
                || (version(&commit.object) > seen && !commit.object["status"]["abortRequested"].is_null())
        })?;
        let staleness = max_staleness(history.case, history.log, write.record.at);
        let since = changed.at.max(decided.at);
        let late = write.record.at > since + staleness + AT_ONCE;
        (late && !leadership::is_away(history, write.instance))
            .then(|| format!("the object changed at {}", changed.at))
    })
}
