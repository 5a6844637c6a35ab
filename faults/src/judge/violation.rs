//! What the judge finds.

use std::fmt;

use jiff::Timestamp;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise, as `docs/reliability.md` numbers it.
    pub rule: &'static str,
    /// Which oracle says so.
    pub oracle: &'static str,
    /// When, by the server's clock.
    pub at: Timestamp,
    /// What happened.
    pub words: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {} ({})", self.rule, self.at, self.words, self.oracle)
    }
}
