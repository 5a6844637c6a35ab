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

impl Violation {
    /// Whether that oracle found it, or that rule for decisions.
    #[must_use]
    pub fn is_of(&self, oracle: &str) -> bool {
        self.oracle == oracle || self.message.ends_with(&format!("({oracle})"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {} ({})", self.rule, self.at, self.message, self.oracle)
    }
}
