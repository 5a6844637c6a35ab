//! A cache of the objects, kept up to date by reflectors. Read-only.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::stream::{BoxStream, StreamExt, select_all};
use futures::{FutureExt, TryStreamExt};
use jiff::Timestamp;
use kube::{Api, Client, Resource, ResourceExt};
use kube_runtime::reflector::{self, Store};
use kube_runtime::{WatchStreamExt, watcher};
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_wire::NodeView;
use serde::de::DeserializeOwned;

use crate::observe::{ObservedState, Reader};
use crate::pod::ObservedPod;

/// Changes within this time are handled together.
const BURST: Duration = Duration::from_millis(50);

/// An item of a watch: a change, or the error of a lost connection.
type Change = Result<(), String>;

/// The stores of the reflectors.
pub(crate) struct WatchCache {
    deployments: Store<OrderedDeployment>,
    sets: Store<OrderedReplicaSet>,
    pods: Store<ObservedPod>,
    /// An error message if nodes cannot be read.
    nodes: Result<Store<NodeView>, String>,
    changes: BoxStream<'static, Change>,
    error: Option<String>,
}

impl WatchCache {
    /// Watches one OrderedDeployment, or all of the namespace. An error if the first read fails.
    pub(crate) async fn start(client: &Client, namespace: &str, name: Option<&str>) -> Result<Self> {
        let reader = Reader::new(client, namespace);
        let now = Timestamp::now();
        // A read returns errors that a watch would only retry: not found, forbidden, no server.
        let one = if let Some(name) = name {
            Some(reader.one(name, now).await?)
        } else {
            reader.all(now).await?;
            None
        };
        let all = watcher::Config::default();
        let selector = one.as_ref().map(|state| state.deployment.spec.selector.to_selector_string());
        let of_pods = selector.map_or_else(|| all.clone(), |selector| all.clone().labels(&selector));
        let of_one =
            name.map_or_else(|| all.clone(), |name| all.clone().fields(&format!("metadata.name={name}")));
        let (deployments, first) = reflect(Api::namespaced(client.clone(), namespace), of_one);
        let (sets, second) = reflect(Api::namespaced(client.clone(), namespace), all.clone());
        let (pods, third) = reflect(Api::namespaced(client.clone(), namespace), of_pods);
        let mut changes = vec![first, second, third];
        let nodes = reader.nodes().await?.map(|_| {
            let (nodes, fourth) = reflect(Api::all(client.clone()), all);
            changes.push(fourth);
            nodes
        });
        let mut cache =
            Self { deployments, sets, pods, nodes, changes: select_all(changes).boxed(), error: None };
        while !cache.is_ready() {
            cache.changed().await?;
        }
        Ok(cache)
    }

    fn is_ready(&self) -> bool {
        let nodes = self.nodes.as_ref().map_or(true, is_ready);
        is_ready(&self.deployments) && is_ready(&self.sets) && is_ready(&self.pods) && nodes
    }

    /// Waits for a change.
    pub(crate) async fn changed(&mut self) -> Result<()> {
        let change = self.changes.next().await.ok_or_else(|| anyhow!("the watches ended"))?;
        self.error = change.err();
        tokio::time::sleep(BURST).await;
        while let Some(Some(change)) = self.changes.next().now_or_never() {
            self.error = change.err();
        }
        Ok(())
    }

    /// The error of the watches, while the connection is lost.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The cached state of the OrderedDeployments, sorted by name.
    pub(crate) fn states(&self, now: Timestamp) -> Vec<ObservedState> {
        let nodes = match &self.nodes {
            Ok(nodes) => {
                let nodes = nodes.state().into_iter();
                Ok(nodes.map(|node| (node.name_any(), (*node).clone())).collect::<BTreeMap<_, _>>())
            }
            Err(why) => Err(why.clone()),
        };
        let (sets, pods) = (self.sets.state(), self.pods.state());
        let mut all: Vec<ObservedState> = self
            .deployments
            .state()
            .iter()
            .map(|deployment| {
                let pods = pods.iter().map(|pod| (**pod).clone()).collect();
                ObservedState::of((**deployment).clone(), sets.iter().map(|set| &**set), pods, &nodes, now)
            })
            .collect();
        all.sort_by_key(|state| state.deployment.name_any());
        all
    }
}

fn is_ready<K>(store: &Store<K>) -> bool
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.wait_until_ready().now_or_never().is_some()
}

/// A store, and the stream of changes that updates it.
fn reflect<K>(api: Api<K>, config: watcher::Config) -> (Store<K>, BoxStream<'static, Change>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let stream = reflector::reflector(writer, watcher(api, config)).default_backoff();
    let changes = stream.map_ok(drop).map_err(|error| error.to_string());
    (store, changes.boxed())
}
