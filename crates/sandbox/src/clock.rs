//! The one source of time.
//!
//! Everything the sandbox stamps or waits for goes through a [`Clock`], so that tokio's paused clock drives a
//! simulated cluster. Waiting is tokio's business: a beat only says how long.
//!
//! With a beat the agents keep time: the scheduler binds at the beats, and what a kubelet takes it takes from the beat in
//! which it began. What requests take then adds up nowhere, so that a model of the cluster, which knows of no requests, can
//! foretell every state at every beat.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where timestamps come from.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    beat: Option<Duration>,
}

#[derive(Clone, Debug)]
enum Source {
    System,
    Simulated { base: Timestamp, start: Instant },
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self { source: Source::System, beat: None }
    }

    /// `base` plus the time tokio's clock has moved since this call. Call it inside the runtime whose clock is
    /// paused. Requests that reach a server with such a clock in one instant are answered in sorted order.
    #[must_use]
    pub fn simulated(base: Timestamp) -> Self {
        Self { source: Source::Simulated { base, start: Instant::now() }, beat: None }
    }

    /// The same, on whose beats the agents act. Only a simulated clock has beats.
    #[must_use]
    pub fn with_beat(self, beat: Duration) -> Self {
        let beat = Some(beat).filter(|beat| self.is_simulated() && !beat.is_zero());
        Self { beat, ..self }
    }

    /// Waits that long, or until the beat that many beats after the last one.
    pub(crate) async fn wait(&self, delay: Duration) {
        match self.last_beat() {
            Some((last, _)) => tokio::time::sleep_until(last + delay).await,
            None => tokio::time::sleep(delay).await,
        }
    }

    /// When an agent that acts in rounds has its next one: at the next beat, else when `gather` is over.
    pub(crate) fn next_round(&self, gather: Duration) -> Instant {
        self.last_beat().map_or_else(|| Instant::now() + gather, |(last, beat)| last + beat)
    }

    /// The last beat, and how long one is.
    fn last_beat(&self) -> Option<(Instant, Duration)> {
        let (Source::Simulated { start, .. }, Some(beat)) = (&self.source, self.beat) else { return None };
        let now = Instant::now();
        let since = (now - *start).as_nanos() % beat.as_nanos();
        Some((now - Duration::from_nanos(u64::try_from(since).unwrap_or_default()), beat))
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.source {
            Source::System => Timestamp::now(),
            Source::Simulated { base, start } => SignedDuration::try_from(start.elapsed())
                .ok()
                .and_then(|elapsed| base.checked_add(elapsed).ok())
                .unwrap_or(Timestamp::MAX),
        }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.source, Source::Simulated { .. })
    }
}

/// As metadata carries it: whole seconds.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
