//! A cache of the objects, kept up to date by reflectors. Read-only.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::stream::{BoxStream, StreamExt};
use futures::{FutureExt, TryStreamExt};
use jiff::Timestamp;
use kube::{Api, Resource, ResourceExt};
use kube_runtime::reflector::{self, Store};
use kube_runtime::{WatchStreamExt, watcher};
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_wire::NodeView;
use serde::de::DeserializeOwned;

use crate::client::Connection;
use crate::observe::{ObservedState, Reader, Scope};
use crate::pod::ObservedPod;
use crate::watches::{Lost, Watches};

/// The stores of the reflectors.
pub(crate) struct WatchCache {
    deployments: Store<OrderedDeployment>,
    sets: Store<OrderedReplicaSet>,
    pods: Store<ObservedPod>,
    /// An error message if nodes cannot be read.
    nodes: Result<Store<NodeView>, String>,
    watches: Watches,
}

impl WatchCache {
    /// Watches the OrderedDeployments of that scope. An error if the first read fails.
    pub(crate) async fn start(connection: &Connection, scope: Scope<'_>) -> Result<Self> {
        let client = &connection.watching;
        // A read returns errors that a watch would only retry: not found, forbidden, no server.
        let first = Reader::all(client, scope, Timestamp::now()).await?;
        let one = first.first().filter(|_| scope.name.is_some());
        let all = watcher::Config::default();
        let selector = one.map(|state| state.deployment.spec.selector.to_selector_string());
        let of_pods = selector.map_or_else(|| all.clone(), |selector| all.clone().labels(&selector));
        let named = scope.name.map(|name| all.clone().fields(&format!("metadata.name={name}")));
        let selected = scope.selector.map(|selector| all.clone().labels(selector));
        let shown = named.or(selected).unwrap_or_else(|| all.clone());
        let (deployments, first) = reflect(scope.api(client), shown);
        let (sets, second) = reflect(scope.api(client), all.clone());
        let (pods, third) = reflect(scope.api(client), of_pods);
        let mut changes = vec![first, second, third];
        let nodes = Reader::new(client, "").nodes().await?.map(|_| {
            let (nodes, fourth) = reflect(Api::all(client.clone()), all);
            changes.push(fourth);
            nodes
        });
        let mut cache = Self {
            deployments,
            sets,
            pods,
            nodes,
            watches: Watches::new(changes, connection.client.clone(), connection.clock.clone()),
        };
        while !cache.is_ready() {
            cache.changed().await?;
        }
        Ok(cache)
    }

    fn is_ready(&self) -> bool {
        let nodes = self.nodes.as_ref().map_or(true, is_ready);
        is_ready(&self.deployments) && is_ready(&self.sets) && is_ready(&self.pods) && nodes
    }

    /// Waits for a change of an object, or of the connection.
    pub(crate) async fn changed(&mut self) -> Result<()> {
        self.watches.next().await.map(drop)
    }

    /// Why and since when the state may be outdated.
    pub(crate) fn lost(&self) -> Option<&Lost> {
        self.watches.lost()
    }

    /// The cached state of the OrderedDeployments, sorted by namespace and name.
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
        all.sort_by_key(|state| (state.deployment.namespace(), state.deployment.name_any()));
        all
    }
}

pub(crate) fn is_ready<K>(store: &Store<K>) -> bool
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.wait_until_ready().now_or_never().is_some()
}

/// A store, and the stream of changes that updates it.
pub(crate) fn reflect<K>(
    api: Api<K>,
    config: watcher::Config,
) -> (Store<K>, BoxStream<'static, watcher::Result<()>>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let stream = reflector::reflector(writer, watcher(api, config)).default_backoff();
    (store, stream.map_ok(drop).boxed())
}
