//! Node rules: the priority or the cost that a pod gets from its node. This module reads no nodes:
//! [`Pods::missing_nodes`](crate::Pods::missing_nodes) tells which ones to read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One requirement on a node's labels, as in a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The label exists with one of the values.
    In {
        /// The label's key.
        key: String,
        /// The values that match.
        values: Vec<String>,
    },
    /// The label is absent, or has none of the values.
    NotIn {
        /// The label's key.
        key: String,
        /// The values that do not match.
        values: Vec<String>,
    },
    /// The label exists.
    Exists {
        /// The label's key.
        key: String,
    },
    /// The label is absent.
    DoesNotExist {
        /// The label's key.
        key: String,
    },
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::In { key, values } => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn { key, values } => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists { key } => labels.contains_key(key),
            Self::DoesNotExist { key } => !labels.contains_key(key),
        }
    }
}

/// What a node rule grants to the pods that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The delete priority (rule 0) of a pod without its own.
    Priority(i32),
    /// The deletion cost (rule 4) of a pod without its own.
    Cost(i32),
}

/// An entry of `deletionOrder.nodePriorities`. Its fields are `ANDed`; without any field it matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRule {
    /// Requirements on the node's labels; all of them must match.
    pub requirements: Vec<Requirement>,
    /// Whether the node is cordoned.
    pub unschedulable: Option<bool>,
    /// The node has a taint with one of these keys; empty requires nothing.
    pub taint_keys: Vec<String>,
    /// `Some(true)`: the pod is not assigned to a node.
    pub unassigned: Option<bool>,
    /// What the pod gets.
    pub grant: Grant,
}

impl NodeRule {
    fn reads_the_node(&self) -> bool {
        !self.requirements.is_empty() || self.unschedulable.is_some() || !self.taint_keys.is_empty()
    }

    /// Whether the rule can match an assigned pod on any node.
    fn for_assigned(&self) -> bool {
        match self.unassigned {
            Some(unassigned) => !unassigned,
            None => self.reads_the_node(),
        }
    }

    fn matches_unassigned(&self) -> bool {
        self.unassigned == Some(true) && !self.reads_the_node()
    }

    fn matches_on(&self, node: &NodeFacts) -> bool {
        self.for_assigned()
            && self.requirements.iter().all(|requirement| requirement.holds(&node.labels))
            && self.unschedulable.is_none_or(|wanted| wanted == node.unschedulable)
            && (self.taint_keys.is_empty() || self.taint_keys.iter().any(|key| node.taint_keys.contains(key)))
    }
}

/// The fields of a node that the rules read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The keys of its taints.
    pub taint_keys: BTreeSet<String>,
}

/// The known nodes: `Some` has the facts of a node, `None` is a node that does not exist, a
/// missing key is a node that was not read yet.
pub type Nodes = BTreeMap<Arc<str>, Option<NodeFacts>>;

/// What rules could grant to pods by their nodes.
pub(crate) struct Wanted {
    priority: bool,
    cost: bool,
}

impl Wanted {
    pub(crate) fn of(rules: &[NodeRule]) -> Self {
        let mut wanted = Self { priority: false, cost: false };
        for rule in rules.iter().filter(|rule| rule.for_assigned()) {
            match rule.grant {
                Grant::Priority(_) => wanted.priority = true,
                Grant::Cost(_) => wanted.cost = true,
            }
        }
        wanted
    }

    /// Whether a rule could grant something to pods with or without annotations of their own.
    pub(crate) fn is_for(&self, has_priority: bool, has_cost: bool) -> bool {
        (self.priority && !has_priority) || (self.cost && !has_cost)
    }
}

/// The index of the first rule that matches the pods on this node, or those without a node. Only this rule
/// applies, even if the pod's own annotation overrides its grant.
#[must_use]
pub fn matching_rule(node: Option<&Arc<str>>, rules: &[NodeRule], nodes: &Nodes) -> Option<usize> {
    match node {
        None => rules.iter().position(NodeRule::matches_unassigned),
        Some(name) => {
            // Gone or not read yet: nothing is known of it, so no rule matches.
            let node = nodes.get(name)?.as_ref()?;
            rules.iter().position(|rule| rule.matches_on(node))
        }
    }
}

/// What the first matching rule grants to the pods on this node, or to those without a node.
pub(crate) fn grant_on(node: Option<&Arc<str>>, rules: &[NodeRule], nodes: &Nodes) -> Option<Grant> {
    matching_rule(node, rules, nodes).and_then(|at| rules.get(at)).map(|rule| rule.grant)
}
