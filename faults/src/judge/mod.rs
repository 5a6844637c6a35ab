//! Holds a log against the promises, one oracle a promise. An oracle looks at what the server saw and at what each decision was
//! made on; it never asks the controller what it thinks.

mod bounds;
mod calm;
mod deletes;
mod ends;
mod fresh;
mod history;
mod identity;
mod lead;
mod ours;
mod pods;
mod stored;
mod view;

use std::fmt;

use jiff::Timestamp;

use crate::{Case, Log};
use history::History;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise, as `docs/reliability.md` numbers it.
    pub rule: &'static str,
    /// When, by the server's clock.
    pub at: Timestamp,
    /// What happened.
    pub words: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.rule, self.at, self.words)
    }
}

/// How many requests the server remembers.
const STORM: usize = 200_000;

/// One oracle.
type Oracle = fn(&History<'_>) -> Vec<Violation>;

/// Every oracle, in the order of the rules.
const ORACLES: &[Oracle] = &[
    deletes::order,
    deletes::prefix,
    deletes::floors,
    pods::ceiling,
    deletes::barrier,
    stored::transitions,
    ours::targets,
    identity::preconditions,
    pods::one_a_slot,
    pods::one_set_a_template,
    lead::lease,
    lead::gone,
    stored::never_ahead,
    calm::panics,
    calm::storms,
    calm::none_at_rest,
    ends::converges,
    calm::holds_stay,
    ends::resumes,
    ends::tries_again,
    ends::tries_struck_again,
    ends::goes_on,
    lead::goes_on,
    fresh::staleness_of_views,
    fresh::causality,
    fresh::own_writes,
];

/// All that was not kept in a run, each promise's own in the order of time.
#[must_use]
pub fn judge(case: &Case, log: &Log) -> Vec<Violation> {
    if let Some(last) = log.requests.last().filter(|_| log.requests.len() >= STORM) {
        // The server's log forgets what came first: nothing else can be told.
        return vec![Violation { rule: "S12", at: last.at, words: format!("a storm of {STORM} requests") }];
    }
    let history = History::of(case, log);
    ORACLES.iter().flat_map(|oracle| oracle(&history)).collect()
}
