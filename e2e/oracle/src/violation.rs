//! What an oracle finds.

use std::fmt;

/// A rule that a decision breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise, as `docs/reliability.md` numbers it.
    pub rule: &'static str,
    /// The oracle that found it.
    pub oracle: &'static str,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.rule, self.message, self.oracle)
    }
}

/// What one oracle finds: a message for each violation.
pub type Messages = Vec<String>;
