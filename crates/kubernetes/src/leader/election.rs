//! Leader election: the decision. Pure functions of the observed Lease and the time.
//!
//! As in Kubernetes' client-go, the clocks of two machines are never compared: a lease expires when its
//! record has not changed for its duration, by the clock of the observer. This module sends no requests.

use std::time::Duration;

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

/// A Lease as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its resourceVersion: the precondition of every write.
    pub version: String,
    /// The holder; `None` if the Lease was released.
    pub holder: Option<String>,
    /// Its duration as the holder wrote it.
    pub duration: Duration,
}

/// A record, and since when it has been observed unchanged.
#[derive(Clone, Debug)]
pub struct ObservedLease {
    pub record: Record,
    pub since: Instant,
}

impl ObservedLease {
    /// Applies a read. Only a changed record restarts the holder's duration.
    pub fn update(observed: Option<Self>, record: Record, now: Instant) -> Self {
        match observed {
            Some(observed) if observed.record.version == record.version => observed,
            _ => Self { record, since: now },
        }
    }
}

/// The next step of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is no Lease: create it, held by this process.
    Create,
    /// Acquire or renew the Lease, with this version as a precondition.
    Write { version: String },
    /// Another process holds it: read it again after this time, or when it changes.
    Wait(Duration),
}

/// The next step of the candidate `me`, which has `observed` the Lease (`None`: there is none).
pub fn next(me: &str, observed: Option<&ObservedLease>, now: Instant) -> Step {
    let Some(ObservedLease { record, since }) = observed else { return Step::Create };
    let write = || Step::Write { version: record.version.clone() };
    match &record.holder {
        Some(holder) if holder != me => {
            let left = (*since + record.duration).saturating_duration_since(now);
            if left.is_zero() { write() } else { Step::Wait(left) }
        }
        _ => write(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, ObservedLease, Record, Step, Timing, next};

    fn record(version: &str, holder: Option<&str>) -> Record {
        let holder = holder.map(str::to_owned);
        Record { version: version.to_owned(), holder, duration: Duration::from_secs(15) }
    }

    fn write(version: &str) -> Step {
        Step::Write { version: version.to_owned() }
    }

    #[test]
    fn a_missing_lease_is_created_and_a_released_or_own_one_is_written() {
        let now = Instant::now();
        assert_eq!(next("a", None, now), Step::Create);
        for holder in [None, Some("a")] {
            let observed = ObservedLease::update(None, record("7", holder), now);
            assert_eq!(next("a", Some(&observed), now), write("7"));
        }
    }

    #[test]
    fn the_lease_of_another_process_is_taken_only_after_it_was_unchanged_for_its_duration() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let observed = ObservedLease::update(None, record("7", Some("b")), start);
        assert_eq!(next("a", Some(&observed), at(14)), Step::Wait(Duration::from_secs(1)));
        assert_eq!(next("a", Some(&observed), at(15)), write("7"));
        let observed = ObservedLease::update(Some(observed), record("7", Some("b")), at(10));
        assert_eq!(next("a", Some(&observed), at(15)), write("7"), "the same version again renews nothing");
        let observed = ObservedLease::update(Some(observed), record("8", Some("b")), at(10));
        assert_eq!(next("a", Some(&observed), at(24)), Step::Wait(Duration::from_secs(1)));
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
