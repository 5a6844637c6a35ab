//! Waits for a state with watches, which survive a restart of the server: no scenario sleeps.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{Api, Resource, ResourceExt};
use kube_runtime::WatchStreamExt;
use kube_runtime::utils::Backoff;
use kube_runtime::watcher::{self, Event as Change};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::TestCluster;

/// Retries at a fixed interval: the server may be down.
struct FixedInterval;

impl Iterator for FixedInterval {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(50))
    }
}

impl Backoff for FixedInterval {
    fn reset(&mut self) {}
}

/// What a watch needs of an object.
pub trait Watched: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static {}

impl<K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static> Watched for K {}

impl TestCluster {
    /// Waits until the object `name` satisfies `wanted`. The error contains its state.
    pub async fn until_object<K: Watched>(
        &self,
        api: Api<K>,
        name: &str,
        what: &str,
        wanted: impl Fn(&K) -> bool,
    ) -> Result<K> {
        let named = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let (what, is_there) = (format!("{name} is not {what}"), |all: &[K]| all.iter().any(&wanted));
        self.until_watched(api, named, &what, is_there).await?.pop().context(what)
    }

    /// Waits until the objects of a kind, as a list, satisfy `wanted`. The condition sees each state in
    /// order.
    pub async fn until_all<K: Watched>(
        &self,
        api: Api<K>,
        what: &str,
        wanted: impl Fn(&[K]) -> bool,
    ) -> Result<Vec<K>> {
        self.until_watched(api, watcher::Config::default(), &format!("they are not {what}"), wanted).await
    }

    async fn until_watched<K: Watched>(
        &self,
        api: Api<K>,
        config: watcher::Config,
        failure: &str,
        wanted: impl Fn(&[K]) -> bool,
    ) -> Result<Vec<K>> {
        let mut seen = Vec::new();
        let found = tokio::time::timeout(self.timeout, async {
            let stream = watcher::watcher(api, config).backoff(FixedInterval);
            futures::pin_mut!(stream);
            let (mut known, mut listed) = (BTreeMap::new(), false);
            while let Some(event) = stream.next().await {
                let Ok(event) = event else { continue };
                match event {
                    Change::Init => (known, listed) = (BTreeMap::new(), false),
                    Change::InitApply(object) | Change::Apply(object) => {
                        known.insert(object.name_any(), object);
                    }
                    Change::Delete(object) => {
                        known.remove(&object.name_any());
                    }
                    Change::InitDone => listed = true,
                }
                if listed {
                    seen = known.values().cloned().collect();
                    if wanted(&seen) {
                        return true;
                    }
                }
            }
            false
        });
        if matches!(found.await, Ok(true)) {
            return Ok(seen);
        }
        bail!("{failure}: {}", serde_json::to_string_pretty(&seen)?)
    }

    /// Waits for an event with this reason. The controller sends events late and in batches.
    pub async fn until_event(&self, reason: &str) -> Result<()> {
        let is_published =
            |events: &[Event]| events.iter().any(|event| event.reason.as_deref() == Some(reason));
        self.until_all(self.api::<Event>(), &format!("event {reason}"), is_published).await.map(drop)
    }

    /// Waits until the pods, including terminating pods, satisfy `wanted`.
    pub async fn until_pods(&self, what: &str, wanted: impl Fn(&[Pod]) -> bool) -> Result<Vec<Pod>> {
        self.until_all(self.api(), what, wanted).await
    }

    /// Runs `meanwhile`. Panics if fewer pods than `floor` serve at any time.
    pub async fn with_at_least<T>(&self, floor: usize, meanwhile: impl Future<Output = T>) -> T {
        let serves = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none() && is_ready(pod);
        let patient = self.with_timeout(Duration::from_secs(3600));
        let too_few = |pods: &[Pod]| pods.iter().filter(serves).count() < floor;
        let kept = Box::pin(patient.until_pods("fewer than the floor", too_few));
        tokio::select! {
            result = meanwhile => result,
            pods = kept => panic!("fewer than {floor} pods serve: {pods:#?}"),
        }
    }
}

/// Whether a pod is ready.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

/// The node of a pod; empty if it is pending.
#[must_use]
pub fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}
