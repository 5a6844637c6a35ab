//! Node rules: the priority or the cost a pod gets from where it runs. Never reads a node: the caller asks
//! [`missing_nodes`] what it still has to read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Context, Facts};

/// One requirement on a node's labels, as in a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The label is there with one of the values.
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
    /// The label is there.
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

/// What a node rule gives to the pods it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The delete priority (rule 0) of a pod without one of its own.
    Priority(i32),
    /// The deletion cost (rule 4) of a pod without one of its own.
    Cost(i32),
}

/// One entry of `deletionOrder.nodePriorities`. Its fields are `ANDed`; without any field it matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRule {
    /// Requirements on the node's labels; all of them hold.
    pub requirements: Vec<Requirement>,
    /// Whether the node is cordoned.
    pub unschedulable: Option<bool>,
    /// The node has a taint with any of these keys; empty asks for nothing.
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

    /// Whether a pod on some node could match, whatever the node.
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

/// What the rules read of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The keys of its taints.
    pub taint_keys: BTreeSet<String>,
}

/// Nodes as known: `Some` is what is known of it, `None` a node known to be gone, no key one not read yet.
pub type Nodes = BTreeMap<Arc<str>, Option<NodeFacts>>;

/// The nodes that a rule needs for one of these pods and that are not known yet.
///
/// Empty where no rule reads a node, and a pod needs no node when its own annotations overrule whatever a rule
/// could give it.
pub fn missing_nodes<'a>(
    pods: impl IntoIterator<Item = &'a Facts>,
    rules: &[NodeRule],
    nodes: &Nodes,
) -> BTreeSet<Arc<str>> {
    let mut grants_priority = false;
    let mut grants_cost = false;
    for rule in rules.iter().filter(|rule| rule.for_assigned()) {
        match rule.grant {
            Grant::Priority(_) => grants_priority = true,
            Grant::Cost(_) => grants_cost = true,
        }
    }
    pods.into_iter()
        .filter(|pod| (grants_priority && pod.priority.is_none()) || (grants_cost && pod.cost.is_none()))
        .filter_map(|pod| pod.node.as_ref())
        .filter(|name| !nodes.contains_key(*name))
        .cloned()
        .collect()
}

/// The place in `ctx.rules` of the first rule that matches this pod: the only one that counts for it, also where
/// the pod's own annotation overrules what it gives.
#[must_use]
pub fn matching_rule(pod: &Facts, ctx: &Context<'_>) -> Option<usize> {
    match &pod.node {
        None => ctx.rules.iter().position(NodeRule::matches_unassigned),
        Some(name) => {
            // Gone or not read yet: nothing is known of it, so nothing matches.
            let node = ctx.nodes.get(name)?.as_ref()?;
            ctx.rules.iter().position(|rule| rule.matches_on(node))
        }
    }
}

/// What the first matching rule gives to this pod.
pub(crate) fn grant(pod: &Facts, ctx: &Context<'_>) -> Option<Grant> {
    matching_rule(pod, ctx).and_then(|at| ctx.rules.get(at)).map(|rule| rule.grant)
}
