//! S11: what is stored follows from what was seen: how a hold may begin, change and end, and counts that are not ahead.

use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_oracle::{View, counts, generation};
use ordereddeployment_planner::Decision;
use serde_json::Value;

use super::history::{History, Kind, Write, found};
use super::violation::Violation;
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
        let view = View::of(&decided.snapshot);
        generation(&view, before, after).or_else(|| acts(decided).then(|| counts(&view, after)).flatten())
    })
}

/// S11: conditions say what was seen: that all is done, that enough pods are available, that it is held.
pub(super) fn conditions(history: &History<'_>) -> Vec<Violation> {
    each(history, |decided, _, after| {
        acts(decided)
            .then(|| ordereddeployment_oracle::conditions(&View::of(&decided.snapshot), after))
            .flatten()
    })
}

/// Whether all pods were counted for that decision.
fn acts(decided: &Decided) -> bool {
    matches!(decided.decision, Decision::Act(_))
}

/// S11: a hold begins at the barrier, one at a time, and ends only as the contract says.
pub(super) fn transitions(history: &History<'_>) -> Vec<Violation> {
    each(history, |decided, before, after| {
        ordereddeployment_oracle::transitions(&View::of(&decided.snapshot), before, after)
    })
}
