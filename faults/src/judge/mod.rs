//! Holds a log against the promises. An oracle looks at what the server saw and at what each decision was
//! made on; it never asks the controller what it thinks.

mod bounds;
mod calm;
mod decisions;
mod deletes;
mod ends;
mod fresh;
mod history;
mod identity;
mod lead;
mod orphans;
mod ours;
mod outcome;
mod pods;
mod stored;
mod violation;

use crate::{Case, Log};
use history::History;
pub use violation::Violation;

/// How many requests the server remembers.
const STORM: usize = 200_000;

/// One oracle.
type Oracle = fn(&History<'_>) -> Vec<Violation>;

/// Every oracle by its name, in the order of the rules. Each has a mutant that it catches.
const ORACLES: &[(&str, Oracle)] = &[
    ("decisions::allowed", decisions::allowed),
    ("deletes::order", deletes::order),
    ("deletes::prefix", deletes::prefix),
    ("deletes::floors", deletes::floors),
    ("pods::ceiling", pods::ceiling),
    ("pods::beside_orphans", pods::beside_orphans),
    ("deletes::barrier", deletes::barrier),
    ("deletes::current_template", deletes::current_template),
    ("stored::transitions", stored::transitions),
    ("ours::targets", ours::targets),
    ("orphans::adopters", orphans::adopters),
    ("orphans::live_on", orphans::live_on),
    ("identity::preconditions", identity::preconditions),
    ("pods::one_a_slot", pods::one_a_slot),
    ("pods::one_set_a_template", pods::one_set_a_template),
    ("lead::lease", lead::lease),
    ("lead::gone", lead::gone),
    ("lead::goes_on", lead::goes_on),
    ("stored::never_ahead", stored::never_ahead),
    ("stored::conditions", stored::conditions),
    ("deletes::equal_templates", deletes::equal_templates),
    ("calm::panics", calm::panics),
    ("calm::storms", calm::storms),
    ("calm::none_at_rest", calm::none_at_rest),
    ("ends::converges", ends::converges),
    ("outcome::as_it_says", outcome::as_it_says),
    ("calm::holds_stay", calm::holds_stay),
    ("ends::resumes", ends::resumes),
    ("ends::tries_again", ends::tries_again),
    ("ends::tries_struck_again", ends::tries_struck_again),
    ("ends::goes_on", ends::goes_on),
    ("ends::heals", ends::heals),
    ("lead::no_leaders", lead::no_leaders),
    ("lead::idle_leaders", lead::idle_leaders),
    ("fresh::staleness_of_views", fresh::staleness_of_views),
    ("fresh::causality", fresh::causality),
    ("fresh::own_writes", fresh::own_writes),
    ("fresh::as_stored", fresh::as_stored),
];

/// All that was not kept in a run, each promise's own in the order of time.
#[must_use]
pub fn judge(case: &Case, log: &Log) -> Vec<Violation> {
    if let Some(last) = log.requests.last().filter(|_| log.requests.len() >= STORM) {
        // The server's log forgets what came first: nothing else can be told.
        let words = format!("a storm of {STORM} requests");
        return vec![Violation { rule: "S12", oracle: "calm::storms", at: last.at, words }];
    }
    let history = History::of(case, log);
    let violations = ORACLES.iter().flat_map(|(oracle, judge)| {
        judge(&history).into_iter().map(move |violation| Violation { oracle, ..violation })
    });
    violations.collect()
}

/// The names of all oracles.
pub fn oracles() -> impl Iterator<Item = &'static str> {
    ORACLES.iter().map(|(oracle, _)| *oracle)
}
