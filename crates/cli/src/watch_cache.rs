//! A cache of the objects, kept up to date by reflectors. Read-only.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::stream::{BoxStream, StreamExt};
use futures::{FutureExt, TryStreamExt};
use jiff::Timestamp;
use kube::{Api, Resource, ResourceExt};
use kube_runtime::reflector::{self, Store};
use kube_runtime::watcher;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_kubernetes::patient;
use ordereddeployment_wire::{Family, NodeView, PlainSet};
use serde::de::DeserializeOwned;

use crate::client::Connection;
use crate::observe::{ObservedState, Reader, Scope};
use crate::plain::ShownDeployment;
use crate::pod::ObservedPod;
use crate::watches::{Lost, Watches};

/// The objects that the watches have shown.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) deployments: Store<OrderedDeployment>,
    pub(crate) sets: Store<OrderedReplicaSet>,
    pub(crate) pods: Store<ObservedPod>,
    /// An error message if nodes cannot be read.
    pub(crate) nodes: Result<Store<NodeView>, String>,
}

impl Stores {
    /// Waits until the first list of each kind is complete.
    pub(crate) async fn sync(&self, watches: &mut Watches) -> Result<()> {
        while !self.are_ready() {
            watches.next().await?;
        }
        Ok(())
    }

    fn are_ready(&self) -> bool {
        let nodes = self.nodes.as_ref().map_or(true, is_ready);
        is_ready(&self.deployments) && is_ready(&self.sets) && is_ready(&self.pods) && nodes
    }

    /// The nodes by name, or why they cannot be read.
    pub(crate) fn nodes(&self) -> Result<BTreeMap<String, NodeView>, String> {
        let nodes = self.nodes.as_ref().map_err(Clone::clone)?.state();
        Ok(nodes.into_iter().map(|node| (node.name_any(), (*node).clone())).collect())
    }
}

/// The stores of one command, and the watches that update them.
pub(crate) struct WatchCache {
    family: Family,
    /// For a plain Deployment, as at the start.
    doubt: Option<String>,
    stores: Stores,
    watches: Watches,
}

impl WatchCache {
    /// Watches the deployments of that scope. An error if the first read fails.
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
        let doubt = one.and_then(|state| state.doubt.clone());
        let (deployments, first) = match scope.family {
            Family::Ordered => reflect(scope.api(client), shown),
            Family::Plain => reflect_as(scope.api(client), shown, |ShownDeployment(object)| object),
        };
        let (sets, second) = match scope.family {
            Family::Ordered => reflect(scope.api(client), all.clone()),
            Family::Plain => reflect_as(scope.api(client), all.clone(), |set: PlainSet| set.object),
        };
        let (pods, third) = reflect(scope.api(client), of_pods);
        let mut changes = vec![first, second, third];
        let nodes = Reader::new(client, "").nodes().await?.map(|_| {
            let (nodes, fourth) = reflect(Api::all(client.clone()), all);
            changes.push(fourth);
            nodes
        });
        let stores = Stores { deployments, sets, pods, nodes };
        let mut watches = Watches::new(changes, connection.client.clone(), connection.clock.clone());
        stores.sync(&mut watches).await?;
        Ok(Self { family: scope.family, doubt, stores, watches })
    }

    /// Waits for a change of an object, or of the connection.
    pub(crate) async fn changed(&mut self) -> Result<()> {
        self.watches.next().await.map(drop)
    }

    /// Why and since when the state may be outdated.
    pub(crate) fn lost(&self) -> Option<&Lost> {
        self.watches.lost()
    }

    /// The cached state of the deployments, sorted by namespace and name.
    pub(crate) fn states(&self, now: Timestamp) -> Vec<ObservedState> {
        let (sets, pods, nodes) = (self.stores.sets.state(), self.stores.pods.state(), self.stores.nodes());
        let mut all: Vec<ObservedState> = self
            .stores
            .deployments
            .state()
            .iter()
            .map(|deployment| {
                let (sets, pods) = (sets.iter().map(|set| &**set), pods.iter().map(|pod| &**pod));
                let state = ObservedState::of(self.family, (**deployment).clone(), sets, pods, &nodes, now);
                ObservedState { doubt: self.doubt.clone(), ..state }
            })
            .collect();
        all.sort_by_key(|state| (state.deployment.namespace(), state.deployment.name_any()));
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
pub(crate) fn reflect<K>(
    api: Api<K>,
    config: watcher::Config,
) -> (Store<K>, BoxStream<'static, watcher::Result<()>>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    reflect_as(api, config, |object: K| object)
}

/// The same for objects that are stored as another type.
fn reflect_as<K, O>(
    api: Api<K>,
    config: watcher::Config,
    stored: impl Fn(K) -> O + Send + 'static,
) -> (Store<O>, BoxStream<'static, watcher::Result<()>>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    O: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let events = patient("objects", move || watcher(api.clone(), config.clone()));
    let events = events.map_ok(move |event| match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(stored(object)),
        watcher::Event::Delete(object) => watcher::Event::Delete(stored(object)),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(stored(object)),
        watcher::Event::InitDone => watcher::Event::InitDone,
    });
    (store, reflector::reflector(writer, events).map_ok(drop).boxed())
}
