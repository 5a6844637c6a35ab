//! Holds a log against the promises, one oracle a promise. An oracle looks at what the server saw and at what each decision was
//! made on; it never asks the controller what it thinks.

use std::fmt;

use jiff::Timestamp;

use crate::log::What;
use crate::{Case, Log};

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

/// All that was not kept in a run, each promise's own in the order of time.
#[must_use]
pub fn judge(_case: &Case, log: &Log) -> Vec<Violation> {
    let panics = log.marks.iter().filter_map(|mark| match &mark.what {
        What::Panicked(instance, words) => Some(Violation {
            rule: "S12",
            at: mark.at,
            words: format!("instance {instance} panicked: {words}"),
        }),
        _ => None,
    });
    panics.collect()
}
