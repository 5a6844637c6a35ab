//! Reads an OrderedDeployment with its sets, their pods, and the nodes; a plain Deployment too. Read-only.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::names::label;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_wire::{Family, NodeView, PlainSet};
use serde::de::DeserializeOwned;

use super::Connection;
use super::explain::explain;
use crate::client::output;
use crate::view::plain::{ShownDeployment, doubt_of};
use crate::view::pod::ObservedPod;
use crate::view::revisions::{Revision, of};
use crate::view::state::{ObservedState, reference};

impl Connection {
    /// The deployment of that name, as it is now.
    pub(crate) async fn state(&self, family: Family, name: &str) -> Result<ObservedState> {
        let reader = Reader::new(&self.client, &self.namespace).of(family);
        reader.one(name, self.clock.now()).await
    }
}

/// Which OrderedDeployments a command shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// Which kind: a plain Deployment is shown only by its name.
    pub(crate) family: Family,
    /// `None`: all namespaces.
    pub(crate) namespace: Option<&'a str>,
    /// One object of the namespace.
    pub(crate) name: Option<&'a str>,
    pub(crate) selector: Option<&'a str>,
}

impl Scope<'_> {
    pub(crate) fn api<K>(self, client: &Client) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        match self.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        }
    }

    /// `namespace shop` or `all namespaces`.
    pub(crate) fn place(self) -> String {
        self.namespace.map_or_else(|| "all namespaces".to_owned(), |name| format!("namespace {name}"))
    }
}

/// Reads OrderedDeployments of one namespace.
#[derive(Clone)]
pub(crate) struct Reader {
    client: Client,
    family: Family,
    namespace: String,
}

impl Reader {
    pub(crate) fn new(client: &Client, namespace: &str) -> Self {
        Self { client: client.clone(), family: Family::Ordered, namespace: namespace.to_owned() }
    }

    /// The same, for objects of this family.
    pub(crate) fn of(self, family: Family) -> Self {
        Self { family, ..self }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The deployment of that name.
    pub(crate) async fn one(&self, name: &str, now: Timestamp) -> Result<ObservedState> {
        let found = match self.family {
            Family::Ordered => self.api().get(name).await,
            Family::Plain => self.api().get(name).await.map(|ShownDeployment(object)| object),
        };
        let found = found.map_err(|error| {
            let name = reference(self.family, name);
            explain(error, &format!("cannot read {name} in {}", self.namespace))
        })?;
        let state = self.with_dependents(found, &self.nodes(None).await?, now).await?;
        let doubt = match self.family {
            Family::Ordered => None,
            Family::Plain => doubt(&self.client).await?,
        };
        Ok(ObservedState { doubt, ..state })
    }

    /// The OrderedDeployments of that scope, sorted by namespace and name.
    pub(crate) async fn all(client: &Client, scope: Scope<'_>, now: Timestamp) -> Result<Vec<ObservedState>> {
        if let Some(state) = Self::named(client, scope, now).await? {
            return Ok(vec![state]);
        }
        let found = scope.api::<OrderedDeployment>(client).list(&output::selected(scope.selector)).await;
        let found = found.map_err(|error| {
            explain(error, &format!("cannot list the OrderedDeployments of {}", scope.place()))
        })?;
        let nodes = Self::new(client, "").nodes(None).await?;
        let mut all = Vec::new();
        for deployment in found {
            let reader = Self::new(client, &deployment.namespace().unwrap_or_default());
            all.push(reader.with_dependents(deployment, &nodes, now).await?);
        }
        all.sort_by_key(|state| (state.deployment.namespace(), state.deployment.name_any()));
        Ok(all)
    }

    /// The one object of that scope; `None` if the scope has no name.
    async fn named(client: &Client, scope: Scope<'_>, now: Timestamp) -> Result<Option<ObservedState>> {
        let (Some(name), Some(namespace)) = (scope.name, scope.namespace) else { return Ok(None) };
        Self::new(client, namespace).of(scope.family).one(name, now).await.map(Some)
    }

    /// Checks that the objects of that scope can be read. Returns the one that it names.
    pub(crate) async fn check(
        client: &Client,
        scope: Scope<'_>,
        now: Timestamp,
    ) -> Result<Option<ObservedState>> {
        let named = Self::named(client, scope, now).await?;
        if named.is_none() {
            check(scope.api::<OrderedDeployment>(client), "OrderedDeployments", scope).await?;
            check(scope.api::<OrderedReplicaSet>(client), "sets", scope).await?;
            check(scope.api::<ObservedPod>(client), "pods", scope).await?;
        }
        Ok(named)
    }

    /// The nodes by name, at most this many, or the message of a 403.
    pub(crate) async fn nodes(
        &self,
        limit: Option<u32>,
    ) -> Result<Result<BTreeMap<String, NodeView>, String>> {
        let nodes: Api<NodeView> = Api::all(self.client.clone());
        match nodes.list(&ListParams { limit, ..ListParams::default() }).await {
            Ok(nodes) => Ok(Ok(nodes.into_iter().map(|node| (node.name_any(), node)).collect())),
            // Many users can read pods but not nodes. The order works without node rules.
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Err(status.message)),
            Err(error) => Err(explain(error, "cannot list the nodes")),
        }
    }

    async fn with_dependents(
        &self,
        deployment: OrderedDeployment,
        nodes: &Result<BTreeMap<String, NodeView>, String>,
        now: Timestamp,
    ) -> Result<ObservedState> {
        let params = ListParams::default().labels(&deployment.spec.selector.to_selector_string());
        let all = ListParams::default();
        let sets: kube::Result<Vec<OrderedReplicaSet>> = match self.family {
            Family::Ordered => self.api().list(&all).await.map(|list| list.items),
            Family::Plain => {
                let list = self.api::<PlainSet>().list(&all).await;
                list.map(|list| list.items.into_iter().map(|set| set.object).collect())
            }
        };
        let sets = sets.map_err(|error| explain(error, "cannot list the sets"))?;
        let pods = self.api::<ObservedPod>().list(&params).await;
        let pods = pods.map_err(|error| explain(error, "cannot list the pods"))?;
        Ok(ObservedState::of(self.family, deployment, &sets, &pods.items, nodes, now))
    }
}

async fn check<K: Clone + std::fmt::Debug + DeserializeOwned>(
    api: Api<K>,
    what: &str,
    scope: Scope<'_>,
) -> Result<()> {
    let read = api.list(&ListParams::default().limit(1)).await;
    read.map(drop).map_err(|error| explain(error, &format!("cannot list the {what} of {}", scope.place())))
}

/// The revisions in the history, the newest first.
pub(crate) async fn revisions(
    connection: &Connection,
    deployment: &OrderedDeployment,
) -> Result<Vec<Revision>> {
    let api: Api<OrderedReplicaSet> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let sets = api.list(&ListParams::default()).await;
    let sets = sets.map_err(|error| explain(error, "cannot list the sets"))?.items;
    Ok(of(deployment, &sets))
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
