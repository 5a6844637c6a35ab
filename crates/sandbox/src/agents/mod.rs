//! The components of a cluster besides the API server: nodes, a scheduler, kubelets, the controller of
//! disruption budgets, taint-based eviction, and a garbage collector.
//!
//! They are ordinary clients, so they also work with a real API server. Only the garbage collector reads the
//! store.

mod beside_pods;
pub mod collector;
pub mod disruption;
pub mod kubelet;
pub mod nodes;
mod pod;
pub mod scheduler;
pub mod taints;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

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
pub fn watch<K>(api: kube::Api<K>) -> impl Stream<Item = Event<K>> + Send + Unpin
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
