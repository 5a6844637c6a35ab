//! S1 to S11: what was decided, judged by the rules that the planner's tests and the exploration have, too.

use ordereddeployment_oracle::{Wrong, judge, judge_whatever_is_stored};
use ordereddeployment_planner::{Decision, to_compare};

use super::history::{History, found};
use super::violation::Violation;
use crate::log::Decided;

/// Every decision keeps the rules for one decision.
pub(super) fn allowed(history: &History<'_>) -> Vec<Violation> {
    let decisions = history.log.decisions.iter();
    decisions.flat_map(|decided| wrong(decided).into_iter().map(|wrong| violation(decided, &wrong))).collect()
}

fn wrong(decided: &Decided) -> Vec<Wrong> {
    let mut wrong = match &decided.decision {
        // While nobody knows whether the template is new, the status of the rollout so far stands.
        Decision::Act(act) if !to_compare(&decided.snapshot).is_empty() => {
            judge_whatever_is_stored(&decided.snapshot, act)
        }
        decision => judge(&decided.snapshot, decision),
    };
    // The controller publishes the sizes of several small batches at once.
    wrong.retain(|wrong| wrong.oracle != "stored::sizes");
    wrong
}

fn violation(decided: &Decided, wrong: &Wrong) -> Violation {
    found(wrong.rule, decided.at, format!("{} ({})", wrong.words, wrong.oracle))
}
