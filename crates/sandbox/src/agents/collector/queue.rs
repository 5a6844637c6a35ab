//! A work queue: it holds an item once, and only one worker at a time processes an item. It sends no
//! requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// The UID of an object.
pub(super) type Uid = String;

/// The task of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Release the dependents of the object, then remove its finalizer `orphan`.
    Orphan,
    /// Delete the object if no owner keeps it; remove its finalizer `foregroundDeletion` if no dependent
    /// blocks the deletion.
    Delete,
}

/// The backoff after the first failure; it doubles with each further failure.
const FIRST: Duration = Duration::from_millis(5);
/// The maximum backoff.
const LONGEST: Duration = Duration::from_secs(1000);

/// Items to process, first in, first out.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Uid>,
    /// Items in `waiting`, and items to add to it when their worker is done.
    dirty: BTreeSet<Uid>,
    working: BTreeSet<Uid>,
    failures: BTreeMap<Uid, u32>,
    later: BTreeSet<(Instant, Uid)>,
}

impl Queue {
    pub(super) fn add(&mut self, uid: Uid) {
        if self.dirty.insert(uid.clone()) && !self.working.contains(&uid) {
            self.waiting.push_back(uid);
        }
    }

    /// The number of items in progress.
    pub(super) fn working(&self) -> usize {
        self.working.len()
    }

    /// The next item to process.
    pub(super) fn next(&mut self, now: Instant) -> Option<Uid> {
        while self.retry().is_some_and(|at| at <= now) {
            if let Some((_, uid)) = self.later.pop_first() {
                self.add(uid);
            }
        }
        let uid = self.waiting.pop_front()?;
        self.dirty.remove(&uid);
        self.working.insert(uid.clone());
        Some(uid)
    }

    /// When the backoff of the next failed item ends.
    pub(super) fn retry(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Finishes an item. A failed item returns to the queue after a backoff.
    pub(super) fn done(&mut self, uid: &Uid, succeeded: bool, now: Instant) {
        self.working.remove(uid);
        if self.dirty.contains(uid) {
            self.waiting.push_back(uid.clone());
        }
        if succeeded {
            self.failures.remove(uid);
            return;
        }
        let failures = self.failures.entry(uid.clone()).or_default();
        let wait = FIRST.saturating_mul(1_u32.checked_shl(*failures).unwrap_or(u32::MAX)).min(LONGEST);
        *failures = failures.saturating_add(1);
        self.later.insert((now + wait, uid.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_item_added_while_a_worker_has_it_is_processed_once_more() {
        let mut queue = Queue::default();
        queue.add("a".to_owned());
        queue.add("a".to_owned());
        assert_eq!(queue.next(Instant::now()).as_deref(), Some("a"));
        queue.add("a".to_owned());
        assert_eq!(queue.next(Instant::now()), None);
        queue.done(&"a".to_owned(), true, Instant::now());
        assert_eq!(queue.next(Instant::now()).as_deref(), Some("a"));
        queue.done(&"a".to_owned(), true, Instant::now());
        assert_eq!(queue.next(Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_backoff_of_a_failed_item_doubles() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        queue.add("a".to_owned());
        let mut waits = Vec::new();
        for _ in 0..4 {
            let uid = queue.next(now).unwrap_or_default();
            queue.done(&uid, false, now);
            let next = queue.retry().unwrap_or(now);
            waits.push((next - now).as_millis());
            now = next;
        }
        assert_eq!(waits, [5, 10, 20, 40]);
    }
}
