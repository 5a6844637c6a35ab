//! Fair shares: whoever waits is served in turns, one of each namespace, and no namespace has everything.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// How many times as much as is free a namespace may have: it gets three quarters at most, two get three
/// sevenths each, and so on. Something is left for a namespace that has nothing.
const SHARE: usize = 3;

/// What waits, by namespace. Namespaces take turns.
#[derive(Debug)]
pub struct Turns<W> {
    waiting: BTreeMap<Arc<str>, VecDeque<W>>,
    /// The namespaces in which something waits.
    order: VecDeque<Arc<str>>,
}

impl<W> Default for Turns<W> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<W> Turns<W> {
    /// Adds one.
    pub fn push(&mut self, namespace: Arc<str>, waiter: W) {
        let waiting = self.waiting.entry(Arc::clone(&namespace)).or_default();
        if waiting.is_empty() {
            self.order.push_back(namespace);
        }
        waiting.push_back(waiter);
    }

    /// The next one.
    pub fn pop(&mut self) -> Option<W> {
        self.pop_of(|_| true).map(|(_, waiter)| waiter)
    }

    /// The next one of a namespace that may have a turn.
    fn pop_of(&mut self, may: impl Fn(&str) -> bool) -> Option<(Arc<str>, W)> {
        let (namespace, mut waiting) = self.take_of(may)?;
        let waiter = waiting.pop_front()?;
        self.put_back(&namespace, waiting);
        Some((namespace, waiter))
    }

    /// All that waits in the next namespace that may have a turn. What is left is [put back](Self::put_back).
    pub(crate) fn take_of(&mut self, may: impl Fn(&str) -> bool) -> Option<(Arc<str>, VecDeque<W>)> {
        let at = self.order.iter().position(|namespace| may(namespace))?;
        let namespace = self.order.remove(at)?;
        let waiting = self.waiting.remove(&namespace)?;
        Some((namespace, waiting))
    }

    pub(crate) fn put_back(&mut self, namespace: &Arc<str>, waiting: VecDeque<W>) {
        if !waiting.is_empty() {
            self.order.push_back(Arc::clone(namespace));
            self.waiting.insert(Arc::clone(namespace), waiting);
        }
    }
}

/// A semaphore whose permits go round by namespace. Clones share the permits.
#[derive(Clone, Debug)]
pub struct Permits(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    free: usize,
    /// How many permits each namespace has; only those that have some.
    held: BTreeMap<Arc<str>, usize>,
    waiting: Turns<oneshot::Sender<Permit>>,
}

/// Gives its place back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    namespace: Arc<str>,
    permits: Permits,
}

impl Shared {
    fn may_have(&self, namespace: &str) -> bool {
        has_share(self.free, &self.held, namespace)
    }

    fn take(&mut self, namespace: &Arc<str>) {
        self.free -= 1;
        *self.held.entry(Arc::clone(namespace)).or_default() += 1;
    }

    fn put_back(&mut self, namespace: &Arc<str>) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(namespace) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(namespace);
            }
        }
    }

    /// Who gets a permit now.
    fn next(&mut self) -> Option<(Arc<str>, oneshot::Sender<Permit>)> {
        loop {
            let (free, held) = (self.free, &self.held);
            let (namespace, waiter) = self.waiting.pop_of(|namespace| has_share(free, held, namespace))?;
            // Who waited may be gone.
            if !waiter.is_closed() {
                self.take(&namespace);
                return Some((namespace, waiter));
            }
        }
    }
}

/// Whether a namespace may have one more.
fn has_share(free: usize, held: &BTreeMap<Arc<str>, usize>, namespace: &str) -> bool {
    held.get(namespace).copied().unwrap_or(0) < free.saturating_mul(SHARE)
}

impl Permits {
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(Shared { free: count, held: BTreeMap::new(), waiting: Turns::default() })))
    }

    /// Waits for a permit. It is never refused.
    pub async fn acquire(&self, namespace: &Arc<str>) -> Option<Permit> {
        let waits = {
            let mut shared = self.0.lock();
            if !shared.waiting.waiting.contains_key(namespace) && shared.may_have(namespace) {
                shared.take(namespace);
                return Some(self.permit(namespace));
            }
            let (waiter, waits) = oneshot::channel();
            shared.waiting.push(Arc::clone(namespace), waiter);
            waits
        };
        waits.await.ok()
    }

    /// A permit, if the namespace may have one at once.
    pub fn try_acquire(&self, namespace: &Arc<str>) -> Option<Permit> {
        let mut shared = self.0.lock();
        shared.may_have(namespace).then(|| {
            shared.take(namespace);
            self.permit(namespace)
        })
    }

    fn permit(&self, namespace: &Arc<str>) -> Permit {
        Permit { namespace: Arc::clone(namespace), permits: self.clone() }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.0.lock().put_back(&self.namespace);
        loop {
            let next = self.permits.0.lock().next();
            let Some((namespace, waiter)) = next else { return };
            // If its receiver is gone by now, the permit is dropped, and is free again.
            drop(waiter.send(self.permits.permit(&namespace)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;

    use super::{Permit, Permits, Turns};

    fn name(namespace: &str) -> Arc<str> {
        namespace.into()
    }

    #[test]
    fn namespaces_take_turns_and_each_keeps_its_order() {
        let mut turns = Turns::default();
        for (namespace, waiter) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)] {
            turns.push(name(namespace), waiter);
        }
        let all: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(all, [1, 4, 5, 2, 6, 3]);
        assert!(turns.waiting.is_empty() && turns.order.is_empty());
    }

    /// The permits that a namespace gets at once.
    fn all(permits: &Permits, namespace: &str) -> Vec<Permit> {
        std::iter::from_fn(|| permits.try_acquire(&name(namespace))).collect()
    }

    #[test]
    fn no_namespace_has_all_permits() {
        for (count, expected) in [(1, 1), (2, 2), (4, 3), (16, 12), (100, 75)] {
            let permits = Permits::new(count);
            assert_eq!(all(&permits, "noisy").len(), expected, "of {count}");
        }
        let permits = Permits::new(100);
        let noisy: Vec<_> = ["a", "b", "c"].map(|namespace| all(&permits, namespace)).into();
        assert!(!all(&permits, "quiet").is_empty());
        drop(noisy);
        assert_eq!(all(&permits, "a").len(), 75, "all are free again");
    }

    #[tokio::test]
    async fn who_gives_up_takes_no_permit_along() {
        let permits = Permits::new(1);
        let namespace = name("shop");
        let first = permits.acquire(&namespace).await;
        let mut waits: Vec<_> = (0..4).map(|_| Box::pin(permits.acquire(&namespace))).collect();
        for waits in &mut waits {
            assert!(waits.now_or_never().is_none());
        }
        // One gives up while it waits, the next one when it has its turn.
        drop(waits.remove(0));
        drop(first);
        drop(waits.remove(0));
        let third = waits.remove(0).now_or_never();
        assert!(third.flatten().is_some());
        assert!(waits.remove(0).now_or_never().flatten().is_some());
        assert_eq!(all(&permits, "shop").len(), 1);
    }
}
