//! Which parts of a spec read nodes. No matching happens here.

use ordereddeployment_api::{DeclaredPausePoint, NodePriority, OrderedDeploymentSpec};

/// The node rules of a spec, in their order.
#[must_use]
pub fn node_rules(spec: &OrderedDeploymentSpec) -> &[NodePriority] {
    let order = spec.deletion_order.as_ref();
    order.and_then(|order| order.node_priorities.as_deref()).unwrap_or_default()
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
    !node_rules(spec).is_empty() || points_need_nodes(spec)
}
