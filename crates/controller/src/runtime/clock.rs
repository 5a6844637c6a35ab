//! The one source of time. Decisions never read the machine's clock: they are given the time from here.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where timestamps come from.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self::from_fn(Timestamp::now)
    }

    /// `base` plus the time that tokio's clock has moved since this call.
    #[must_use]
    pub fn simulated(base: Timestamp) -> Self {
        let start = Instant::now();
        Self::from_fn(move || {
            let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
            base.checked_add(elapsed).unwrap_or(Timestamp::MAX)
        })
    }

    /// Any other source, such as a clock that is shared with an API server in the same process.
    #[must_use]
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
