//! The components of a cluster besides the API server: nodes, a scheduler, kubelets, the controller of
//! disruption budgets, taint-based eviction, and a garbage collector.
//!
//! They are ordinary clients, so they also work with a real API server. Only the garbage collector reads the
//! store.

pub mod collector;
pub mod disruption;
pub mod kubelet;
pub mod nodes;
mod pod;
pub mod scheduler;
pub mod taints;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use futures::future::Either;
use futures::{Stream, StreamExt, stream};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Api, Client};
use kube_runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

use pod::Pod;

/// How long an agent waits after a failed request.
pub const RETRY: Duration = Duration::from_secs(1);

/// How long an agent collects events before it processes them.
const GATHER: Duration = Duration::from_millis(2);

/// Namespace and name.
pub type Key = (String, String);

/// The cached objects of one kind.
#[derive(Debug)]
pub struct Cache<K> {
    /// The objects.
    pub objects: BTreeMap<Key, K>,
    incoming: BTreeMap<Key, K>,
    /// Whether the first list is complete.
    pub synced: bool,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), incoming: BTreeMap::new(), synced: false }
    }
}

impl<K: kube::Resource> Cache<K> {
    /// Follows the watch.
    pub fn apply(&mut self, event: Event<K>) {
        match event {
            Event::Apply(object) => {
                self.objects.insert(key(&object), object);
            }
            Event::Delete(object) => {
                self.objects.remove(&key(&object));
            }
            Event::Init => self.incoming.clear(),
            Event::InitApply(object) => {
                self.incoming.insert(key(&object), object);
            }
            Event::InitDone => {
                self.objects = std::mem::take(&mut self.incoming);
                self.synced = true;
            }
        }
    }
}

pub(crate) fn key<K: kube::Resource>(object: &K) -> Key {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// A number, or a percentage of `whole`, rounded up.
pub(crate) fn part(value: &IntOrString, whole: i64) -> i64 {
    match value {
        IntOrString::Int(number) => i64::from(*number),
        IntOrString::String(text) => {
            let hundredths = whole * text.trim_end_matches('%').parse::<i64>().unwrap_or_default();
            hundredths.div_euclid(100) + i64::from(hundredths.rem_euclid(100) > 0)
        }
    }
}

/// A watch with a fixed backoff after errors. The default backoff has jitter, and a simulation must be
/// reproducible.
pub fn watch<K>(api: Api<K>) -> impl Stream<Item = Event<K>> + Send + Unpin
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher::watcher(api, watcher::Config::default())
        .filter_map(|event| async move {
            match event {
                Ok(event) => Some(event),
                Err(error) => {
                    tracing::debug!(%error, "watch failed");
                    tokio::time::sleep(RETRY).await;
                    None
                }
            }
        })
        .boxed()
}

/// Waits for one item, collects further items for a short time, then returns all of them; `None` at the end
/// of the stream.
pub async fn burst<S: Stream + Unpin>(stream: &mut S, wait: Duration) -> Option<Vec<S::Item>> {
    gather(stream, wait, || Instant::now() + GATHER).await
}

/// Like [`burst`], but collects until the time that `until` returns when the first item has arrived.
pub(crate) async fn gather<S: Stream + Unpin>(
    stream: &mut S,
    wait: Duration,
    until: impl FnOnce() -> Instant,
) -> Option<Vec<S::Item>> {
    let mut items = Vec::new();
    match timeout(wait, stream.next()).await {
        Ok(Some(item)) => items.push(item),
        Ok(None) => return None,
        Err(_) => return Some(items),
    }
    let until = until();
    while Instant::now() < until {
        match timeout_at(until, stream.next()).await {
            Ok(Some(item)) => items.push(item),
            Ok(None) | Err(_) => break,
        }
    }
    Some(items)
}

/// An agent that reads pods and objects of another kind. It starts to watch pods when one of these objects
/// requires it.
pub(crate) trait Agent: Send {
    /// The other kind.
    type Other: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static;

    /// Whether this object is a reason to watch pods.
    fn asks_for_pods(_: &Self::Other) -> bool {
        true
    }

    /// Processes the caches once. Returns how long to wait for events before the next round.
    fn round(
        &mut self,
        pods: &Cache<Pod>,
        others: &Cache<Self::Other>,
    ) -> impl Future<Output = Duration> + Send;
}

/// Runs until the process or the task ends.
pub(crate) async fn run_beside_pods<A: Agent>(client: Client, mut agent: A) {
    let (mut pods, mut others) = (Cache::default(), Cache::default());
    let mut watched = watch(Api::<A::Other>::all(client.clone()));
    while !others.objects.values().any(A::asks_for_pods) {
        let Some(batch) = burst(&mut watched, Duration::MAX).await else { return };
        for event in batch {
            others.apply(event);
        }
    }
    let watched_pods = watch(Api::<Pod>::all(client)).map(Either::Left);
    let mut events = stream::select(watched_pods, watched.map(Either::Right));
    let mut wait = Duration::MAX;
    while let Some(batch) = burst(&mut events, wait).await {
        for event in batch {
            match event {
                Either::Left(event) => pods.apply(event),
                Either::Right(event) => others.apply(event),
            }
        }
        if pods.synced {
            wait = agent.round(&pods, &others).await;
        }
    }
}
