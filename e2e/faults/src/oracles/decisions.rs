//! S1 to S12: decisions, by the rules of `e2e/oracle`, which the planner's tests and the exploration use,
//! too. S11: the statuses that are stored for them.

use std::collections::BTreeMap;

use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_oracle::{self as oracle, View, check};
use ordereddeployment_planner::Decision;

use super::history::Violation;
use super::history::{History, Kind, Write, deployment, found, status};
use crate::log::DecisionRecord;

/// Every decision keeps the rules, and no release gets past a point that nobody passed.
pub(super) fn allowed(history: &History<'_>) -> Vec<Violation> {
    let forged = history.case.has_forged_status();
    let mut rollouts: BTreeMap<&str, oracle::History> = BTreeMap::new();
    let mut found_all = Vec::new();
    for (place, decided) in history.log.decisions.iter().enumerate() {
        let mut wrong = check(&decided.snapshot, &decided.decision);
        if !forged {
            let rollout = rollouts.entry(deployment(decided)).or_default();
            let before = rollout.clone();
            rollout.look(&decided.snapshot);
            wrong.extend(rollout.check(&decided.snapshot, &decided.decision));
            rollout.decided(&decided.snapshot, &decided.decision);
            let is_record = matches!(decided.decision, Decision::Record(_));
            let mut statuses = history.sent(place).filter(|write| write.kind == Kind::Status);
            if is_record && !statuses.any(Write::is_accepted) {
                // What was seen is not stored: it is seen again.
                *rollout = before;
            }
        }
        // The controller publishes the sizes of several small batches at once.
        wrong.retain(|wrong| wrong.oracle != "status::sizes");
        found_all.extend(wrong.iter().map(|wrong| violation(decided, wrong)));
    }
    found_all
}

fn violation(decided: &DecisionRecord, wrong: &oracle::Violation) -> Violation {
    found(wrong.rule, decided.at, format!("{} ({})", wrong.message, wrong.oracle))
}

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
        let counts = || acts(decided).then(|| oracle::counts(&view, after)).flatten();
        oracle::generation(&view, before, after).or_else(counts)
    })
}

/// S11: Complete, Available and Held are as the decision observed them.
pub(super) fn conditions(history: &History<'_>) -> Vec<Violation> {
    each(history, |decided, _, after| {
        acts(decided).then(|| oracle::conditions(&View::of(&decided.snapshot), after)).flatten()
    })
}

/// Whether the pods were counted for that decision.
fn acts(decided: &DecisionRecord) -> bool {
    matches!(decided.decision, Decision::Act(_))
}
