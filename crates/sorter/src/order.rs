//! The order of many pods at once: each node is looked up and matched once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::NodePriority;
use rustc_hash::FxBuildHasher;

use crate::node::{Wanted, grant_on};
use crate::{Facts, Key, Nodes};

/// Active pods, to be ordered.
#[derive(Debug)]
pub struct Pods<'a> {
    now: Timestamp,
    /// Whether pods on the same node count.
    ranked: bool,
    /// Each pod with the index of its node.
    rows: Vec<(&'a Facts, usize)>,
    /// The first one stands for no node.
    nodes: Vec<NodePods<'a>>,
    by_name: HashMap<&'a str, usize, FxBuildHasher>,
}

/// What is counted of a node.
#[derive(Debug, Default)]
struct NodePods<'a> {
    name: Option<&'a Arc<str>>,
    rank: u32,
    /// What a node rule could grant to one of its pods.
    wanted: Wanted,
}

impl<'a> Pods<'a> {
    /// No pods yet, in the order as of that time: the buckets of rules 6 and 8 depend on it.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let nodes = vec![NodePods::default()];
        Self { now, ranked: true, rows: Vec::new(), nodes, by_name: HashMap::default() }
    }

    /// The pods of a set without an owner: every rank is 0.
    ///
    /// Source: `getReplicaSetsWithSameController` in Kubernetes' `pkg/controller/replicaset/replica_set.go`.
    #[must_use]
    pub fn without_ranks(mut self) -> Self {
        self.ranked = false;
        self
    }

    /// Adds a pod to be ordered. Its index is the number of pods that were added before.
    pub fn add(&mut self, pod: &'a Facts) {
        let node = self.add_related(pod);
        self.rows.push((pod, node));
    }

    /// Counts a pod for the ranks of the others, without a place in the order. Returns the index of its node.
    pub fn add_related(&mut self, pod: &'a Facts) -> usize {
        let at = match &pod.node {
            None => 0,
            Some(name) => *self.by_name.entry(name).or_insert_with(|| {
                self.nodes.push(NodePods { name: Some(name), ..NodePods::default() });
                self.nodes.len() - 1
            }),
        };
        let node = &mut self.nodes[at];
        // Unassigned pods share no node, but have one rank: rule 1 parts them from the others.
        node.rank += u32::from(self.ranked);
        node.wanted.priority |= pod.priority.is_none();
        node.wanted.cost |= pod.cost.is_none();
        at
    }

    /// The nodes that a rule needs for one of these pods and that are not known yet.
    ///
    /// Empty if no rule reads a node. A pod needs no node if its own annotations override everything that a
    /// rule could grant.
    #[must_use]
    pub fn missing_nodes(&self, rules: &[NodePriority], known: &Nodes) -> BTreeSet<Arc<str>> {
        let granted = Wanted::of(rules);
        let wants = |node: &&NodePods<'_>| {
            (granted.priority && node.wanted.priority) || (granted.cost && node.wanted.cost)
        };
        let names = self.nodes.iter().filter(wants).filter_map(|node| node.name);
        names.filter(|name| !known.contains_key(*name)).cloned().collect()
    }

    /// All of them in their order, with these node rules and known nodes.
    #[must_use]
    pub fn order(self, rules: &[NodePriority], nodes: &Nodes) -> Order {
        let of_nodes = self.nodes.iter().map(|node| (grant_on(node.name, rules, nodes), node.rank));
        let of_nodes: Vec<_> = of_nodes.collect();
        let key = |(pod, node): (&Facts, usize)| {
            let (grant, rank) = of_nodes[node];
            Key::of(pod, grant, rank, self.now)
        };
        let keys: Vec<_> = self.rows.into_iter().map(key).collect();
        let mut indices: Vec<usize> = (0..keys.len()).collect();
        indices.sort_unstable_by(|one, other| keys[*one].cmp(&keys[*other]));
        Order { keys, indices }
    }
}

/// Pods in their order.
#[derive(Debug, Default)]
pub struct Order {
    keys: Vec<Key>,
    indices: Vec<usize>,
}

impl Order {
    /// The indices of the pods, the first to be deleted first.
    #[must_use]
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// The delete priority of the pod with that index, from its annotation or a node rule.
    #[must_use]
    pub fn priority(&self, index: usize) -> i32 {
        self.keys[index].priority.0
    }

    /// The key of the pod with that index.
    #[must_use]
    pub fn key(&self, index: usize) -> &Key {
        &self.keys[index]
    }
}
