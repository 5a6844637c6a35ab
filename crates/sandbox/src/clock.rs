//! The only source of time.
//!
//! The sandbox takes every timestamp and every delay from a [`Clock`], so tokio's paused clock can drive a
//! simulated cluster. Tokio does the waiting; a beat only determines its length.
//!
//! A clock with a beat synchronizes the agents. The scheduler binds pods on beats, and a kubelet measures its
//! delays from the beat in which they began. The latency of requests does not accumulate. A model of the
//! cluster that knows no requests can therefore predict the state at every beat.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The source of timestamps.
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

    /// A simulated clock: `base` plus the time that tokio's clock advanced since this call. Call it in the
    /// runtime whose clock is paused. A server with such a clock answers requests that arrive in one instant
    /// in sorted order.
    #[must_use]
    pub fn simulated(base: Timestamp) -> Self {
        Self { source: Source::Simulated { base, start: Instant::now() }, beat: None }
    }

    /// This clock with a beat: the agents act on multiples of `beat`. Only a simulated clock has beats.
    #[must_use]
    pub fn with_beat(self, beat: Duration) -> Self {
        let beat = Some(beat).filter(|beat| self.is_simulated() && !beat.is_zero());
        Self { beat, ..self }
    }

    /// Waits for `delay`. With a beat, the delay starts at the last beat.
    pub(crate) async fn wait(&self, delay: Duration) {
        match self.last_beat() {
            Some((last, _)) => tokio::time::sleep_until(last + delay).await,
            None => tokio::time::sleep(delay).await,
        }
    }

    /// When the next round of an agent starts: at the next beat, or after `gather` without a beat.
    pub(crate) fn next_round(&self, gather: Duration) -> Instant {
        self.last_beat().map_or_else(|| Instant::now() + gather, |(last, beat)| last + beat)
    }

    /// The time of the last beat, and the length of a beat.
    fn last_beat(&self) -> Option<(Instant, Duration)> {
        let (Source::Simulated { start, .. }, Some(beat)) = (&self.source, self.beat) else { return None };
        let now = Instant::now();
        let since = (now - *start).as_nanos() % beat.as_nanos();
        Some((now - Duration::from_nanos(u64::try_from(since).unwrap_or_default()), beat))
    }

    /// The current time.
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

/// The timestamp format of metadata: whole seconds.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
