//! Leader election: the decision. Pure functions of the observed Lease and the time.
//!
//! As in Kubernetes' client-go, the clocks of two machines are never compared: a lease expires when its
//! record has not changed for its duration, by the clock of the observer. This module sends no requests.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use tokio::time::Instant;

/// The times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease is valid without a renewal.
    pub lease: Duration,
    /// How long after its last renewal a leader still starts requests.
    pub renew_deadline: Duration,
    /// How often the leader renews.
    pub retry: Duration,
}

impl Default for Timing {
    /// The defaults of Kubernetes.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease: seconds(15), renew_deadline: seconds(10), retry: seconds(2) }
    }
}

impl Timing {
    /// Why these times cannot keep two leaders apart, if they cannot.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        if self.retry.is_zero() {
            return Some("the retry period must not be 0");
        }
        if self.renew_deadline <= self.retry {
            return Some("the renew deadline must be longer than the retry period");
        }
        if self.lease <= self.renew_deadline {
            return Some("the lease duration must be longer than the renew deadline");
        }
        None
    }
}

/// The Lease as it was read or written last, and since when it has been observed unchanged.
#[derive(Clone, Debug)]
pub struct ObservedLease {
    pub lease: Lease,
    pub since: Instant,
}

impl ObservedLease {
    /// Applies a read. Only a changed Lease restarts the holder's duration.
    pub fn update(observed: Option<Self>, lease: Lease, now: Instant) -> Self {
        match observed {
            Some(observed) if observed.lease.resource_version() == lease.resource_version() => observed,
            _ => Self { lease, since: now },
        }
    }

    /// The holder; `None` if the Lease was released.
    pub fn holder(&self) -> Option<&str> {
        let holder = self.lease.spec.as_ref()?.holder_identity.as_deref();
        holder.filter(|holder| !holder.is_empty())
    }

    /// How long the candidate `me` waits, as another process holds the Lease, for the duration that it wrote.
    pub fn wait(&self, me: &str, timing: Timing, now: Instant) -> Option<Duration> {
        self.holder().filter(|holder| *holder != me)?;
        let seconds = self.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lasts = seconds.map_or(timing.lease, Duration::from_secs);
        let left = (self.since + lasts).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Duration, Instant, ObservedLease, Timing};

    #[test]
    fn the_lease_of_another_process_is_taken_only_after_it_was_unchanged_for_its_duration() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let observe = |observed, version: &str, holder: &str, now| {
            let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 20});
            let lease = json!({"metadata": {"resourceVersion": version}, "spec": spec});
            ObservedLease::update(observed, serde_json::from_value(lease).unwrap(), now)
        };
        let wait = |observed: &ObservedLease, now| observed.wait("a", Timing::default(), now);
        for holder in ["", "a"] {
            assert_eq!(wait(&observe(None, "7", holder, start), start), None, "released, or its own");
        }
        let observed = observe(None, "7", "b", start);
        assert_eq!(wait(&observed, at(19)), Some(Duration::from_secs(1)));
        assert_eq!(wait(&observed, at(20)), None);
        let observed = observe(Some(observed), "7", "b", at(10));
        assert_eq!(wait(&observed, at(20)), None, "the same version again renews nothing");
        let observed = observe(Some(observed), "8", "b", at(10));
        assert_eq!(wait(&observed, at(29)), Some(Duration::from_secs(1)));
    }

    #[test]
    fn times_that_cannot_keep_two_leaders_apart_are_refused() {
        assert_eq!(Timing::default().problem(), None);
        let short = Timing { lease: Duration::from_secs(10), ..Timing::default() };
        assert!(short.problem().is_some());
        let hasty = Timing { renew_deadline: Duration::from_secs(2), ..Timing::default() };
        assert!(hasty.problem().is_some());
    }
}
