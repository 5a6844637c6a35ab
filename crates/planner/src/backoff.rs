//! Pods that their kubelets fail again and again: how long the replacement of each waits.
//!
//! A kubelet that refuses a pod (`OutOfcpu`, `NodeAffinity`, `UnexpectedAdmissionError`), or evicts it soon after its
//! start, may well do so with the next one, and a pod made at once for each that failed would be a storm. So the
//! replacement of a pod that failed young waits: a second, and twice as long for each failure that it follows, at most
//! five minutes. Each failed pod keeps only its own replacement waiting: others, and pods that are to come besides, do
//! not wait for it.
//!
//! All of it is read from the failed pods themselves, so that a restart of the controller forgets nothing, and whoever
//! deletes them ends the waiting. Only the waiting itself goes by the controller's clock, from when it saw the failure: by a
//! clock that is hours ahead of the API server's every wait would be over before it began. Of what failed before its first
//! look a controller knows the API server's time alone: where its clock is ahead, a restart ends the wait under way. It never
//! deletes one.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

use crate::{Failed, Pod, Snapshot};

/// The first wait.
const FIRST: SignedDuration = SignedDuration::from_secs(1);
/// The longest wait.
const LONGEST: SignedDuration = SignedDuration::from_mins(5);
/// A pod that lived as long failed for a reason of its own: it is replaced at once. After as long a failure is forgotten.
const MATURE: SignedDuration = SignedDuration::from_mins(10);

/// The failures that count now.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// By the UID of the set: since when each replacement waits that does.
    waiting: BTreeMap<std::sync::Arc<str>, Vec<Timestamp>>,
    /// When the next of them has waited long enough.
    pub(crate) next: Option<Timestamp>,
    /// What to tell, where pods failed again: of the longest row the last one.
    pub(crate) told: Option<String>,
}

/// A pod that failed young, and how many failures in a row it ends.
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
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let mut by_set: BTreeMap<_, Vec<Failure<'_>>> = BTreeMap::new();
        for pod in snapshot.pods.iter().filter(|pod| !pod.terminating) {
            if let Some(failure) = young(pod) {
                by_set.entry(std::sync::Arc::clone(&pod.set)).or_default().push(failure);
            }
        }
        let mut backoff = Self::default();
        let mut worst: Option<(u32, Timestamp, String)> = None;
        for (set, mut failures) in by_set {
            count_rows(&mut failures);
            let waiting = failures.iter().filter(|failure| failure.until() > snapshot.now);
            backoff.waiting.insert(set, waiting.clone().map(|failure| failure.failed.seen).collect());
            backoff.next = backoff.next.into_iter().chain(waiting.map(Failure::until)).min();
            for failure in failures.iter().filter(|failure| failure.row > 1) {
                let is_recent = snapshot.now.duration_since(failure.failed.seen) < MATURE;
                let rank = (failure.row, failure.failed.at);
                if is_recent && worst.as_ref().is_none_or(|(row, at, _)| rank > (*row, *at)) {
                    worst = Some((rank.0, rank.1, message(failure)));
                }
            }
        }
        backoff.told = worst.map(|(.., message)| message);
        backoff
    }

    /// How many pods of that set must not be made yet.
    pub(crate) fn waiting(&self, set: &str) -> i64 {
        self.waiting.get(set).map_or(0, |since| i64::try_from(since.len()).unwrap_or(i64::MAX))
    }

    /// Since when these wait.
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

/// A failure follows another where its pod was made after that one had failed, and not long after. Pods that fail together
/// are one failure: they follow none of each other.
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
    // Those that one may follow, by their end, without any that a later one outdoes.
    let mut before: VecDeque<(Timestamp, u32)> = VecDeque::new();
    for index in 0..failures.len() {
        let created = failures[index].created;
        // What ended before this one was made was made before it too: its row is known.
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
        "Pod {} failed{node}{why}, {row} in a row: its replacement waits {} seconds. Deleting the failed pods ends the \
         waiting",
        pod.name,
        failure.wait().as_secs(),
    )
}

#[cfg(test)]
#[path = "backoff/tests.rs"]
mod tests;
