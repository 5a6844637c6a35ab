//! Backoff after the n-th failure, without jitter: equal runs wait equally long.

use std::time::Duration;

use kube_runtime::utils::Backoff;

const FIRST: Duration = Duration::from_millis(5);
const FIRST_REFUSAL: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);
/// The first backoff of a watch is longer than that of a write: when a watch fails, all requests fail.
const FIRST_WATCH: Duration = Duration::from_millis(500);

/// The backoff after that many failures in a row.
pub(crate) fn after(failures: u32) -> Duration {
    double(FIRST, failures.saturating_sub(1))
}

/// The backoff after that many refused evictions in a row. A budget usually allows the eviction a moment after a pod becomes
/// ready; otherwise a user has to act.
pub(crate) fn after_refusal(times: u32) -> Duration {
    double(FIRST_REFUSAL, times.saturating_sub(1))
}

fn double(first: Duration, times: u32) -> Duration {
    1_u32.checked_shl(times).and_then(|factor| first.checked_mul(factor)).unwrap_or(LONGEST).min(LONGEST)
}

/// The backoff of a watch.
#[derive(Debug, Default)]
pub(crate) struct WatchBackoff {
    failures: u32,
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = double(FIRST_WATCH, self.failures);
        self.failures = self.failures.saturating_add(1);
        Some(wait)
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::after;

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
