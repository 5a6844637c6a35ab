//! A cache of the objects, kept up to date by reflectors. Read-only.

use std::sync::Arc;

use anyhow::Result;
use futures::stream::{BoxStream, StreamExt};
use futures::{FutureExt, TryStreamExt};
use jiff::Timestamp;
use kube::{Api, Resource, ResourceExt};
use kube_runtime::reflector::{self, ObjectRef, Store};
use kube_runtime::watcher;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_kubernetes::patient;
use ordereddeployment_wire::{Family, NodeView, PlainSet};
use serde::de::DeserializeOwned;

use crate::client::Connection;
use crate::client::explain::explain;
use crate::client::reader::{Scope, nodes, one};
use crate::client::watches::Watches;
use crate::view::plain::ShownDeployment;
use crate::view::pod::ObservedPod;
use crate::view::state::{ObservedState, is_owned};

#[derive(Clone)]
pub(crate) struct Stores {
    family: Family,
    /// For a plain Deployment, as at the start.
    doubt: Option<String>,
    deployments: Store<OrderedDeployment>,
    sets: Store<OrderedReplicaSet>,
    pods: Store<ObservedPod>,
    nodes: Result<Store<NodeView>, String>,
}

impl Stores {
    fn are_ready(&self) -> bool {
        let nodes = self.nodes.as_ref().map_or(true, is_ready);
        is_ready(&self.deployments) && is_ready(&self.sets) && is_ready(&self.pods) && nodes
    }

    pub(crate) fn deployments(&self) -> Vec<Arc<OrderedDeployment>> {
        self.deployments.state()
    }

    pub(crate) fn sets(&self, deployment: &OrderedDeployment) -> Vec<Arc<OrderedReplicaSet>> {
        self.sets.state_filter(|set| is_owned(self.family, set, deployment))
    }

    /// The state of one deployment; `None` if it does not exist.
    pub(crate) fn state(&self, namespace: &str, name: &str, now: Timestamp) -> Option<ObservedState> {
        let deployment = self.deployments.get(&ObjectRef::new(name).within(namespace))?;
        self.states_of(&[deployment], now).pop()
    }

    fn states_of(&self, deployments: &[Arc<OrderedDeployment>], now: Timestamp) -> Vec<ObservedState> {
        let (sets, pods) = (self.sets.state(), self.pods.state());
        let nodes =
            self.nodes.as_ref().map_err(Clone::clone).map(|nodes| {
                nodes.state().into_iter().map(|node| (node.name_any(), (*node).clone())).collect()
            });
        let state = |deployment: &Arc<OrderedDeployment>| {
            let (sets, pods) = (sets.iter().map(|set| &**set), pods.iter().map(|pod| &**pod));
            let state = ObservedState::of(self.family, (**deployment).clone(), sets, pods, &nodes, now);
            ObservedState { doubt: self.doubt.clone(), ..state }
        };
        deployments.iter().map(state).collect()
    }
}

/// The stores of one command, and the watches that update them.
pub(crate) struct WatchCache {
    pub(crate) stores: Stores,
    pub(crate) watches: Watches,
}

impl WatchCache {
    /// Watches the deployments of that scope. An error if the first read fails.
    pub(crate) async fn start(connection: &Connection, scope: Scope<'_>) -> Result<Self> {
        let client = &connection.watching;
        let named = match scope.named() {
            Some(named) => Some(one(client, scope.family, named, Timestamp::now()).await?),
            None => None,
        };
        let all = watcher::Config::default();
        let selector = named.as_ref().map(|state| state.deployment.spec.selector.to_selector_string());
        let of_pods = selector.map_or_else(|| all.clone(), |selector| all.clone().labels(&selector));
        let shown = match (scope.name, scope.selector) {
            (Some(name), _) => all.clone().fields(&format!("metadata.name={name}")),
            (None, Some(selector)) => all.clone().labels(selector),
            (None, None) => all.clone(),
        };
        let (deployments, first) = match scope.family {
            Family::Ordered => reflect(scope.api(client), shown, |object| object),
            Family::Plain => reflect(scope.api(client), shown, |ShownDeployment(object)| object),
        };
        let (sets, second) = match scope.family {
            Family::Ordered => reflect(scope.api(client), all.clone(), |set| set),
            Family::Plain => reflect(scope.api(client), all.clone(), |set: PlainSet| set.object),
        };
        let (pods, third) = reflect(scope.api(client), of_pods, |pod| pod);
        let mut changes = vec![first, second, third];
        let nodes = nodes(client, Some(1)).await?.map(|_| {
            let (nodes, fourth) = reflect(Api::all(client.clone()), all, |node| node);
            changes.push(fourth);
            nodes
        });
        let doubt = named.and_then(|state| state.doubt);
        let stores = Stores { family: scope.family, doubt, deployments, sets, pods, nodes };
        let mut watches = Watches::new(changes, connection.client.clone(), connection.clock.clone());
        let listed = watches.until(|| stores.are_ready()).await;
        listed.map_err(|error| explain(error, &format!("cannot list the objects of {}", scope.place())))?;
        Ok(Self { stores, watches })
    }

    pub(crate) fn states(&self, now: Timestamp) -> Vec<ObservedState> {
        let mut all = self.stores.states_of(&self.stores.deployments(), now);
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

/// A store of the objects as another type, and the stream of changes that updates it.
fn reflect<K, O>(
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
