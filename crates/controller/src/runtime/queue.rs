//! The work queue: the deployments to reconcile, each at most once.
//!
//! It holds at most one entry per deployment: the queue of a standby, which reconciles nothing, does not grow further.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube_runtime::reflector::ObjectRef;
use ordereddeployment_api::OrderedDeployment;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::Metrics;

/// How long events are coalesced: pods that become ready or are scheduled at the same moment are handled in one decision.
/// That saves requests and makes the result independent of the order of the events.
const COALESCE: Duration = Duration::from_millis(20);

type Named = ObjectRef<OrderedDeployment>;
/// Namespace and name: object references have no order.
type Key = (Option<String>, String);

/// Clones share one queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    waiting: Mutex<Waiting>,
    added: Notify,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Entries not taken yet, and since when they wait.
    named: BTreeMap<Key, (Named, Instant)>,
    /// Entries taken whose reconciliation has not begun yet.
    taken: BTreeMap<Key, Instant>,
    /// Whether a consumer takes entries at all.
    works: bool,
}

impl Queue {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self(Arc::new(Kept { waiting: Mutex::default(), added: Notify::new(), metrics }))
    }

    /// Adds a deployment to reconcile.
    pub(crate) fn add(&self, deployment: Named) {
        let mut waiting = self.waiting();
        waiting.named.entry(key(&deployment)).or_insert_with(|| (deployment, Instant::now()));
        self.measure(&waiting);
        self.0.added.notify_one();
    }

    /// The deployments to reconcile, in bursts of entries that were added together.
    pub(crate) fn bursts(&self) -> impl Stream<Item = Named> + use<> {
        let bursts = stream::unfold(self.clone(), |queue| async move {
            queue.begin_to_work();
            while queue.waiting().named.is_empty() {
                queue.0.added.notified().await;
            }
            sleep(COALESCE).await;
            let mut waiting = queue.waiting();
            let burst = std::mem::take(&mut waiting.named);
            let mut named = Vec::with_capacity(burst.len());
            for (key, (deployment, since)) in burst {
                waiting.taken.entry(key).or_insert(since);
                named.push(deployment);
            }
            drop(waiting);
            Some((stream::iter(named), queue))
        });
        bursts.flatten()
    }

    /// Waiting times count from here: entries that were added earlier had no consumer.
    fn begin_to_work(&self) {
        let mut waiting = self.waiting();
        if !std::mem::replace(&mut waiting.works, true) {
            let now = Instant::now();
            waiting.named.values_mut().for_each(|(_, since)| *since = now);
            self.measure(&waiting);
        }
    }

    /// A reconciliation of that deployment begins.
    pub(crate) fn begins(&self, namespace: Option<&str>, name: &str) {
        let key = (namespace.map(str::to_owned), name.to_owned());
        let mut waiting = self.waiting();
        if let Some(since) = waiting.taken.remove(&key) {
            self.0.metrics.queue_wait.observe(since.elapsed().as_secs_f64());
        }
        self.measure(&waiting);
    }

    /// That deployment does not exist any more.
    pub(crate) fn forget(&self, namespace: Option<&str>, name: &str) {
        let key = (namespace.map(str::to_owned), name.to_owned());
        let mut waiting = self.waiting();
        waiting.named.remove(&key);
        waiting.taken.remove(&key);
        self.measure(&waiting);
    }

    /// On a standby no entry counts as waiting: it reconciles nothing.
    fn measure(&self, waiting: &Waiting) {
        if !waiting.works {
            return;
        }
        let again = waiting.taken.keys().filter(|key| waiting.named.contains_key(*key)).count();
        let depth = waiting.named.len() + waiting.taken.len() - again;
        self.0.metrics.queue_depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(deployment: &Named) -> Key {
    (deployment.namespace.clone(), deployment.name.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::{FutureExt, StreamExt};

    use super::{COALESCE, Named, Queue};
    use crate::Metrics;

    fn named(name: &str) -> Named {
        Named::new(name).within("shop")
    }

    #[tokio::test(start_paused = true)]
    async fn each_deployment_is_reconciled_once_however_often_it_was_added() {
        let metrics = Arc::new(Metrics::new().unwrap());
        let queue = Queue::new(Arc::clone(&metrics));
        for _ in 0..1000 {
            queue.add(named("web"));
            queue.add(named("api"));
            queue.add(named("gone"));
        }
        queue.forget(Some("shop"), "gone");
        assert_eq!(metrics.queue_depth.get(), 0, "no worker runs yet");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let mut bursts = Box::pin(queue.bursts());
        let burst: Vec<_> = bursts.by_ref().take(2).map(|named| named.name).collect().await;
        assert_eq!(burst, ["api", "web"]);
        assert!(bursts.next().now_or_never().is_none(), "there is nothing more");
        queue.begins(Some("shop"), "web");
        assert_eq!(metrics.queue_depth.get(), 1, "the other one waits for a worker");
        assert_eq!(metrics.queue_wait.get_sample_count(), 1);
        let waited = metrics.queue_wait.get_sample_sum();
        assert!((COALESCE.as_secs_f64()..60.0).contains(&waited), "{waited}");
        queue.add(named("web"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(bursts.next().await.map(|named| named.name).as_deref(), Some("web"));
    }
}
