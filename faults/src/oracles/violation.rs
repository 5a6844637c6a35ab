//! What an oracle finds.

use std::fmt;

use jiff::Timestamp;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise, as `docs/reliability.md` numbers it.
    pub rule: &'static str,
    /// The oracle that found it.
    pub oracle: &'static str,
    /// When, by the server's clock.
    pub at: Timestamp,
    /// What happened.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {} ({})", self.rule, self.at, self.message, self.oracle)
    }
}
