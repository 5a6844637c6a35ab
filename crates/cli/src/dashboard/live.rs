//! The watches of the dashboard. Read-only.

use std::sync::Arc;

use anyhow::Result;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use kube_runtime::reflector::ObjectRef;
use kube_runtime::watcher;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_wire::{Family, NodeView};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::client::Connection;
use crate::explain::explain;
use crate::observe::{ObservedState, is_owned};
use crate::pod::ObservedPod;
use crate::watch_cache::{Stores, reflect};
use crate::watches::{Lost, Watches};

/// What the watches have shown so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pulse {
    /// It grows with each change of an object.
    pub(super) version: u64,
    pub(super) lost: Option<Lost>,
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
    let mut watches = Watches::new(changes, client, clock);
    stores.sync(&mut watches).await?;
    let (sender, receiver) = watch::channel(Pulse::default());
    tokio::spawn(follow(watches, sender));
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

/// Publishes changes until no one listens.
async fn follow(mut watches: Watches, sender: watch::Sender<Pulse>) {
    loop {
        let differs = tokio::select! {
            Ok(differs) = watches.next() => differs,
            () = sender.closed() => return,
            else => return,
        };
        sender.send_modify(|pulse| {
            pulse.version += u64::from(differs);
            pulse.lost = watches.lost().cloned();
        });
    }
}

impl Stores {
    /// All OrderedDeployments, in no order.
    pub(super) fn deployments(&self) -> Vec<Arc<OrderedDeployment>> {
        self.deployments.state()
    }

    /// The sets of an OrderedDeployment.
    pub(super) fn sets(&self, deployment: &OrderedDeployment) -> Vec<Arc<OrderedReplicaSet>> {
        self.sets.state_filter(|set| is_owned(Family::Ordered, set, deployment))
    }

    /// The state of one OrderedDeployment; `None` if it does not exist.
    pub(super) fn state(&self, namespace: &str, name: &str, now: Timestamp) -> Option<ObservedState> {
        let deployment = self.deployments.get(&ObjectRef::new(name).within(namespace))?;
        let (sets, pods) = (self.sets(&deployment), self.pods.state());
        let (sets, pods) = (sets.iter().map(|set| &**set), pods.iter().map(|pod| &**pod));
        Some(ObservedState::of(Family::Ordered, (*deployment).clone(), sets, pods, &self.nodes(), now))
    }
}
