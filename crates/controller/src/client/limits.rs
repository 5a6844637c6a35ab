//! Limits: how many requests are sent a second, and how many wait for their answers at once.
//!
//! A bucket as client-go has it (`util/flowcontrol`), with tokio's clock, which tests can move. What is limited is what the
//! controller asks for by itself: neither its watches, which would miss what happens, nor its Lease, which would be lost.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

/// The limits of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Requests a second over any longer time; 0: as many as it likes.
    pub qps: f64,
    /// How many it sends at once after a pause.
    pub burst: u32,
    /// How many wait for their answers at once.
    pub in_flight: usize,
}

impl Default for Limits {
    /// More than a rollout needs, and less than an API server minds. Each request in flight has a connection, and a connection
    /// keeps its buffers: 100 KB and more after a long list.
    fn default() -> Self {
        Self { qps: 500.0, burst: 1000, in_flight: 100 }
    }
}

impl Limits {
    /// What is wrong with them, if something is.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        if !self.qps.is_finite() || self.qps < 0.0 {
            return Some("the requests a second must be a number, 0 or more (0: no limit)");
        }
        if self.burst == 0 {
            return Some("the burst must be at least 1");
        }
        if self.in_flight == 0 {
            return Some("at least one request must be allowed to wait for its answer");
        }
        None
    }
}

/// Keeps the limits. Clones keep them together.
#[derive(Clone, Debug)]
pub struct Limiter(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    bucket: Option<Bucket>,
    in_flight: Semaphore,
    for_object: usize,
}

impl Limiter {
    /// Keeps these.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let bucket = (limits.qps > 0.0).then(|| Bucket::new(limits.qps, limits.burst));
        // A semaphore has a largest size, which nobody means.
        let in_flight = limits.in_flight.clamp(1, Semaphore::MAX_PERMITS);
        let for_object = in_flight.div_ceil(4);
        Self(Arc::new(Kept { bucket, in_flight: Semaphore::new(in_flight), for_object }))
    }

    /// How many of these one object may have under way: a quarter, so that no single one keeps all others waiting.
    pub(crate) fn for_object(&self) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(self.0.for_object))
    }

    /// WaitTimes until a request may be sent. It counts as under way until the answer is dropped.
    pub(crate) async fn wait(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        let permit = self.0.in_flight.acquire().await.ok();
        if let Some(bucket) = &self.0.bucket {
            sleep_until(bucket.reserve(Instant::now())).await;
        }
        permit
    }
}

const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// A bucket of so many tokens that fills at an even rate. Whoever reserves one is told when to use it, in turn.
#[derive(Debug)]
struct Bucket {
    /// How long one token takes.
    interval: Duration,
    /// How long all but one of them take.
    ahead: Duration,
    /// When the bucket will be full, had it no bottom.
    full: Mutex<Option<Instant>>,
}

impl Bucket {
    fn new(qps: f64, burst: u32) -> Self {
        // A rate so small that its time cannot be told is once a day.
        let interval = Duration::try_from_secs_f64(1.0 / qps).unwrap_or(Duration::MAX).min(A_DAY);
        Self { interval, ahead: interval.saturating_mul(burst.saturating_sub(1)), full: Mutex::new(None) }
    }

    fn reserve(&self, now: Instant) -> Instant {
        let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        let filled = full.map_or(now, |full| full.max(now));
        *full = Some(filled + self.interval);
        filled.checked_sub(self.ahead).map_or(now, |at| at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Bucket, Limiter, Limits};

    #[test]
    fn a_burst_goes_at_once_and_then_one_at_a_time() {
        let bucket = Bucket::new(10.0, 3);
        let now = Instant::now();
        let waits: Vec<_> = (0..5).map(|_| bucket.reserve(now).duration_since(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        let later = now + Duration::from_secs(60);
        let waits: Vec<_> = (0..4).map(|_| bucket.reserve(later).duration_since(later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100], "what was not used is no more than a burst");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_so_many_are_under_way() {
        let limiter = Limiter::new(Limits { qps: 0.0, burst: 1, in_flight: 2 });
        let first = limiter.wait().await;
        let _second = limiter.wait().await;
        let third = limiter.wait();
        let mut third = std::pin::pin!(third);
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut third).await.is_err());
        drop(first);
        assert!(third.await.is_some());
    }

    #[test]
    fn limits_that_let_nothing_through_are_refused() {
        assert_eq!(Limits::default().problem(), None);
        for limits in [
            Limits { qps: -1.0, ..Limits::default() },
            Limits { qps: f64::NAN, ..Limits::default() },
            Limits { burst: 0, ..Limits::default() },
            Limits { in_flight: 0, ..Limits::default() },
        ] {
            assert!(limits.problem().is_some(), "{limits:?}");
        }
        // Neither panics: a day a request, and a number of requests that no semaphore has.
        let _ = Limiter::new(Limits { qps: f64::MIN_POSITIVE, burst: u32::MAX, in_flight: usize::MAX });
    }
}
