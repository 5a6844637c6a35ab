//! Failed writes of one object: since when, and when to try again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_kubernetes::backoff;
use ordereddeployment_planner::{Failure, FailureKind};
use tokio::time::Instant;

/// An eviction that the API server refused.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) uid: Arc<str>,
    /// The failure that is reported.
    pub(crate) failure: Failure,
    /// How many of the deployment's pods were ready then.
    pub(crate) ready: usize,
    /// How many refusals in a row.
    pub(crate) times: u32,
    /// The earliest time of the next attempt for the same pod.
    pub(crate) until: Instant,
}

/// The failures of one object.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Why the last act was not applied.
    pub(crate) current: Option<Failure>,
    /// Since when writes of each kind have failed without a success in between.
    pub(crate) since: BTreeMap<FailureKind, Timestamp>,
    /// The last refused eviction, until one is accepted.
    pub(crate) refused: Option<Refused>,
    /// Reconciliations in a row that failed.
    pub(crate) in_a_row: u32,
    /// The last error of these, which is logged once.
    pub(crate) error: Option<String>,
    /// The end of the wait that a `Retry-After` answer asked for.
    pub(crate) not_before: Option<Instant>,
}

impl Failures {
    /// Records that a write of that kind failed.
    pub(crate) fn failed(&mut self, what: FailureKind, message: String, now: Timestamp) -> Failure {
        let since = self.since.entry(what).or_insert(now);
        // If the clock was set back, the time starts again.
        *since = now.min(*since);
        Failure { what, message, since: *since }
    }

    /// Records that a write of that kind succeeded.
    pub(crate) fn succeeded(&mut self, what: FailureKind) {
        self.since.remove(&what);
    }

    /// The known answer to an eviction of that pod: the API server refused it recently, and no other pod has
    /// become ready since, which is what a budget waits for.
    pub(crate) fn refusal(&self, uid: &str, ready: usize, now: Instant) -> Option<&Failure> {
        let refused = self.refused.as_ref()?;
        let stands = *refused.uid == *uid && refused.ready == ready && now < refused.until;
        stands.then_some(&refused.failure)
    }

    /// Records a refused eviction.
    pub(crate) fn refuse(&mut self, uid: &Arc<str>, ready: usize, now: Instant, failure: Failure) {
        let before = self.refused.take().filter(|before| before.ready == ready);
        let times = before.map_or(0, |before| before.times).saturating_add(1);
        let until = now + backoff::after_refusal(times);
        self.refused = Some(Refused { uid: Arc::clone(uid), failure, ready, times, until });
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Failure, FailureKind, Failures, Instant, Timestamp};

    #[test]
    fn a_refused_eviction_is_retried_after_a_wait_or_once_other_pods_are_ready() {
        let mut failures = Failures::default();
        let (uid, now) = (Arc::<str>::from("p"), Instant::now());
        let failure =
            Failure { what: FailureKind::Evict, message: "no".into(), since: Timestamp::UNIX_EPOCH };
        assert_eq!(failures.refusal(&uid, 3, now), None);
        failures.refuse(&uid, 3, now, failure.clone());
        assert_eq!(failures.refusal(&uid, 3, now), Some(&failure));
        assert_eq!(failures.refusal("another", 3, now), None);
        assert_eq!(failures.refusal(&uid, 4, now), None);
        let wait = |failures: &Failures| failures.refused.as_ref().unwrap().until - now;
        let first = wait(&failures);
        assert_eq!(failures.refusal(&uid, 3, now + first), None);
        failures.refuse(&uid, 3, now, failure.clone());
        assert_eq!(wait(&failures), 2 * first);
        // A budget that follows the pods starts with the first wait again.
        failures.refuse(&uid, 4, now, failure);
        assert_eq!(wait(&failures), first);
    }

    #[test]
    fn a_row_of_failures_begins_at_the_first_one_after_a_success_of_the_same_kind() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut failures = Failures::default();
        let mut since = |what, second| failures.failed(what, "no".into(), at(second)).since.as_second();
        assert_eq!((since(FailureKind::Create, 10), since(FailureKind::Delete, 12)), (10, 12));
        assert_eq!((since(FailureKind::Create, 15), since(FailureKind::Delete, 16)), (10, 12));
        failures.succeeded(FailureKind::Create);
        let mut since = |what, second| failures.failed(what, "no".into(), at(second)).since.as_second();
        assert_eq!((since(FailureKind::Create, 20), since(FailureKind::Delete, 21)), (20, 12));
        // The clock was set back.
        assert_eq!(since(FailureKind::Create, 5), 5);
    }
}
