//! Converts `deletionOrder.nodePriorities` for the sorter. No matching happens here.

use ordereddeployment_api::{
    DeclaredPausePoint, DeletionOrder, LabelSelector, LabelSelectorOperator, NodePriority,
    OrderedDeploymentSpec,
};
use ordereddeployment_sorter::{Grant, NodeRule, Requirement};

/// The rules, in their order. A rule without a grant, which validation refuses, grants priority 0.
#[must_use]
pub fn node_rules(order: &DeletionOrder) -> Vec<NodeRule> {
    order.node_priorities.iter().flatten().map(rule).collect()
}

fn rule(rule: &NodePriority) -> NodeRule {
    NodeRule {
        requirements: rule.node_selector.as_ref().map(requirements).unwrap_or_default(),
        unschedulable: rule.unschedulable,
        taint_keys: rule.taint_keys.clone().unwrap_or_default(),
        unassigned: rule.unassigned,
        grant: match (rule.priority, rule.deletion_cost) {
            (Some(priority), _) => Grant::Priority(priority),
            (None, Some(cost)) => Grant::Cost(cost),
            (None, None) => Grant::Priority(0),
        },
    }
}

fn requirements(selector: &LabelSelector) -> Vec<Requirement> {
    let equal = selector
        .match_labels
        .iter()
        .flatten()
        .map(|(key, value)| Requirement::In { key: key.clone(), values: vec![value.clone()] });
    let others = selector.match_expressions.iter().flatten().map(|requirement| {
        let key = requirement.key.clone();
        let values = requirement.values.clone().unwrap_or_default();
        match requirement.operator {
            LabelSelectorOperator::In => Requirement::In { key, values },
            LabelSelectorOperator::NotIn => Requirement::NotIn { key, values },
            LabelSelectorOperator::Exists => Requirement::Exists { key },
            LabelSelectorOperator::DoesNotExist => Requirement::DoesNotExist { key },
        }
    });
    equal.chain(others).collect()
}

/// Whether a declared pause point reads nodes.
pub(crate) fn points_need_nodes(spec: &OrderedDeploymentSpec) -> bool {
    let needs =
        |point: &DeclaredPausePoint| point.before_nodes.is_some() || point.between_node_groups.is_some();
    spec.strategy.points().any(needs)
}

/// Whether decisions about this spec read nodes.
#[must_use]
pub fn needs_nodes(spec: &OrderedDeploymentSpec) -> bool {
    !rules_of(spec).is_empty() || points_need_nodes(spec)
}

/// The rules of a spec, in their order.
pub(crate) fn rules_of(spec: &OrderedDeploymentSpec) -> Vec<NodeRule> {
    spec.deletion_order.as_ref().map(node_rules).unwrap_or_default()
}
