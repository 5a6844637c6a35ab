//! Reads OrderedDeployments with their sets, their pods, and the nodes; a plain Deployment too. Read-only.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use kube_runtime::wait::{self, await_condition};
use kube_runtime::watcher;
use ordereddeployment_api::names::label;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_wire::{Family, NodeView, PlainSet};

use super::Connection;
use super::explain::explain;
use crate::client::output;
use crate::view::plain::{ShownDeployment, doubt_of};
use crate::view::pod::ObservedPod;
use crate::view::state::{ObservedState, Revision, reference, revisions_of};

impl Connection {
    pub(crate) fn deployments(&self) -> Api<OrderedDeployment> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits until the object is so; an error if it is deleted.
    pub(crate) async fn until(
        &self,
        name: &str,
        is_so: impl Fn(&OrderedDeployment) -> bool,
    ) -> Result<OrderedDeployment> {
        let api = Api::namespaced(self.watching.clone(), &self.namespace);
        let found = await_condition(api, name, |found: Option<&OrderedDeployment>| found.is_none_or(&is_so));
        let doing = format!("cannot watch {name} in {}", self.namespace);
        let found = found.await.map_err(|error| match error {
            wait::Error::ProbeFailed(
                watcher::Error::InitialListFailed(error)
                | watcher::Error::WatchStartFailed(error)
                | watcher::Error::WatchFailed(error),
            ) => explain(error, &doing),
            // As text: its causes say the same again.
            other @ wait::Error::ProbeFailed(_) => anyhow!("{doing}: {other}"),
        })?;
        found.ok_or_else(|| anyhow!("{name} was deleted"))
    }

    pub(crate) async fn state(&self, family: Family, name: &str) -> Result<ObservedState> {
        one(&self.client, family, (&self.namespace, name), self.clock.now()).await
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// Which kind: a plain Deployment is shown only by its name.
    pub(crate) family: Family,
    /// `None`: all namespaces.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) selector: Option<&'a str>,
}

impl Scope<'_> {
    pub(crate) fn named(&self) -> Option<(&str, &str)> {
        self.namespace.zip(self.name)
    }

    pub(crate) fn api<K>(self, client: &Client) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        match self.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        }
    }

    /// The OrderedDeployments of that scope.
    pub(crate) async fn list(self, client: &Client) -> Result<Vec<OrderedDeployment>> {
        let found = self.api(client).list(&output::selected(self.selector)).await;
        let doing = || format!("cannot list the OrderedDeployments of {}", self.place());
        found.map(|found| found.items).map_err(|error| explain(error, &doing()))
    }

    /// What is said if there are none.
    pub(crate) fn nothing(self) -> String {
        format!("No OrderedDeployments in {}.", self.place())
    }

    /// `namespace shop` or `all namespaces`.
    pub(crate) fn place(self) -> String {
        self.namespace.map_or_else(|| "all namespaces".to_owned(), |name| format!("namespace {name}"))
    }
}

pub(crate) async fn one(
    client: &Client,
    family: Family,
    (namespace, name): (&str, &str),
    now: Timestamp,
) -> Result<ObservedState> {
    let found = match family {
        Family::Ordered => Api::namespaced(client.clone(), namespace).get(name).await,
        Family::Plain => {
            let api = Api::namespaced(client.clone(), namespace);
            api.get(name).await.map(|ShownDeployment(object)| object)
        }
    };
    let found = found.map_err(|error| {
        explain(error, &format!("cannot read {} in {namespace}", reference(family, name)))
    })?;
    let state = with_dependents(client, family, found, &nodes(client, None).await?, now).await?;
    let doubt = match family {
        Family::Ordered => None,
        Family::Plain => doubt(client).await?,
    };
    Ok(ObservedState { doubt, ..state })
}

/// The OrderedDeployments of that scope, sorted by namespace and name.
pub(crate) async fn all(client: &Client, scope: Scope<'_>, now: Timestamp) -> Result<Vec<ObservedState>> {
    if let Some(named) = scope.named() {
        return Ok(vec![one(client, scope.family, named, now).await?]);
    }
    let (found, nodes) = (scope.list(client).await?, nodes(client, None).await?);
    let mut all = Vec::new();
    for deployment in found {
        all.push(with_dependents(client, Family::Ordered, deployment, &nodes, now).await?);
    }
    all.sort_by_key(|state| (state.deployment.namespace(), state.deployment.name_any()));
    Ok(all)
}

/// The nodes by name, at most this many, or the message of a 403.
pub(crate) async fn nodes(
    client: &Client,
    limit: Option<u32>,
) -> Result<Result<BTreeMap<String, NodeView>, String>> {
    let nodes: Api<NodeView> = Api::all(client.clone());
    match nodes.list(&ListParams { limit, ..ListParams::default() }).await {
        Ok(nodes) => Ok(Ok(nodes.into_iter().map(|node| (node.name_any(), node)).collect())),
        // Many users can read pods but not nodes. The order works without node rules.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Err(status.message)),
        Err(error) => Err(explain(error, "cannot list the nodes")),
    }
}

async fn with_dependents(
    client: &Client,
    family: Family,
    deployment: OrderedDeployment,
    nodes: &Result<BTreeMap<String, NodeView>, String>,
    now: Timestamp,
) -> Result<ObservedState> {
    let namespace = deployment.namespace().unwrap_or_default();
    let all = ListParams::default();
    let sets = match family {
        Family::Ordered => {
            let api = Api::<OrderedReplicaSet>::namespaced(client.clone(), &namespace);
            api.list(&all).await.map(|list| list.items)
        }
        Family::Plain => {
            let api = Api::<PlainSet>::namespaced(client.clone(), &namespace);
            api.list(&all).await.map(|list| list.items.into_iter().map(|set| set.object).collect())
        }
    };
    let sets = sets.map_err(|error| explain(error, "cannot list the sets"))?;
    let selected = ListParams::default().labels(&deployment.spec.selector.to_selector_string());
    let pods = Api::<ObservedPod>::namespaced(client.clone(), &namespace).list(&selected).await;
    let pods = pods.map_err(|error| explain(error, "cannot list the pods"))?;
    Ok(ObservedState::of(family, deployment, &sets, &pods.items, nodes, now))
}

pub(crate) async fn revisions(
    connection: &Connection,
    deployment: &OrderedDeployment,
) -> Result<Vec<Revision>> {
    let api: Api<OrderedReplicaSet> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let sets = api.list(&ListParams::default()).await;
    let sets = sets.map_err(|error| explain(error, "cannot list the sets"))?.items;
    Ok(revisions_of(deployment, &sets))
}

/// Why the pods of plain Deployments may not be deleted in the order of this project, as far as can be seen.
async fn doubt(client: &Client) -> Result<Option<String>> {
    let probes: Api<ReplicaSet> = Api::all(client.clone());
    let probes = match probes.list(&ListParams::default().labels(label::PROBE)).await {
        Ok(probes) => probes.items,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            return Ok(Some(format!(
                "whether ordered-controller-manager reconciles ReplicaSets cannot be checked, and the \
                 built-in controller ignores this order: {}",
                status.message
            )));
        }
        Err(error) => return Err(explain(error, "cannot check which controller reconciles ReplicaSets")),
    };
    Ok(doubt_of(&probes).map(str::to_owned))
}
