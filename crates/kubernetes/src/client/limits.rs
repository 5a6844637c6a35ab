//! Limits: how many requests are sent per second, and how many are in flight.
//!
//! A token bucket as in client-go (`util/flowcontrol`), with tokio's clock, which tests can advance.
//! Namespaces take turns: many requests of one do not delay those of another. Requests without a namespace,
//! and Events, have turns as if they were one more. Not limited are watches, which would miss events, and the
//! Lease and the probe, which must not wait.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use crate::fair::{Permit, Permits};

/// The limits of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Requests per second on average; 0: no limit.
    pub qps: f64,
    /// The most requests at once after an idle time.
    pub burst: u32,
    /// The most requests in flight.
    pub in_flight: usize,
}

impl Default for Limits {
    /// More than a rollout needs, and less than overloads an API server. Each request in flight has a
    /// connection, and a connection keeps its buffers: 100 KB and more after a long list.
    fn default() -> Self {
        Self { qps: 500.0, burst: 1000, in_flight: 100 }
    }
}

impl Limits {
    /// Why these limits are invalid, if they are.
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

/// Enforces the limits. Clones share them.
#[derive(Clone, Debug)]
pub struct Limiter(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    bucket: Option<Bucket>,
    /// Has one permit: who has it waits for the next token of the bucket.
    next: Permits,
    in_flight: Permits,
    for_object: usize,
}

impl Limiter {
    /// A limiter with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let bucket = (limits.qps > 0.0).then(|| Bucket::new(limits.qps, limits.burst));
        // A semaphore has a maximum size, larger than any useful limit.
        let in_flight = limits.in_flight.clamp(1, Semaphore::MAX_PERMITS);
        let for_object = in_flight.div_ceil(4);
        Self(Arc::new(Kept { bucket, next: Permits::new(1), in_flight: Permits::new(in_flight), for_object }))
    }

    /// How many requests one object may have in flight: a quarter, so that it blocks no other.
    #[must_use]
    pub fn for_object(&self) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(self.0.for_object))
    }

    /// Waits until a request of that namespace may be sent. It is in flight as long as the permit.
    pub async fn wait(&self, namespace: &Arc<str>) -> Option<Permit> {
        let permit = self.0.in_flight.acquire(namespace).await;
        self.wait_for_next(namespace).await;
        permit
    }

    /// Waits until the next request of one that counts as in flight may be sent: the next page of a list.
    pub async fn wait_for_next(&self, namespace: &Arc<str>) {
        if let Some(bucket) = &self.0.bucket {
            let _next = self.0.next.acquire(namespace).await;
            let now = Instant::now();
            let at = bucket.reserve(now);
            // A sleep takes a millisecond at least.
            if at > now {
                sleep_until(at).await;
            }
        }
    }
}

const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// A token bucket with a constant fill rate. A reservation returns the time of the request, in order.
#[derive(Debug)]
struct Bucket {
    /// The time in which one token is added.
    interval: Duration,
    /// The time in which all but one are added.
    ahead: Duration,
    /// When the bucket would be full if it could be overdrawn.
    full: Mutex<Option<Instant>>,
}

impl Bucket {
    fn new(qps: f64, burst: u32) -> Self {
        // A rate below one per day counts as one per day.
        let interval = Duration::try_from_secs_f64(1.0 / qps).unwrap_or(Duration::MAX).min(A_DAY);
        Self { interval, ahead: interval.saturating_mul(burst.saturating_sub(1)), full: Mutex::new(None) }
    }

    fn reserve(&self, now: Instant) -> Instant {
        let mut full = self.full.lock();
        let filled = full.map_or(now, |full| full.max(now));
        *full = Some(filled + self.interval);
        filled.checked_sub(self.ahead).map_or(now, |at| at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Bucket, Limiter, Limits};

    #[test]
    fn a_burst_is_sent_at_once_and_then_one_request_at_a_time() {
        let bucket = Bucket::new(10.0, 3);
        let now = Instant::now();
        let waits: Vec<_> = (0..5).map(|_| bucket.reserve(now).duration_since(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        let later = now + Duration::from_secs(60);
        let waits: Vec<_> = (0..4).map(|_| bucket.reserve(later).duration_since(later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100], "what was not used is no more than a burst");
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_requests_in_flight_is_limited() {
        let limiter = Limiter::new(Limits { qps: 0.0, burst: 1, in_flight: 2 });
        let namespace = "shop".into();
        let first = limiter.wait(&namespace).await;
        let _second = limiter.wait(&namespace).await;
        let third = limiter.wait(&namespace);
        let mut third = std::pin::pin!(third);
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut third).await.is_err());
        drop(first);
        assert!(third.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_at_most_one_of_each_other_namespace() {
        let limiter = Limiter::new(Limits { qps: 10.0, burst: 1, in_flight: 100 });
        let [noisy, none, quiet] = ["noisy", "", "quiet"].map(Arc::<str>::from);
        let crowd = (0..200).map(|_| limiter.wait(&noisy)).chain((0..200).map(|_| limiter.wait(&none)));
        let mut crowd = Box::pin(futures::future::join_all(crowd));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut crowd).await.is_err());
        let began = Instant::now();
        tokio::select! {
            biased;
            _ = &mut crowd => panic!("it waited for all others"),
            _ = limiter.wait(&quiet) => {}
        }
        // Its own token, one of each other namespace, and the one that is being waited for.
        assert!(began.elapsed() <= Duration::from_millis(400), "{:?}", began.elapsed());
    }

    #[test]
    fn limits_that_allow_no_request_are_refused() {
        assert_eq!(Limits::default().problem(), None);
        for limits in [
            Limits { qps: -1.0, ..Limits::default() },
            Limits { qps: f64::NAN, ..Limits::default() },
            Limits { burst: 0, ..Limits::default() },
            Limits { in_flight: 0, ..Limits::default() },
        ] {
            assert!(limits.problem().is_some(), "{limits:?}");
        }
        // Neither panics: one request a day, and more requests in flight than a semaphore supports.
        let _ = Limiter::new(Limits { qps: f64::MIN_POSITIVE, burst: u32::MAX, in_flight: usize::MAX });
    }
}
