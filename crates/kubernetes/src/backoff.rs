//! Backoff after the n-th failure or change. Equal runs wait equally long.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube_runtime::watcher;
use tokio::time::{Instant, sleep};

use crate::client::error::{RequestError, with_causes};

const FIRST: Duration = Duration::from_millis(5);
const FIRST_REFUSAL: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);
/// How many changes of an object are read at once. Then one waits for [`FIRST_PACE`], the next twice as long.
const AT_ONCE: u32 = 10;
const FIRST_PACE: Duration = Duration::from_millis(50);
const LONGEST_PACE: Duration = Duration::from_secs(2);
/// After that long without a change, the next ones are read at once again.
const QUIET: Duration = Duration::from_secs(10);
/// The first backoff of a watch is longer than that of a write: when a watch fails, all requests fail.
/// Watches wait between half of it and all of it, so that not all of them ask at one moment. As in
/// client-go's reflector, 0.8 to 30 seconds.
const FIRST_WATCH: Duration = Duration::from_millis(1600);
/// How long a watch must not fail before its backoff begins anew. A watch can fail after each list.
const WORKS: Duration = Duration::from_secs(120);

/// The backoff after that many failures in a row.
#[must_use]
pub fn after(failures: u32) -> Duration {
    double(FIRST, failures.saturating_sub(1))
}

/// The backoff after that many refused evictions in a row. A budget usually allows the eviction a moment
/// after a pod becomes ready; otherwise a user has to act.
#[must_use]
pub fn after_refusal(times: u32) -> Duration {
    double(FIRST_REFUSAL, times.saturating_sub(1))
}

fn double(first: Duration, times: u32) -> Duration {
    1_u32.checked_shl(times).and_then(|factor| first.checked_mul(factor)).unwrap_or(LONGEST).min(LONGEST)
}

/// How often the changes of one object are read. A client that never stops makes them rarer.
#[derive(Debug, Default)]
pub struct Pace {
    /// The reads without a quiet time between them, and the last one.
    reads: u32,
    last: Option<Instant>,
}

impl Pace {
    /// How long the next read has to wait; `None`: it may begin.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let times = self.reads.checked_sub(AT_ONCE)?;
        let next = self.last? + double(FIRST_PACE, times).min(LONGEST_PACE);
        Some(next.saturating_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// A read begins.
    pub fn count(&mut self, now: Instant) {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) >= QUIET) {
            self.reads = 0;
        }
        self.reads = self.reads.saturating_add(1);
        self.last = Some(now);
    }
}

/// The backoff of a watch.
#[derive(Debug, Default)]
struct WatchBackoff {
    failures: u32,
    last: Option<Instant>,
    logged: Option<String>,
}

impl WatchBackoff {
    /// The wait after this failure of that watch.
    fn after(&mut self, what: &str, failure: &watcher::Error) -> Duration {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.saturating_duration_since(last) >= WORKS) {
            *self = Self::default();
        }
        let message = with_causes(failure);
        if self.logged.as_ref() != Some(&message) {
            // Once, however long it lasts.
            tracing::warn!(error = message, what, "a watch failed and is tried again");
            self.logged = Some(message);
        }
        let longest = double(FIRST_WATCH, self.failures);
        self.failures = self.failures.saturating_add(1);
        let mut hasher = DefaultHasher::new();
        (what, self.failures).hash(&mut hasher);
        let part = u32::try_from(hasher.finish() % 1024).unwrap_or(0);
        let wait = longest / 2 + longest / 2048 * part;
        let wait = wait.max(asked(failure).unwrap_or_default());
        self.last = Some(now + wait);
        wait
    }
}

/// How long the answer asks to wait.
fn asked(failure: &watcher::Error) -> Option<Duration> {
    match failure {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) => RequestError::Answered(status.clone()).retry_after(),
            _ => None,
        },
        watcher::Error::WatchError(status) => RequestError::Answered(status.clone()).retry_after(),
        watcher::Error::NoResourceVersion => None,
    }
}

/// The watch that `open` begins. It logs its failures once, and waits after each, as client-go's reflector.
pub fn patient<T, S>(what: &'static str, open: impl Fn() -> S) -> impl Stream<Item = watcher::Result<T>>
where
    S: Stream<Item = watcher::Result<T>>,
{
    let begin = (Box::pin(open()), open, WatchBackoff::default(), None);
    stream::unfold(begin, move |(mut events, open, mut backoff, wait)| async move {
        if let Some(wait) = wait {
            sleep(wait).await;
        }
        let event = events.next().await?;
        let wait = event.as_ref().err().map(|failure| backoff.after(what, failure));
        if event.as_ref().is_err_and(is_expired) {
            events.set(open());
        }
        Some((event, (events, open, backoff, wait)))
    })
}

/// Whether the version from which the watch goes on is too old, and the API server says so before the watch
/// is open: `watcher` would ask for the same version for ever.
fn is_expired(failure: &watcher::Error) -> bool {
    matches!(failure, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{AT_ONCE, LONGEST_PACE, Pace, QUIET, after};

    #[test]
    fn changes_without_end_are_read_more_and_more_rarely_until_the_object_is_quiet() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..AT_ONCE + 10 {
            let wait = pace.wait(now).unwrap_or_default();
            waits.push(u64::try_from(wait.as_millis()).unwrap());
            now += wait;
            pace.count(now);
        }
        let (at_once, later) = waits.split_at(AT_ONCE as usize);
        assert!(at_once.iter().all(|wait| *wait == 0), "{waits:?}");
        assert_eq!(later, [50, 100, 200, 400, 800, 1600, 2000, 2000, 2000, 2000]);
        assert_eq!(pace.wait(now + LONGEST_PACE), None, "a change now and then does not wait");
        now += QUIET;
        for _ in 0..AT_ONCE {
            assert_eq!(pace.wait(now), None);
            pace.count(now);
        }
        assert!(pace.wait(now).is_some());
    }

    #[test]
    fn backoff_doubles_up_to_half_a_minute() {
        let waits: Vec<_> = (1..=4).map(after).collect();
        assert_eq!(waits, [5, 10, 20, 40].map(Duration::from_millis));
        assert_eq!(after(13), Duration::from_millis(5 << 12));
        for failures in [14, 32, 33, 34, 1000, u32::MAX] {
            assert_eq!(after(failures), Duration::from_secs(30), "{failures}");
        }
    }
}
