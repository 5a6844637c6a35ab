//! How the program ends: every exit code, in one place. It decides nothing.

use std::fmt;
use std::process::ExitCode;

/// What a command came to. The numbers are a promise to scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked, or the state awaited is there.
    Done = 0,
    /// It failed: a message on standard error says why, and what to do.
    Error = 1,
    /// The command line is malformed.
    Usage = 2,
    /// `status`: the rollout is held at a pause point, or paused as a whole.
    Held = 3,
    /// `status`: the rollout failed.
    Failed = 4,
    /// The time limit passed first.
    TimedOut = 5,
    /// `status --until held`: the rollout is complete, and was not held meanwhile.
    NotHeld = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error with an exit code of its own.
#[derive(Debug)]
pub(crate) struct Ended {
    exit: Exit,
    message: String,
}

impl Ended {
    /// The time limit passed.
    pub(crate) fn timed_out(message: String) -> anyhow::Error {
        anyhow::Error::new(Self { exit: Exit::TimedOut, message })
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Ended {}

/// The code of an error.
pub(crate) fn of_error(error: &anyhow::Error) -> Exit {
    error.downcast_ref::<Ended>().map_or(Exit::Error, |ended| ended.exit)
}
