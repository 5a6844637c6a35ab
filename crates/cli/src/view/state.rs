//! The state of an OrderedDeployment, or of a plain Deployment, as the API server has sent it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use ordereddeployment_api::names::annotation;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet, Template};
use ordereddeployment_planner::{self as planner, ComparisonResult, DryRun, Set, Snapshot};
use ordereddeployment_sorter::Nodes;
use ordereddeployment_wire::{Family, NamespacedUid, NodeView};

use super::pod::ObservedPod;

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
    /// The state of a deployment of this family, from these sets and pods. Those of other owners are left
    /// out, and pods that do not match the selector: the controller releases them.
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
            taken_names: BTreeSet::new(),
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

/// A template of the revision history.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    pub(crate) number: i64,
    pub(crate) set: String,
    /// The annotation `kubernetes.io/change-cause`.
    pub(crate) cause: Option<String>,
    pub(crate) template: Template,
    pub(crate) created: Option<Timestamp>,
    pub(crate) pods: i32,
    /// Whether it has the template of the spec.
    pub(crate) current: bool,
    /// Whether it is the last other one that served: an abort, and an undo without a revision, go back to it.
    pub(crate) back: bool,
}

/// The sets of an OrderedDeployment, the newest first.
pub(crate) fn revisions_of<'a>(
    deployment: &OrderedDeployment,
    sets: impl IntoIterator<Item = &'a OrderedReplicaSet>,
) -> Vec<Revision> {
    let own: Vec<_> = sets.into_iter().filter(|set| is_owned(Family::Ordered, set, deployment)).collect();
    let mut read: Vec<_> = own.iter().map(|set| ordereddeployment_wire::set(set)).collect();
    planner::make_hashes_unique(&mut read);
    let back = planner::last_served(deployment, &read).map(|set| set.uid.clone());
    let both = own.into_iter().zip(read);
    let mut revisions: Vec<Revision> = both
        .map(|(found, set)| Revision {
            number: set.revision,
            cause: found.annotations().get(annotation::CHANGE_CAUSE).cloned(),
            pods: found.status.as_ref().and_then(|status| status.replicas).unwrap_or(0),
            current: planner::is_of(&set, &deployment.spec.template),
            back: back.as_ref() == Some(&set.uid),
            created: set.created,
            set: set.name,
            template: set.template,
        })
        .collect();
    revisions.sort_by(|first, second| (second.number, &second.set).cmp(&(first.number, &first.set)));
    revisions
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::{Family, ObservedState};
    use crate::testing::{deployment, pod, pod_json, set};
    use crate::view::pod::ObservedPod;

    #[test]
    fn pods_of_other_owners_and_released_pods_are_left_out() {
        let ours = pod("web:1", "ours", "n1");
        let set = set("web:1", "1", &[]);
        let mut released = pod_json(&pod("web:1", "released", "n1"));
        released["metadata"]["labels"]["app"] = "other".into();
        let mut foreign = pod_json(&pod("web:1", "foreign", "n1"));
        foreign["metadata"]["ownerReferences"][0]["uid"] = "another".into();
        let pods: Vec<ObservedPod> =
            serde_json::from_value(json!([pod_json(&ours), released, foreign])).unwrap();
        let (web, now) = (deployment(&json!({})), jiff::Timestamp::UNIX_EPOCH);
        let state = ObservedState::of(Family::Ordered, web, [&set], &pods, &Ok(BTreeMap::new()), now);
        let names: Vec<_> = state.pods.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
        assert_eq!(names, [ours.name]);
    }
}
