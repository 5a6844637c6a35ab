//! What is there, kept up to date by watches: no polling. It never writes.

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

use crate::observe::{Reader, Seen};
use crate::pod::PodSeen;

/// Changes that come together are looked at together.
const BURST: Duration = Duration::from_millis(50);

/// A watch's item: something changed, or why nothing is heard.
type Change = Result<(), String>;

/// Copies of what the server has.
pub(crate) struct Live {
    deployments: Store<OrderedDeployment>,
    sets: Store<OrderedReplicaSet>,
    pods: Store<PodSeen>,
    /// None where they may not be read: why.
    nodes: Result<Store<NodeView>, String>,
    changes: BoxStream<'static, Change>,
    trouble: Option<String>,
}

impl Live {
    /// Follows one OrderedDeployment, or all of the namespace. What cannot be read at all is an error at once.
    pub(crate) async fn follow(client: &Client, namespace: &str, name: Option<&str>) -> Result<Self> {
        let reader = Reader::new(client, namespace);
        let now = Timestamp::now();
        // Reading once tells a missing object, a missing right and a missing server apart.
        let one = if let Some(name) = name {
            Some(reader.one(name, now).await?)
        } else {
            reader.all(now).await?;
            None
        };
        let all = watcher::Config::default();
        let selector = one.as_ref().map(|seen| seen.deployment.spec.selector.to_selector_string());
        let of_pods = selector.map_or_else(|| all.clone(), |selector| all.clone().labels(&selector));
        let of_one =
            name.map_or_else(|| all.clone(), |name| all.clone().fields(&format!("metadata.name={name}")));
        let (deployments, first) = copy(Api::namespaced(client.clone(), namespace), of_one);
        let (sets, second) = copy(Api::namespaced(client.clone(), namespace), all.clone());
        let (pods, third) = copy(Api::namespaced(client.clone(), namespace), of_pods);
        let mut changes = vec![first, second, third];
        let nodes = reader.nodes().await?.map(|_| {
            let (nodes, fourth) = copy(Api::all(client.clone()), all);
            changes.push(fourth);
            nodes
        });
        let mut live =
            Self { deployments, sets, pods, nodes, changes: select_all(changes).boxed(), trouble: None };
        while !live.is_ready() {
            live.changed().await?;
        }
        Ok(live)
    }

    fn is_ready(&self) -> bool {
        let nodes = self.nodes.as_ref().map_or(true, is_ready);
        is_ready(&self.deployments) && is_ready(&self.sets) && is_ready(&self.pods) && nodes
    }

    /// Ends once something has changed.
    pub(crate) async fn changed(&mut self) -> Result<()> {
        let change = self.changes.next().await.ok_or_else(|| anyhow!("the watches ended"))?;
        self.trouble = change.err();
        tokio::time::sleep(BURST).await;
        while let Some(Some(change)) = self.changes.next().now_or_never() {
            self.trouble = change.err();
        }
        Ok(())
    }

    /// Why nothing is heard, if so.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// What is there, by name.
    pub(crate) fn seen(&self, now: Timestamp) -> Vec<Seen> {
        let nodes = match &self.nodes {
            Ok(nodes) => {
                let nodes = nodes.state().into_iter();
                Ok(nodes.map(|node| (node.name_any(), (*node).clone())).collect::<BTreeMap<_, _>>())
            }
            Err(why) => Err(why.clone()),
        };
        let (sets, pods) = (self.sets.state(), self.pods.state());
        let mut all: Vec<Seen> = self
            .deployments
            .state()
            .iter()
            .map(|deployment| {
                let pods = pods.iter().map(|pod| (**pod).clone()).collect();
                Seen::of((**deployment).clone(), sets.iter().map(|set| &**set), pods, &nodes, now)
            })
            .collect();
        all.sort_by_key(|seen| seen.deployment.name_any());
        all
    }
}

fn is_ready<K>(store: &Store<K>) -> bool
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.wait_until_ready().now_or_never().is_some()
}

/// A copy, and a stream of its changes that keeps it up to date.
fn copy<K>(api: Api<K>, config: watcher::Config) -> (Store<K>, BoxStream<'static, Change>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let stream = reflector::reflector(writer, watcher(api, config)).default_backoff();
    let changes = stream.map_ok(drop).map_err(|error| error.to_string());
    (store, changes.boxed())
}
