//! S1 to S12: decisions, by the rules of `crates/oracle`, which the planner's tests and the exploration use, too.

use ordereddeployment_oracle::{self as oracle, check, check_with_any_status};
use ordereddeployment_planner::{Decision, to_compare};

use super::history::{History, found};
use super::violation::Violation;
use crate::log::DecisionRecord;

/// Every decision keeps the rules.
pub(super) fn allowed(history: &History<'_>) -> Vec<Violation> {
    let decisions = history.log.decisions.iter();
    let forged = history.case.has_forged_status();
    decisions
        .flat_map(|decided| wrong(decided, forged).into_iter().map(|wrong| violation(decided, &wrong)))
        .collect()
}

/// `forged`: the status may be a user's.
fn wrong(decided: &DecisionRecord, forged: bool) -> Vec<oracle::Violation> {
    let mut wrong = match &decided.decision {
        // While it is unknown if the template is new, the status is that of the rollout so far.
        Decision::Act(act) if forged || !to_compare(&decided.snapshot).is_empty() => {
            check_with_any_status(&decided.snapshot, act)
        }
        // It may correct what a user wrote.
        Decision::Record(_) if forged => Vec::new(),
        decision => check(&decided.snapshot, decision),
    };
    // The controller publishes the sizes of several small batches at once.
    wrong.retain(|wrong| wrong.oracle != "status::sizes");
    wrong
}

fn violation(decided: &DecisionRecord, wrong: &oracle::Violation) -> Violation {
    found(wrong.rule, decided.at, format!("{} ({})", wrong.message, wrong.oracle))
}
