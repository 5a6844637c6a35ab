//! Node rules: the priority or the cost that a pod gets from its node. This module reads no nodes:
//! [`Pods::missing_nodes`](crate::Pods::missing_nodes) tells which ones to read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ordereddeployment_api::NodePriority;

/// What a node rule grants to the pods that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// The delete priority (rule 0) of a pod without its own.
    Priority(i32),
    /// The deletion cost (rule 4) of a pod without its own.
    Cost(i32),
}

impl Grant {
    /// A rule without a grant, which validation refuses, grants priority 0.
    fn of(rule: &NodePriority) -> Self {
        match (rule.priority, rule.deletion_cost) {
            (None, Some(cost)) => Self::Cost(cost),
            (priority, _) => Self::Priority(priority.unwrap_or(0)),
        }
    }
}

fn taint_keys(rule: &NodePriority) -> &[String] {
    rule.taint_keys.as_deref().unwrap_or_default()
}

fn reads_the_node(rule: &NodePriority) -> bool {
    let selects = rule.node_selector.as_ref().is_some_and(|selector| !selector.is_empty());
    selects || rule.unschedulable.is_some() || !taint_keys(rule).is_empty()
}

/// Whether the rule can match an assigned pod on any node. Without any field it matches nothing.
fn is_for_assigned(rule: &NodePriority) -> bool {
    match rule.unassigned {
        Some(unassigned) => !unassigned,
        None => reads_the_node(rule),
    }
}

fn matches_unassigned(rule: &NodePriority) -> bool {
    rule.unassigned == Some(true) && !reads_the_node(rule)
}

fn matches_on(rule: &NodePriority, node: &NodeFacts) -> bool {
    let taints = taint_keys(rule);
    is_for_assigned(rule)
        && rule.node_selector.as_ref().is_none_or(|selector| selector.matches(&node.labels))
        && rule.unschedulable.is_none_or(|wanted| wanted == node.unschedulable)
        && (taints.is_empty() || taints.iter().any(|key| node.taint_keys.contains(key)))
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

/// The known nodes: `None` is one that does not exist. A missing one was not read yet.
pub type Nodes = BTreeMap<Arc<str>, Option<NodeFacts>>;

/// What rules could grant to pods by their nodes, or what pods of a node lack.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) priority: bool,
    pub(crate) cost: bool,
}

impl Wanted {
    pub(crate) fn of(rules: &[NodePriority]) -> Self {
        let mut wanted = Self::default();
        for rule in rules.iter().filter(|rule| is_for_assigned(rule)) {
            match Grant::of(rule) {
                Grant::Priority(_) => wanted.priority = true,
                Grant::Cost(_) => wanted.cost = true,
            }
        }
        wanted
    }
}

/// The first rule that matches the pods on this node, or those without a node. Only this rule applies, even
/// if the pod's own annotation overrides its grant.
#[must_use]
pub fn matching_rule<'r>(
    node: Option<&Arc<str>>,
    rules: &'r [NodePriority],
    nodes: &Nodes,
) -> Option<&'r NodePriority> {
    match node {
        None => rules.iter().find(|rule| matches_unassigned(rule)),
        Some(name) => {
            // Gone or not read yet: nothing is known of it, so no rule matches.
            let node = nodes.get(name)?.as_ref()?;
            rules.iter().find(|rule| matches_on(rule, node))
        }
    }
}

/// What the first matching rule grants to the pods on this node, or to those without a node.
pub(crate) fn grant_on(node: Option<&Arc<str>>, rules: &[NodePriority], nodes: &Nodes) -> Option<Grant> {
    matching_rule(node, rules, nodes).map(Grant::of)
}
