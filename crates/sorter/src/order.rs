//! The order of many pods at once: each node is looked up and matched once.
//!
//! It gives the order of the keys, and makes no key before it is asked for one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::NodePriority;
use rustc_hash::FxBuildHasher;

use crate::key::{cost_with, priority_with};
use crate::node::{Wanted, grant_on};
use crate::packed::Packed;
use crate::{Facts, Key, Nodes};

/// Active pods, to be ordered.
#[derive(Debug)]
pub struct Pods<'a> {
    now: Timestamp,
    /// Whether pods on the same node count.
    ranked: bool,
    rows: Vec<Row<'a>>,
    /// The first one stands for no node.
    nodes: Vec<NodePods<'a>>,
    by_name: HashMap<&'a str, usize, FxBuildHasher>,
}

/// A pod to be ordered.
#[derive(Clone, Copy, Debug)]
struct Row<'a> {
    packed: Packed,
    pod: &'a Facts,
    node: usize,
}

/// What is counted of a node.
#[derive(Debug, Default)]
struct NodePods<'a> {
    name: Option<&'a Arc<str>>,
    rank: u32,
    /// Whether a node rule could grant something to one of its pods.
    wants_priority: bool,
    wants_cost: bool,
}

impl<'a> Pods<'a> {
    /// No pods yet, in the order as of that time: the buckets of rules 6 and 8 depend on it.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let nodes = vec![NodePods::default()];
        Self { now, ranked: true, rows: Vec::new(), nodes, by_name: HashMap::default() }
    }

    /// Reserves room for that many more pods.
    #[must_use]
    pub fn with_room_for(mut self, pods: usize) -> Self {
        self.rows.reserve(pods);
        self
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
        let node = self.count(pod);
        let packed = Packed::of(pod, self.now);
        self.rows.push(Row { packed, pod, node });
    }

    /// Counts a pod for the ranks of the others, without a place in the order.
    pub fn add_related(&mut self, pod: &'a Facts) {
        self.count(pod);
    }

    fn count(&mut self, pod: &'a Facts) -> usize {
        let known = pod.node.as_ref().map(|name| (name, self.by_name.get(&**name)));
        let at = match known {
            None => 0,
            Some((_, Some(at))) => *at,
            Some((name, None)) => {
                self.by_name.insert(name, self.nodes.len());
                self.nodes.push(NodePods { name: Some(name), ..NodePods::default() });
                self.nodes.len() - 1
            }
        };
        let node = &mut self.nodes[at];
        // Unassigned pods share no node, but have one rank: rule 1 parts them from the others.
        node.rank += u32::from(self.ranked);
        node.wants_priority |= pod.priority.is_none();
        node.wants_cost |= pod.cost.is_none();
        at
    }

    /// The nodes that a rule needs for one of these pods and that are not known yet.
    ///
    /// Empty if no rule reads a node. A pod needs no node if its own annotations override everything that a
    /// rule could grant.
    #[must_use]
    pub fn missing_nodes(&self, rules: &[NodePriority], known: &Nodes) -> BTreeSet<Arc<str>> {
        let wanted = Wanted::of(rules);
        let wants = |node: &&NodePods<'_>| wanted.is_for(!node.wants_priority, !node.wants_cost);
        let names = self.nodes.iter().filter(wants).filter_map(|node| node.name);
        names.filter(|name| !known.contains_key(*name)).cloned().collect()
    }

    /// All of them in their order, with these node rules and known nodes.
    #[must_use]
    pub fn order(mut self, rules: &[NodePriority], nodes: &Nodes) -> Order<'a> {
        self.rank_and_grant(rules, nodes);
        let rows = self.rows;
        let mut indices: Vec<usize> = (0..rows.len()).collect();
        indices.sort_unstable_by(|one, other| {
            let (one, other) = (&rows[*one], &rows[*other]);
            one.packed.cmp(&other.packed).then_with(|| one.pod.uid.cmp(&other.pod.uid))
        });
        Order { rows, indices }
    }

    /// Completes the numbers of each pod.
    fn rank_and_grant(&mut self, rules: &[NodePriority], nodes: &Nodes) {
        let grants: Vec<_> = match rules {
            [] => Vec::new(),
            rules => self.nodes.iter().map(|node| grant_on(node.name, rules, nodes)).collect(),
        };
        for row in &mut self.rows {
            let grant = grants.get(row.node).copied().flatten();
            let (priority, cost) = (priority_with(row.pod, grant), cost_with(row.pod, grant));
            row.packed = row.packed.with(priority, cost, self.nodes[row.node].rank);
        }
    }
}

/// Pods in their order.
#[derive(Debug, Default)]
pub struct Order<'a> {
    rows: Vec<Row<'a>>,
    indices: Vec<usize>,
}

impl Order<'_> {
    /// The indices of the pods, the first to be deleted first.
    #[must_use]
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// The delete priority of the pod with that index, from its annotation or a node rule.
    #[must_use]
    pub fn priority(&self, index: usize) -> i32 {
        self.rows[index].packed.priority()
    }

    /// The key of the pod with that index.
    #[must_use]
    pub fn key(&self, index: usize) -> Key {
        let row = &self.rows[index];
        Key { packed: row.packed, uid: Arc::clone(&row.pod.uid) }
    }
}
