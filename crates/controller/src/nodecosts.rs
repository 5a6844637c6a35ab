//! The controller `nodecosts`: writes the deletion cost of pods of selected plain Deployments by their node,
//! so that the ReplicaSet controller scales down in that order.
//!
//! It creates and deletes no pods, and it changes no cost that it did not write.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, FuturesUnordered, select_all};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use kube_runtime::watcher;
use ordereddeployment_api::names::{annotation, reason};
use ordereddeployment_kubernetes::{
    Decoded, EventRecorder, Health, PAGE, RequestError, Requests, Turns, backoff, decoded, events, patient,
};
use ordereddeployment_nodecosts::{ALL_SYNCED, Change, Changed, Index, Pod, WatchEvent};
use ordereddeployment_wire::{NamespacedUid, PodView};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

use crate::error::Error;
use crate::node_rules::RulesSource;
use crate::runtime::watches::{NODE_COSTS, scoped};
use crate::{Metrics, Options};

/// How many pods are written at the same time.
const PARALLEL: usize = 8;
/// The minimum wait before failed writes are retried.
const RETRY: Duration = Duration::from_secs(1);

/// The result of a write.
type Written = (NamespacedUid, Result<PodView, RequestError>);

struct Run {
    requests: Arc<Requests>,
    events: EventRecorder,
    metrics: Arc<Metrics>,
    index: Index,
    /// Pods to check, which namespaces take turns in.
    due: Turns<NamespacedUid>,
    /// The same, each once.
    queued: BTreeSet<NamespacedUid>,
    /// Pods that are being written.
    under_way: BTreeSet<NamespacedUid>,
    /// Pods whose writes failed: how often in a row, and until when they wait for the next one.
    failed: BTreeMap<NamespacedUid, (u32, Option<Instant>)>,
}

/// Runs the controller of deletion costs until `shutdown` ends.
pub async fn run_node_costs(
    rules: RulesSource,
    client: Client,
    options: Options,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let Options { clock, names, namespace, metrics, health, leadership, limiter, .. } = options;
    let requests = Arc::new(Requests::new(
        &client,
        &leadership.iter().map(|(fence, _)| fence).collect::<Vec<_>>(),
        limiter,
        &metrics.client,
    ));
    let (events, event_writer) = events(clock, names, Arc::clone(&metrics.client));
    let mut event_writer = std::pin::pin!(event_writer.run(Arc::clone(&requests)));
    let mut watches = watches(&rules, requests.watching(), namespace.as_deref(), &metrics, &health);
    let mut is_leader = std::pin::pin!(crate::runtime::controller::is_leader(leadership).fuse());
    let mut shutdown = std::pin::pin!(shutdown);
    let mut run = Run {
        requests,
        events,
        metrics,
        index: Index::default(),
        due: Turns::default(),
        queued: BTreeSet::new(),
        under_way: BTreeSet::new(),
        failed: BTreeMap::new(),
    };
    let mut writes = FuturesUnordered::new();
    let (mut synced, mut leading) = (0, false);
    loop {
        if synced == ALL_SYNCED && leading {
            run.metrics.client.is_leader.set(1);
            while writes.len() < PARALLEL
                && let Some(write) = run.next_write()
            {
                writes.push(write.boxed());
            }
        }
        let retry = run.retry_at();
        tokio::select! {
            biased;
            () = &mut shutdown => return Ok(()),
            () = &mut is_leader, if !leading => leading = true,
            Some((pod, outcome)) = writes.next(), if !writes.is_empty() => run.wrote(pod, outcome),
            Some(event) = watches.next() => {
                synced |= event.synced();
                if synced == ALL_SYNCED {
                    health.synced(NODE_COSTS);
                }
                run.apply(event);
            }
            () = tokio::time::sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {
                run.retry();
            }
            () = &mut event_writer => return Ok(()),
        }
    }
}

fn watches(
    rules: &RulesSource,
    client: &Client,
    namespace: Option<&str>,
    metrics: &Arc<Metrics>,
    health: &Health,
) -> BoxStream<'static, WatchEvent> {
    let config = watcher::Config::default().page_size(PAGE);
    let only = config.clone().fields(&format!("metadata.name={}", rules.name));
    let configs: Api<Decoded<ConfigMap>> = Api::namespaced(client.clone(), &rules.namespace);
    let nodes = Api::all(client.clone());
    let deployments: Api<Decoded<PartialObjectMeta<Deployment>>> = scoped(client, namespace);
    let sets: Api<Decoded<PartialObjectMeta<ReplicaSet>>> = scoped(client, namespace);
    let pods: Api<PodView> = scoped(client, namespace);
    select_all([
        watch_events("configmaps", (configs, &only), metrics, health, |event| {
            decoded(event).map(WatchEvent::Config)
        }),
        watch_events("deployments", (deployments, &config), metrics, health, |event| {
            decoded(event).map(WatchEvent::Deployment)
        }),
        watch_events("replicasets", (sets, &config), metrics, health, |event| {
            decoded(event).map(WatchEvent::Set)
        }),
        watch_events("pods", (pods, &config), metrics, health, |event| Some(WatchEvent::Pod(event))),
        watch_events("nodes", (nodes, &config), metrics, health, |event| Some(WatchEvent::Node(event))),
    ])
    .boxed()
}

impl Run {
    fn apply(&mut self, event: WatchEvent) {
        let changed = self.index.apply(event);
        self.metrics.node_cost_config_invalid.set(i64::from(self.index.is_malformed()));
        match changed {
            Changed::Nothing => {}
            Changed::Pod(pod) => self.queue([pod]),
            Changed::Namespace(namespace) => {
                let pods: Vec<_> = self.index.pods_in(&namespace).cloned().collect();
                self.queue(pods);
            }
            Changed::Everything => {
                let pods: Vec<_> = self.index.pods().cloned().collect();
                self.queue(pods);
            }
            Changed::Malformed(map, error) => {
                let message = format!("The rules are malformed, and those before stay in force: {error}");
                self.events.warn_of_object(*map, reason::MALFORMED_RULES, &message);
            }
        }
    }

    /// Adds pods to check, except those that wait after a failure.
    fn queue(&mut self, pods: impl IntoIterator<Item = NamespacedUid>) {
        for pod in pods {
            let waits = self.failed.get(&pod).is_some_and(|(_, until)| until.is_some());
            if !waits && self.queued.insert(pod.clone()) {
                self.due.push(Arc::clone(pod.namespace()), pod);
            }
        }
    }

    /// When the first failed write is retried.
    fn retry_at(&self) -> Option<Instant> {
        self.failed.values().filter_map(|(_, until)| *until).min()
    }

    /// Queues the pods that have waited long enough, and forgets those that need no write any more.
    fn retry(&mut self) {
        let now = Instant::now();
        let index = &self.index;
        self.failed.retain(|pod, _| index.change(pod).is_some());
        let waited = self.failed.iter_mut().filter(|(_, (_, until))| until.is_some_and(|until| until <= now));
        let due: Vec<_> = waited
            .map(|(pod, (_, until))| {
                *until = None;
                pod.clone()
            })
            .collect();
        self.queue(due);
    }

    /// The next write that is due. A pod has one write at a time.
    fn next_write(&mut self) -> Option<impl Future<Output = Written> + use<>> {
        let mut later = Vec::new();
        let mut found = None;
        while found.is_none()
            && let Some(key) = self.due.pop()
        {
            self.queued.remove(&key);
            if self.under_way.contains(&key) {
                later.push(key);
            } else {
                found = self.index.change(&key).map(|(pod, change)| (key, pod, change));
            }
        }
        self.queue(later);
        let (key, pod, change) = found?;
        self.under_way.insert(key.clone());
        let requests = Arc::clone(&self.requests);
        Some(async move {
            let patch = patch(key.uid(), &pod, &change);
            let requests = requests.for_object(key.namespace(), None);
            let written = requests.patch::<PodView>(key.namespace(), &pod.name, &patch).await;
            (key, written)
        })
    }

    fn wrote(&mut self, key: NamespacedUid, outcome: Result<PodView, RequestError>) {
        self.under_way.remove(&key);
        match outcome {
            Ok(pod) => {
                self.metrics.node_cost_writes.inc();
                self.failed.remove(&key);
                self.apply(WatchEvent::Pod(watcher::Event::Apply(pod)));
            }
            // The watch will show the other change, or that the pod is gone.
            Err(error) => {
                tracing::debug!(%error, "cannot write a deletion cost now");
                let (times, until) = self.failed.entry(key).or_default();
                *times = times.saturating_add(1);
                *until = Some(Instant::now() + backoff::after(*times).max(RETRY));
            }
        }
    }
}

/// The precondition is the version that the decision read: a cost of another client is not overwritten.
fn patch(uid: &str, pod: &Pod, change: &Change) -> serde_json::Value {
    let mut annotations = serde_json::Map::new();
    let value = match change {
        Change::Set(cost) => json!(cost.to_string()),
        Change::TakeBack | Change::Forget => serde_json::Value::Null,
    };
    if *change != Change::Forget {
        annotations.insert(annotation::POD_DELETION_COST.to_owned(), value.clone());
    }
    annotations.insert(annotation::NODE_COST.to_owned(), value);
    json!({"metadata": {"uid": uid, "resourceVersion": pod.version, "annotations": annotations}})
}

/// The events of a watch; its failures are logged, and the watch is retried.
fn watch_events<K>(
    what: &'static str,
    (api, config): (Api<K>, &watcher::Config),
    metrics: &Arc<Metrics>,
    health: &Health,
    make: fn(watcher::Event<K>) -> Option<WatchEvent>,
) -> BoxStream<'static, WatchEvent>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let config = config.clone();
    let (metrics, health) = (Arc::clone(metrics), health.clone());
    let name = format!("the watch of {what} for deletion costs");
    let events = patient(what, move || watcher(api.clone(), config.clone())).filter_map(move |event| {
        match &event {
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
            Ok(_) => health.works(&name),
            Err(_) => {
                metrics.client.watch_failed(what);
                health.fails(&name);
            }
        }
        std::future::ready(event.ok().and_then(make))
    });
    events.boxed()
}
