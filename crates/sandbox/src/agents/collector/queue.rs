//! A work queue: an item is in it once, and is not worked on twice at a time. It sends nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// The UID of an object.
pub(super) type Uid = String;

/// What is done with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Its dependents are released, then its finalizer `orphan`.
    Orphan,
    /// It is deleted if no owner keeps it; its finalizer `foregroundDeletion` is removed if no dependent blocks it.
    Delete,
}

/// The wait after a first failure; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(5);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(1000);

/// Items to work on, first in, first out.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Uid>,
    /// In `waiting`, or to be put there once a worker is done with it.
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

    /// How many items are worked on.
    pub(super) fn working(&self) -> usize {
        self.working.len()
    }

    /// The next item to work on.
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

    /// When the next failed item is due.
    pub(super) fn retry(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    /// A worker is done with an item. One that failed comes again after a backoff.
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
    async fn an_item_added_while_it_is_worked_on_comes_once_more_after_it() {
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
    async fn a_failed_item_waits_twice_as_long_each_time() {
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
