//! Backoff for pods that their kubelets fail repeatedly.
//!
//! A kubelet that refuses a pod (`OutOfcpu`, `NodeAffinity`, `UnexpectedAdmissionError`), or evicts it soon
//! after its start, is likely to do the same with the next one, and an immediate replacement for each would
//! be a storm. So the replacement of a pod that failed young waits: a second, and twice as long for each
//! failure that it follows, at most five minutes. Each failed pod delays only its own replacement; other
//! replacements and additional pods do not wait for it.
//!
//! The backoff is computed from the failed pods themselves: a restart of the controller loses nothing, and a
//! user ends the wait by deleting them. Only the wait itself is measured by the controller's clock, from the
//! time when it saw the failure: with a clock that is hours ahead of the API server's, every wait would
//! otherwise be over before it began. For failures before its first reconciliation a controller knows only
//! the API server's time: with a clock that is ahead, a restart ends the current wait. The planner never
//! deletes failed pods.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

use crate::{Failed, Pod};

/// The first wait.
const FIRST: SignedDuration = SignedDuration::from_secs(1);
/// The longest wait.
const LONGEST: SignedDuration = SignedDuration::from_mins(5);
/// A pod that lived this long is replaced at once when it fails. A failure is forgotten after the same time.
const MATURE: SignedDuration = SignedDuration::from_mins(10);

/// The current failures.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// By the UID of the set: since when each delayed replacement waits.
    waiting: BTreeMap<std::sync::Arc<str>, Vec<Timestamp>>,
    /// When the next replacement has waited long enough.
    pub(crate) next: Option<Timestamp>,
    /// The message about repeated failures: of the longest row, the last failure.
    pub(crate) message: Option<String>,
}

/// A pod that failed young, and the length of the row of failures that it ends.
struct Failure<'a> {
    pod: &'a Pod,
    failed: &'a Failed,
    created: Timestamp,
    row: u32,
}

impl Failure<'_> {
    fn wait(&self) -> SignedDuration {
        let factor = 1_i32.checked_shl(self.row.saturating_sub(1)).filter(|factor| *factor > 0);
        factor.and_then(|factor| FIRST.checked_mul(factor)).map_or(LONGEST, |wait| wait.min(LONGEST))
    }

    fn until(&self) -> Timestamp {
        self.failed.seen.checked_add(self.wait()).unwrap_or(Timestamp::MAX)
    }
}

impl Backoff {
    /// Of these failed pods, which are not terminating.
    pub(crate) fn of_failed<'p>(failed: impl IntoIterator<Item = &'p Pod>, now: Timestamp) -> Self {
        let mut by_set: BTreeMap<_, Vec<Failure<'_>>> = BTreeMap::new();
        for pod in failed {
            if let Some(failure) = young(pod) {
                by_set.entry(std::sync::Arc::clone(&pod.set)).or_default().push(failure);
            }
        }
        let mut backoff = Self::default();
        let mut worst: Option<(u32, Timestamp, String)> = None;
        for (set, mut failures) in by_set {
            count_rows(&mut failures);
            let waiting = failures.iter().filter(|failure| failure.until() > now);
            backoff.waiting.insert(set, waiting.clone().map(|failure| failure.failed.seen).collect());
            backoff.next = backoff.next.into_iter().chain(waiting.map(Failure::until)).min();
            for failure in failures.iter().filter(|failure| failure.row > 1) {
                let is_recent = now.duration_since(failure.failed.seen) < MATURE;
                let rank = (failure.row, failure.failed.at);
                if is_recent && worst.as_ref().is_none_or(|(row, at, _)| rank > (*row, *at)) {
                    worst = Some((rank.0, rank.1, message(failure)));
                }
            }
        }
        backoff.message = worst.map(|(.., message)| message);
        backoff
    }

    /// How many pods of that set must not be created yet.
    pub(crate) fn waiting(&self, set: &str) -> i64 {
        self.waiting.get(set).map_or(0, |since| i64::try_from(since.len()).unwrap_or(i64::MAX))
    }

    /// Since when they wait.
    pub(crate) fn since(&self, set: &str) -> impl Iterator<Item = Timestamp> {
        self.waiting.get(set).into_iter().flatten().copied()
    }
}

fn young(pod: &Pod) -> Option<Failure<'_>> {
    let failed = pod.failed.as_deref()?;
    let created = pod.facts.created?;
    let is_young = failed.at.duration_since(created) < MATURE;
    is_young.then_some(Failure { pod, failed, created, row: 1 })
}

/// A failure follows another if its pod was created after that failure, and not long after. Pods that fail
/// together count as one failure: none of them follows another.
fn count_rows(failures: &mut [Failure<'_>]) {
    failures.sort_by(|one, other| {
        (one.created, one.failed.at, &one.pod.facts.uid).cmp(&(
            other.created,
            other.failed.at,
            &other.pod.facts.uid,
        ))
    });
    let mut by_end: Vec<usize> = (0..failures.len()).collect();
    by_end.sort_by_key(|index| (failures[*index].failed.at, *index));
    let mut ended = by_end.into_iter().peekable();
    // Failures that a later one may follow, by time, without those that a later and longer row replaces.
    let mut before: VecDeque<(Timestamp, u32)> = VecDeque::new();
    for index in 0..failures.len() {
        let created = failures[index].created;
        // A failure before this pod's creation belongs to a pod that was created earlier: its row is known.
        while let Some(other) = ended.next_if(|other| failures[*other].failed.at < created) {
            let (at, row) = (failures[other].failed.at, failures[other].row);
            while before.back().is_some_and(|(_, less)| *less <= row) {
                before.pop_back();
            }
            before.push_back((at, row));
        }
        while before.front().is_some_and(|(at, _)| created.duration_since(*at) >= MATURE) {
            before.pop_front();
        }
        failures[index].row = before.front().map_or(1, |(_, row)| row.saturating_add(1));
    }
}

fn message(failure: &Failure<'_>) -> String {
    let Failure { pod, failed, row, .. } = failure;
    let node = pod.facts.node.as_ref().map(|node| format!(" on node {node}")).unwrap_or_default();
    let words = [&*failed.reason, &*failed.message];
    let words = words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": ");
    let why = if words.is_empty() { String::new() } else { format!(" ({words})") };
    format!(
        "Pod {} failed{node}{why}, {row} in a row: its replacement waits {} seconds. Deleting the failed \
         pods ends the waiting",
        pod.name,
        failure.wait().as_secs(),
    )
}

#[cfg(test)]
#[path = "backoff/tests.rs"]
mod tests;
