//! Checks a log against the promises. An oracle reads what the server received and what each decision was
//! made on. It never reads the state of the controller.

mod convergence;
mod creates;
mod decisions;
mod deletes;
mod history;
mod leadership;
mod orphans;
mod outcome;
mod outdated;
mod ownership;
mod staleness;
mod steady_state;

use crate::{Case, Log};
use history::History;
pub use history::Violation;

/// One oracle.
type Oracle = fn(&History<'_>) -> Vec<Violation>;

/// Every oracle by name, in the order of the promises. Each has a mutant that it catches.
const ORACLES: &[(&str, Oracle)] = &[
    ("decisions::allowed", decisions::allowed),
    ("deletes::order", deletes::order),
    ("deletes::prefix", deletes::prefix),
    ("creates::beside_orphans", creates::beside_orphans),
    ("deletes::barrier", deletes::barrier),
    ("deletes::current_template", deletes::current_template),
    ("ownership::targets", ownership::targets),
    ("ownership::tenants", ownership::tenants),
    ("orphans::adopters", orphans::adopters),
    ("orphans::kept", orphans::kept),
    ("deletes::preconditions", deletes::preconditions),
    ("creates::one_per_slot", creates::one_per_slot),
    ("creates::one_set_per_template", creates::one_set_per_template),
    ("leadership::lease", leadership::lease),
    ("outdated::deleted_object", outdated::deleted_object),
    ("outdated::changed_object", outdated::changed_object),
    ("status::never_ahead", decisions::never_ahead),
    ("status::conditions", decisions::conditions),
    ("deletes::equal_templates", deletes::equal_templates),
    ("steady_state::panics", steady_state::panics),
    ("steady_state::write_storms", steady_state::write_storms),
    ("steady_state::outages", steady_state::outages),
    ("steady_state::writes_at_rest", steady_state::writes_at_rest),
    ("convergence::complete_or_explained", convergence::complete_or_explained),
    ("outcome::as_expected", outcome::as_expected),
    ("steady_state::holds_stay", steady_state::holds_stay),
    ("convergence::resumes", convergence::resumes),
    ("convergence::retries", convergence::retries),
    ("convergence::retries_after_faults", convergence::retries_after_faults),
    ("convergence::progress", convergence::progress),
    ("convergence::replaces_old_pods", convergence::replaces_old_pods),
    ("leadership::no_leader", leadership::no_leader),
    ("leadership::idle_leader", leadership::idle_leader),
    ("staleness::views", staleness::views),
    ("staleness::causality", staleness::causality),
    ("staleness::own_writes", staleness::own_writes),
    ("staleness::as_stored", staleness::as_stored),
];

/// The oracles that compare what happens with the status, or expect the end that it promises. A forged status
/// may stop the rollout, or say which pause points are passed; the others hold with any status.
const OF_STATUS: &[&str] = &[
    "deletes::barrier",
    "status::never_ahead",
    "status::conditions",
    "convergence::complete_or_explained",
    "outcome::as_expected",
    "steady_state::holds_stay",
    "convergence::resumes",
    "convergence::retries",
    "convergence::retries_after_faults",
    "convergence::progress",
    "convergence::replaces_old_pods",
];

/// The violations in a run, for each oracle in the order of time.
pub fn check(case: &Case, log: &Log) -> Vec<Violation> {
    let history = History::of(case, log);
    let forged = case.has_forged_status();
    let oracles = ORACLES.iter().filter(|(name, _)| !forged || !OF_STATUS.contains(name));
    let violations = oracles.flat_map(|(name, oracle)| {
        oracle(&history).into_iter().map(move |violation| Violation { oracle: name, ..violation })
    });
    violations.collect()
}

/// The names of all oracles.
pub fn names() -> impl Iterator<Item = &'static str> {
    ORACLES.iter().map(|(name, _)| *name)
}
