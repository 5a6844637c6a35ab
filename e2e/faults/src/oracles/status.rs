//! S11: each stored status follows from what the decision observed.

use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_oracle::{View, counts, generation};
use ordereddeployment_planner::Decision;

use super::Violation;
use super::history::{History, Kind, Write, found, status};
use crate::log::DecisionRecord;

type Status = OrderedDeploymentStatus;

/// Checks each status that a controller stored: the decision, the status before and the status after.
fn each<'a>(
    history: &History<'a>,
    mut check: impl FnMut(&DecisionRecord, &Status, &Status) -> Option<String>,
) -> Vec<Violation> {
    let stored = history.committed().filter(|(_, write)| write.kind == Kind::Status && !write.is_delayed);
    let wrong = stored.filter_map(|(commit, write): (_, &Write<'a>)| {
        let decided = history.decided(write.decision?);
        let message = check(decided, &status(commit.previous.as_ref()?), &status(&commit.object))?;
        Some(found("S11", commit.at, message))
    });
    wrong.collect()
}

/// S11: the generation and the counts are not ahead of what the decision observed.
pub(super) fn never_ahead(history: &History<'_>) -> Vec<Violation> {
    each(history, |decided, before, after| {
        let view = View::of(&decided.snapshot);
        generation(&view, before, after).or_else(|| acts(decided).then(|| counts(&view, after)).flatten())
    })
}

/// S11: Complete, Available and Held are as the decision observed them.
pub(super) fn conditions(history: &History<'_>) -> Vec<Violation> {
    each(history, |decided, _, after| {
        acts(decided)
            .then(|| ordereddeployment_oracle::conditions(&View::of(&decided.snapshot), after))
            .flatten()
    })
}

/// Whether the pods were counted for that decision.
fn acts(decided: &DecisionRecord) -> bool {
    matches!(decided.decision, Decision::Act(_))
}
