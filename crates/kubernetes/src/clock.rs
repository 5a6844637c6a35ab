//! The only source of time. Decisions do not read the system clock: they get the time as input.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The source of timestamps.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The system clock.
    #[must_use]
    pub fn system() -> Self {
        Self::from_fn(Timestamp::now)
    }

    /// `base` plus the time by which tokio's clock has advanced since this call.
    #[must_use]
    pub fn simulated(base: Timestamp) -> Self {
        let start = Instant::now();
        Self::from_fn(move || {
            let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
            base.checked_add(elapsed).unwrap_or(Timestamp::MAX)
        })
    }

    /// Another source, such as a clock that is shared with an API server in the same process.
    #[must_use]
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}
