//! The watches of the dashboard, and whether the API server answers. Read-only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::stream::{BoxStream, StreamExt, select_all};
use futures::{FutureExt, stream};
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use kube_runtime::reflector::{ObjectRef, Store};
use kube_runtime::watcher;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_wire::NodeView;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::client::Connection;
use crate::explain::explain;
use crate::observe::{ObservedState, is_owned};
use crate::pod::ObservedPod;
use crate::watch_cache::{BURST, is_ready, reflect};

/// How often the API server is asked whether it answers, and how long it may take.
const PROBE: Duration = Duration::from_secs(3);
/// How long an error of a watch is shown. A watch that fails again does so before.
const STALE: Duration = Duration::from_secs(40);

/// The objects that the watches have shown.
#[derive(Clone)]
pub(super) struct Stores {
    deployments: Store<OrderedDeployment>,
    sets: Store<OrderedReplicaSet>,
    pods: Store<ObservedPod>,
    /// An error message if nodes cannot be read.
    nodes: Result<Store<NodeView>, String>,
}

/// What the watches have shown so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pulse {
    /// It grows with each change of an object.
    pub(super) version: u64,
    pub(super) lost: Option<Lost>,
}

/// The API server does not answer, or refuses a watch. The objects are those of before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Lost {
    pub(super) since: Timestamp,
    pub(super) error: String,
}

/// Starts the watches: of one namespace, or of all. An error if the first read fails.
pub(super) async fn start(
    connection: &Connection,
    namespace: Option<&str>,
) -> Result<(Stores, watch::Receiver<Pulse>)> {
    let Connection { client, watching, clock, .. } = connection.clone();
    let place = namespace.map_or_else(|| "all namespaces".to_owned(), |name| format!("namespace {name}"));
    // A read returns errors that a watch would only retry.
    let doing = |what: &str| format!("cannot list the {what} of {place}");
    check(scoped::<OrderedDeployment>(&client, namespace), &doing("OrderedDeployments")).await?;
    check(scoped::<OrderedReplicaSet>(&client, namespace), &doing("sets")).await?;
    check(scoped::<ObservedPod>(&client, namespace), &doing("pods")).await?;
    let unread = match Api::<NodeView>::all(client.clone()).list(&ListParams::default().limit(1)).await {
        Ok(_) => None,
        // Many users can read pods but not nodes. The order works without node rules.
        Err(kube::Error::Api(status)) if status.code == 403 => Some(status.message),
        Err(error) => return Err(explain(error, "cannot list the nodes")),
    };
    let all = watcher::Config::default();
    let (deployments, first) = reflect(scoped(&watching, namespace), all.clone());
    let (sets, second) = reflect(scoped(&watching, namespace), all.clone());
    let (pods, third) = reflect(scoped(&watching, namespace), all.clone());
    let mut changes = vec![first, second, third];
    let nodes = if let Some(message) = unread {
        Err(message)
    } else {
        let (nodes, fourth) = reflect(Api::all(watching), all);
        changes.push(fourth);
        Ok(nodes)
    };
    let stores = Stores { deployments, sets, pods, nodes };
    let mut health = Health { lost: None, failed: changes.iter().map(|_| None).collect(), clock };
    let numbered = changes.into_iter().enumerate();
    let mut changes =
        select_all(numbered.map(|(number, stream)| stream.map(move |change| (number, change)).boxed()))
            .boxed();
    while !stores.are_ready() {
        let (number, change) = changes.next().await.ok_or_else(|| anyhow!("the watches ended"))?;
        health.watched(number, change);
    }
    let (sender, receiver) = watch::channel(Pulse::default());
    tokio::spawn(async move { follow(changes, client, health, sender).await });
    Ok((stores, receiver))
}

fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

async fn check<K: Clone + std::fmt::Debug + DeserializeOwned>(api: Api<K>, doing: &str) -> Result<()> {
    let read = api.list(&ListParams::default().limit(1)).await;
    read.map(drop).map_err(|error| explain(error, doing))
}

/// A change that a watch has shown, with the number of the watch.
type Numbered = (usize, watcher::Result<()>);

/// Publishes changes until no one listens.
async fn follow(
    mut changes: BoxStream<'static, Numbered>,
    client: Client,
    mut health: Health,
    sender: watch::Sender<Pulse>,
) {
    let mut probes = probes(client).boxed();
    while !sender.is_closed() {
        let mut differs = false;
        tokio::select! {
            change = changes.next() => {
                let Some((number, change)) = change else { return };
                differs |= health.watched(number, change);
                tokio::time::sleep(BURST).await;
                while let Some(Some((number, change))) = changes.next().now_or_never() {
                    differs |= health.watched(number, change);
                }
            }
            Some(answer) = probes.next() => health.probed(answer),
        }
        let lost = health.lost();
        sender.send_if_modified(|pulse| {
            let is_news = differs || pulse.lost != lost;
            pulse.version += u64::from(differs);
            pulse.lost = lost;
            is_news
        });
    }
}

/// Asks the API server again and again whether it answers. A watch without events does not tell.
fn probes(client: Client) -> impl stream::Stream<Item = Result<(), String>> {
    stream::unfold(client, |client| async move {
        tokio::time::sleep(PROBE).await;
        let answer = match tokio::time::timeout(PROBE, client.apiserver_version()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(said(&error)),
            Err(_) => Err(format!("no answer within {} s", PROBE.as_secs())),
        };
        Some((answer, client))
    })
}

/// What is known of the connection.
struct Health {
    lost: Option<Lost>,
    /// The error of each watch that the API server refuses.
    failed: Vec<Option<Lost>>,
    clock: ordereddeployment_controller::Clock,
}

impl Health {
    /// Records what a watch has shown. Whether objects have changed.
    fn watched(&mut self, number: usize, change: watcher::Result<()>) -> bool {
        let Err(error) = change else {
            self.failed[number] = None;
            return true;
        };
        let found = Lost { since: self.clock.now(), error: said(&error) };
        match error {
            watcher::Error::InitialListFailed(kube::Error::Api(_))
            | watcher::Error::WatchStartFailed(kube::Error::Api(_)) => self.failed[number] = Some(found),
            // The API server ends watches, and the next one begins at once.
            watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => {}
            _ => {
                self.lost.get_or_insert(found);
            }
        }
        false
    }

    fn probed(&mut self, answer: Result<(), String>) {
        match answer {
            Ok(()) => self.lost = None,
            Err(error) => {
                let since = self.lost.as_ref().map_or_else(|| self.clock.now(), |lost| lost.since);
                self.lost = Some(Lost { since, error });
            }
        }
        let now = self.clock.now();
        for failed in &mut self.failed {
            failed.take_if(|failed| now.duration_since(failed.since).unsigned_abs() > STALE);
        }
    }

    fn lost(&self) -> Option<Lost> {
        self.lost.clone().or_else(|| self.failed.iter().flatten().min_by_key(|failed| failed.since).cloned())
    }
}

/// The innermost cause of an error.
fn said(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

impl Stores {
    fn are_ready(&self) -> bool {
        let nodes = self.nodes.as_ref().map_or(true, is_ready);
        is_ready(&self.deployments) && is_ready(&self.sets) && is_ready(&self.pods) && nodes
    }

    /// All OrderedDeployments, in no order.
    pub(super) fn deployments(&self) -> Vec<Arc<OrderedDeployment>> {
        self.deployments.state()
    }

    /// The sets of an OrderedDeployment.
    pub(super) fn sets(&self, deployment: &OrderedDeployment) -> Vec<Arc<OrderedReplicaSet>> {
        let (namespace, uid) = (deployment.namespace(), deployment.uid().unwrap_or_default());
        self.sets.state_filter(|set| set.namespace() == namespace && is_owned(set, &uid))
    }

    /// The state of one OrderedDeployment; `None` if it does not exist.
    pub(super) fn state(&self, namespace: &str, name: &str, now: Timestamp) -> Option<ObservedState> {
        let deployment = self.deployments.get(&ObjectRef::new(name).within(namespace))?;
        let sets = self.sets(&deployment);
        let uids: Vec<String> = sets.iter().filter_map(|set| set.uid()).collect();
        let is_ours = |pod: &ObservedPod| {
            pod.metadata.namespace.as_deref() == Some(namespace)
                && pod.set_uid().is_some_and(|uid| uids.iter().any(|known| known == uid))
        };
        let pods = self.pods.state_filter(is_ours).iter().map(|pod| (**pod).clone()).collect();
        let nodes = match &self.nodes {
            Ok(nodes) => {
                let nodes = nodes.state().into_iter();
                Ok(nodes.map(|node| (node.name_any(), (*node).clone())).collect::<BTreeMap<_, _>>())
            }
            Err(message) => Err(message.clone()),
        };
        let sets = sets.iter().map(|set| &**set);
        Some(ObservedState::of((*deployment).clone(), sets, pods, &nodes, now))
    }
}
