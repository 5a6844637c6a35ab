//! The exit codes.

use std::process::ExitCode;

/// The exit code of a command. Scripts depend on the numbers: they do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success. `status`: the awaited state is reached.
    Success = 0,
    /// An error. A message on standard error says why and what to do.
    Error = 1,
    /// The command line is invalid.
    Usage = 2,
    /// `status`: the rollout is paused at a pause point, or by `spec.paused`.
    Held = 3,
    /// `status`: the rollout failed or was aborted.
    Failed = 4,
    /// Timed out: `--timeout` elapsed first.
    TimedOut = 5,
    /// `status --until held`: the rollout completed without a pause at a pause point.
    NotHeld = 6,
}

impl From<()> for Exit {
    fn from((): ()) -> Self {
        Self::Success
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error with [`Exit::TimedOut`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TimedOut(pub(crate) String);

pub(crate) fn of_error(error: &anyhow::Error) -> Exit {
    if error.is::<TimedOut>() { Exit::TimedOut } else { Exit::Error }
}
