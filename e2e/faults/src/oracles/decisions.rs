//! S1 to S12: decisions, by the rules of `e2e/oracle`, which the planner's tests and the exploration use,
//! too.

use std::collections::BTreeMap;

use ordereddeployment_oracle::{self as oracle, check};
use ordereddeployment_planner::Decision;

use super::Violation;
use super::history::{History, Kind, Write, deployment, found};
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
