//! The work queue: the deployments to reconcile, each at most once.
//!
//! As the work queue of client-go: a deployment that is added while it is reconciled waits until that
//! reconciliation has ended, so that nothing happens twice at a time, and all events of the meantime are
//! handled in one decision. An entry that no reconciliation blocks is taken at once. The queue has at most
//! one entry per deployment, also on a standby, which takes none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::ClientMetrics;

/// The namespace and the name of a deployment to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Named {
    /// That of this object.
    pub fn of(object: &impl ResourceExt) -> Self {
        Self { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
    }
}

/// Clones share one queue.
#[derive(Clone, Debug)]
pub struct Queue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    entries: Mutex<Entries>,
    added: Notify,
    metrics: Arc<ClientMetrics>,
    coalesce: Duration,
}

/// An entry that waits.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Instant,
    /// Whether an event added it, and not the end of a delay.
    by_event: bool,
}

impl Wait {
    /// When it may be taken at the earliest.
    fn due(self, coalesce: Duration) -> Instant {
        if self.by_event { self.since + coalesce } else { self.since }
    }
}

#[derive(Debug, Default)]
struct Entries {
    /// To reconcile now.
    waiting: BTreeMap<Named, Wait>,
    /// To reconcile at that time, unless they are added before.
    delayed: BTreeMap<Named, Instant>,
    /// The delayed ones by time.
    by_time: BTreeSet<(Instant, Named)>,
    /// Taken: how long a reconciliation waits for a worker; `None` once it has begun.
    taken: BTreeMap<Named, Option<Wait>>,
    /// How many reconciliations have begun.
    begun: usize,
    /// Whether a consumer takes entries at all.
    works: bool,
}

impl Entries {
    fn add(&mut self, deployment: Named, wait: Wait) {
        self.cancel_delay(&deployment);
        // A reconciliation that has not begun will see what this entry is about.
        if !matches!(self.taken.get(&deployment), Some(Some(_))) {
            self.waiting.entry(deployment).or_insert(wait);
        }
    }

    fn add_at(&mut self, deployment: Named, at: Instant) {
        self.cancel_delay(&deployment);
        self.by_time.insert((at, deployment.clone()));
        self.delayed.insert(deployment, at);
    }

    fn cancel_delay(&mut self, deployment: &Named) {
        if let Some(at) = self.delayed.remove(deployment) {
            self.by_time.remove(&(at, deployment.clone()));
        }
    }

    /// The next entry that is not being reconciled.
    fn take(&mut self, now: Instant, coalesce: Duration) -> Option<Named> {
        while let Some((_, deployment)) = self.by_time.first().filter(|(at, _)| *at <= now) {
            self.add(deployment.clone(), Wait { since: now, by_event: false });
        }
        let mut waiting = self.waiting.iter();
        let free = |(deployment, wait): &(&Named, &Wait)| {
            wait.due(coalesce) <= now && !self.taken.contains_key(*deployment)
        };
        let deployment = waiting.find(free)?.0.clone();
        let wait = self.waiting.remove(&deployment)?;
        self.taken.insert(deployment.clone(), Some(wait));
        Some(deployment)
    }

    fn depth(&self) -> usize {
        self.waiting.len() + self.taken.len() - self.begun
    }
}

impl Queue {
    /// Events of a deployment are collected for that long before it can be taken.
    #[must_use]
    pub fn new(metrics: Arc<ClientMetrics>, coalesce: Duration) -> Self {
        Self(Arc::new(Shared { entries: Mutex::default(), added: Notify::new(), metrics, coalesce }))
    }

    /// Adds a deployment to reconcile.
    pub fn add(&self, deployment: Named) {
        let mut entries = self.0.entries.lock();
        entries.add(deployment, Wait { since: Instant::now(), by_event: true });
        self.measure(&entries);
        self.0.added.notify_one();
    }

    /// Takes the next deployment to reconcile. [`Self::begin`] and [`Self::done`] must follow.
    pub async fn next(&self) -> Named {
        loop {
            let (next, soonest) = {
                let now = Instant::now();
                let mut entries = self.0.entries.lock();
                if !std::mem::replace(&mut entries.works, true) {
                    // Waiting times count from here: entries that were added earlier had no consumer.
                    entries.waiting.values_mut().for_each(|wait| wait.since = now);
                }
                let next = entries.take(now, self.0.coalesce);
                self.measure(&entries);
                let delayed = entries.by_time.first().map(|(at, _)| *at);
                // What is being reconciled is due already: its end wakes this task.
                let due = entries.waiting.values().map(|wait| wait.due(self.0.coalesce));
                (next, due.filter(|due| *due > now).chain(delayed).min())
            };
            if let Some(next) = next {
                return next;
            }
            let added = self.0.added.notified();
            match soonest {
                Some(at) => drop(timeout_at(at, added).await),
                None => added.await,
            }
        }
    }

    /// A reconciliation of that deployment begins. Returns the time of its event, if there is one.
    pub fn begin(&self, deployment: &Named) -> Option<Instant> {
        let mut entries = self.0.entries.lock();
        let wait = entries.taken.get_mut(deployment).and_then(Option::take)?;
        entries.begun += 1;
        self.0.metrics.queue_wait.observe(wait.since.elapsed().as_secs_f64());
        self.measure(&entries);
        wait.by_event.then_some(wait.since)
    }

    /// A reconciliation of that deployment has ended, or never began. It is repeated after `requeue`.
    pub fn done(&self, deployment: Named, requeue: Option<Duration>) {
        let mut entries = self.0.entries.lock();
        if let Some(None) = entries.taken.remove(&deployment) {
            entries.begun -= 1;
        }
        let at = requeue.and_then(|wait| Instant::now().checked_add(wait));
        if let Some(at) = at.filter(|_| !entries.waiting.contains_key(&deployment)) {
            entries.add_at(deployment, at);
        }
        self.measure(&entries);
        self.0.added.notify_one();
    }

    /// That deployment does not exist any more.
    pub fn forget(&self, deployment: &Named) {
        let mut entries = self.0.entries.lock();
        entries.waiting.remove(deployment);
        entries.cancel_delay(deployment);
        self.measure(&entries);
    }

    /// On a standby no entry counts as waiting: it reconciles nothing.
    fn measure(&self, entries: &Entries) {
        if entries.works {
            self.0.metrics.queue_depth.set(i64::try_from(entries.depth()).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::time::Instant;

    use super::{Named, Queue};
    use crate::ClientMetrics;

    fn named(name: &str) -> Named {
        Named { namespace: "shop".to_owned(), name: name.to_owned() }
    }

    fn queue() -> (Queue, Arc<ClientMetrics>) {
        let metrics = crate::metrics::metrics();
        (Queue::new(Arc::clone(&metrics), Duration::ZERO), metrics)
    }

    /// The next entry, if one can be taken now.
    fn now(queue: &Queue) -> Option<String> {
        queue.next().now_or_never().map(|named| named.name)
    }

    #[tokio::test(start_paused = true)]
    async fn each_deployment_is_taken_once_however_often_it_was_added() {
        let (queue, metrics) = queue();
        for _ in 0..1000 {
            queue.add(named("web"));
            queue.add(named("api"));
            queue.add(named("gone"));
        }
        queue.forget(&named("gone"));
        assert_eq!(metrics.queue_depth.get(), 0, "no worker runs yet");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(now(&queue).as_deref(), Some("api"));
        assert_eq!(now(&queue).as_deref(), Some("web"));
        assert_eq!(now(&queue), None, "there is nothing more");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(queue.begin(&named("web")).is_some());
        assert_eq!(metrics.queue_depth.get(), 1, "the other one waits for a worker");
        assert_eq!(metrics.queue_wait.get_sample_count(), 1);
        let waited = metrics.queue_wait.get_sample_sum();
        assert!((2.0..60.0).contains(&waited), "{waited}");
    }

    #[tokio::test(start_paused = true)]
    async fn events_during_a_reconciliation_make_one_more_after_it() {
        let (queue, _) = queue();
        queue.add(named("web"));
        assert_eq!(now(&queue).as_deref(), Some("web"));
        queue.add(named("web"));
        queue.begin(&named("web"));
        queue.done(named("web"), None);
        assert_eq!(now(&queue), None, "it began after the event");
        queue.add(named("web"));
        assert_eq!(now(&queue).as_deref(), Some("web"));
        queue.begin(&named("web"));
        queue.add(named("web"));
        queue.add(named("web"));
        assert_eq!(now(&queue), None, "never two reconciliations at a time");
        queue.done(named("web"), Some(Duration::from_secs(60)));
        assert_eq!(now(&queue).as_deref(), Some("web"));
        queue.begin(&named("web"));
        queue.done(named("web"), None);
        assert_eq!(now(&queue), None);
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_collected_as_long_as_the_options_say() {
        let metrics = crate::metrics::metrics();
        let queue = Queue::new(metrics, Duration::from_millis(20));
        queue.add(named("web"));
        assert_eq!(now(&queue), None);
        let begin = Instant::now();
        assert_eq!(queue.next().await.name, "web");
        assert_eq!(begin.elapsed(), Duration::from_millis(20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_requeue_is_due_at_its_time_and_an_event_comes_before_it() {
        let (queue, _) = queue();
        let begin = Instant::now();
        for (name, seconds) in [("web", 30), ("api", 10)] {
            queue.done(named(name), Some(Duration::from_secs(seconds)));
        }
        assert_eq!(queue.next().await.name, "api");
        assert_eq!(begin.elapsed().as_secs(), 10);
        assert_eq!(queue.begin(&named("api")), None, "no event");
        queue.add(named("web"));
        assert_eq!(now(&queue).as_deref(), Some("web"));
        queue.begin(&named("web"));
        queue.done(named("web"), None);
        let none = tokio::time::timeout(Duration::from_secs(3600), queue.next()).await;
        assert!(none.is_err(), "the event replaced the requeue");
    }
}
