//! Reads an OrderedDeployment with its sets, their pods, and the nodes; a plain Deployment too. Read-only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Result;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_planner::{self as planner, ComparisonResult, DryRun, Set, Snapshot};
use ordereddeployment_sorter::Nodes;
use ordereddeployment_wire::{Family, NamespacedUid, NodeView, PlainSet};

use crate::explain::explain;
use crate::output;
use crate::plain::{self, ShownDeployment};
use crate::pod::ObservedPod;

/// Labels for the pool of a node, for clusters without the requested label.
const POOL_LABELS: [&str; 4] = [
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/instance-type",
];

/// An OrderedDeployment with its sets and pods, and the nodes, as read from the API server.
#[derive(Clone, Debug)]
pub(crate) struct ObservedState {
    pub(crate) family: Family,
    /// For a plain Deployment: why its pods may not be deleted in this order.
    pub(crate) doubt: Option<String>,
    pub(crate) deployment: Arc<OrderedDeployment>,
    pub(crate) sets: Vec<Set>,
    pub(crate) pods: Vec<ObservedPod>,
    pub(crate) nodes: BTreeMap<String, NodeView>,
    /// Why the nodes cannot be read. Node rules then match no node.
    pub(crate) nodes_unread: Option<String>,
    pub(crate) now: Timestamp,
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
    /// A label selector.
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
        let state = self.with_dependents(found, &self.nodes().await?, now).await?;
        let doubt = match self.family {
            Family::Ordered => None,
            Family::Plain => plain::doubt(&self.client).await?,
        };
        Ok(ObservedState { doubt, ..state })
    }

    /// The OrderedDeployments of that scope, sorted by namespace and name.
    pub(crate) async fn all(client: &Client, scope: Scope<'_>, now: Timestamp) -> Result<Vec<ObservedState>> {
        if let (Some(name), Some(namespace)) = (scope.name, scope.namespace) {
            return Ok(vec![Self::new(client, namespace).of(scope.family).one(name, now).await?]);
        }
        let found = scope.api::<OrderedDeployment>(client).list(&output::selected(scope.selector)).await;
        let found = found.map_err(|error| {
            explain(error, &format!("cannot list the OrderedDeployments of {}", scope.place()))
        })?;
        let nodes = Self::new(client, "").nodes().await?;
        let mut all = Vec::new();
        for deployment in found {
            let reader = Self::new(client, &deployment.namespace().unwrap_or_default());
            all.push(reader.with_dependents(deployment, &nodes, now).await?);
        }
        all.sort_by_key(|state| (state.deployment.namespace(), state.deployment.name_any()));
        Ok(all)
    }

    /// The nodes by name, or the message of a 403.
    pub(crate) async fn nodes(&self) -> Result<Result<BTreeMap<String, NodeView>, String>> {
        let nodes: Api<NodeView> = Api::all(self.client.clone());
        match nodes.list(&ListParams::default()).await {
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

/// Whether the deployment controls the set.
pub(crate) fn is_owned(family: Family, set: &OrderedReplicaSet, deployment: &OrderedDeployment) -> bool {
    family.deployment_key(&set.metadata) == Some(NamespacedUid::of(&deployment.metadata))
}

/// The name of an object in commands and messages: `web`, or `deployment/web`.
pub(crate) fn reference(family: Family, name: &str) -> String {
    match family {
        Family::Ordered => name.to_owned(),
        Family::Plain => format!("deployment/{name}"),
    }
}

impl ObservedState {
    /// The state of a deployment of this family, from these sets and pods. Those of other owners are left out, and pods that do not
    /// match the selector: the controller releases them.
    pub(crate) fn of<'a>(
        family: Family,
        deployment: OrderedDeployment,
        sets: impl IntoIterator<Item = &'a OrderedReplicaSet>,
        pods: impl IntoIterator<Item = &'a ObservedPod>,
        nodes: &Result<BTreeMap<String, NodeView>, String>,
        now: Timestamp,
    ) -> Self {
        let read = match family {
            Family::Ordered => ordereddeployment_wire::set,
            Family::Plain => ordereddeployment_wire::plain_set,
        };
        let owned = sets.into_iter().filter(|set| is_owned(family, set, &deployment));
        let (keys, mut sets): (BTreeSet<NamespacedUid>, Vec<Set>) =
            owned.map(|set| (NamespacedUid::of(&set.metadata), read(set))).unzip();
        planner::make_hashes_unique(&mut sets);
        let selector = &deployment.spec.selector;
        let ours = |pod: &&ObservedPod| {
            let is_owned = || family.set_key(&pod.metadata).is_some_and(|set| keys.contains(&set));
            selector.matches(pod.labels()) && is_owned()
        };
        let pods: Vec<ObservedPod> = pods.into_iter().filter(ours).cloned().collect();
        let (nodes, nodes_unread) = match nodes {
            Ok(nodes) => (nodes.clone(), None),
            Err(message) => (BTreeMap::new(), Some(message.clone())),
        };
        Self { family, doubt: None, deployment: Arc::new(deployment), sets, pods, nodes, nodes_unread, now }
    }

    /// The input for the planner, marked as read live.
    pub(crate) fn observed(&self) -> Snapshot {
        let pods: Vec<Arc<planner::Pod>> =
            self.pods.iter().map(|pod| Arc::new(pod.read_in(self.family).0)).collect();
        let mut nodes: Nodes =
            pods.iter().filter_map(|pod| pod.facts.node.clone()).map(|node| (node, None)).collect();
        for (name, node) in &mut nodes {
            *node = self.nodes.get(&**name).map(NodeView::facts);
        }
        Snapshot {
            deployment: Arc::clone(&self.deployment),
            sets: self.sets.clone(),
            pods,
            nodes,
            now: self.now,
            live: true,
            dry_run: DryRun::Accepted,
            failure: None,
            known_points: BTreeMap::new(),
            unclaimed: BTreeSet::new(),
            taken_names: std::collections::BTreeSet::new(),
            sources: BTreeMap::new(),
            comparison: match self.family {
                Family::Ordered => ComparisonResult::Not,
                // The Deployment controller has compared the templates.
                Family::Plain => ComparisonResult::New,
            },
        }
    }

    /// The label for node pools: the requested one, otherwise one that cloud providers set.
    pub(crate) fn pool_label<'a>(&self, requested: &'a str) -> Option<&'a str> {
        let known = |label: &str| self.nodes.values().any(|node| node.labels().contains_key(label));
        std::iter::once(requested).chain(POOL_LABELS).find(|label| known(label))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ordereddeployment_api::OrderedReplicaSet;
    use serde_json::{Value, json};

    use super::{Family, ObservedState};
    use crate::pod::ObservedPod;

    #[test]
    fn pods_of_other_owners_and_released_pods_are_left_out() {
        let owner = |kind: &str, uid: &str| json!([{"apiVersion": "ordereddeployment.io/v1alpha1", "kind": kind, "name": uid, "uid": uid, "controller": true}]);
        let spec = json!({
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
        });
        let object = |kind: &str, metadata: Value| json!({"apiVersion": "ordereddeployment.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec});
        let set: OrderedReplicaSet = serde_json::from_value(object(
            "OrderedReplicaSet",
            json!({"name": "web-1", "uid": "set", "ownerReferences": owner("OrderedDeployment", "web")}),
        ))
        .unwrap();
        let pod = |name: &str, app: &str, set: &str| -> ObservedPod {
            let metadata = json!({"name": name, "uid": name, "labels": {"app": app}, "ownerReferences": owner("OrderedReplicaSet", set)});
            serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": []}})).unwrap()
        };
        let pods =
            [pod("ours", "web", "set"), pod("released", "other", "set"), pod("foreign", "web", "another")];
        let web = serde_json::from_value(object("OrderedDeployment", json!({"name": "web", "uid": "web"})))
            .unwrap();
        let family = Family::Ordered;
        let state =
            ObservedState::of(family, web, [&set], &pods, &Ok(BTreeMap::new()), jiff::Timestamp::UNIX_EPOCH);
        let names: Vec<&str> = state.pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
        assert_eq!(names, ["ours"]);
    }
}
