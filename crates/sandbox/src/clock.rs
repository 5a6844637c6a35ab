//! The one source of time.
//!
//! Everything the sandbox stamps or waits for goes through a [`Clock`], so that tokio's paused clock drives a
//! simulated cluster. It never sleeps: waiting is tokio's business.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where timestamps come from.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Simulated { base: Timestamp, start: Instant },
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// `base` plus the time tokio's clock has moved since this call. Call it inside the runtime whose clock is
    /// paused. Requests that reach a server with such a clock in one instant are answered in sorted order.
    #[must_use]
    pub fn simulated(base: Timestamp) -> Self {
        Self(Source::Simulated { base, start: Instant::now() })
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp::now(),
            Source::Simulated { base, start } => SignedDuration::try_from(start.elapsed())
                .ok()
                .and_then(|elapsed| base.checked_add(elapsed).ok())
                .unwrap_or(Timestamp::MAX),
        }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.0, Source::Simulated { .. })
    }
}

/// As metadata carries it: whole seconds.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
