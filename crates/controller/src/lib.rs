//! The controller: watches objects, runs the planner and writes the decision.
//!
//! Watches feed a synchronous cache. Expectations complete it: writes and live reads that the watches do not
//! show yet. The planner decides; this crate carries out the decision and reports it. This crate never
//! chooses a pod to delete: the planner does. All state in memory can be lost: what must survive is in the
//! status.
//!
//! Several controllers can run in one process, each with its own [`Options`].

/// What is logged by default. The client library logs whole answers that it cannot read.
pub const LOG_FILTER: &str = "info,kube_client=error";

mod cache;
mod error;
mod metrics;
mod node_rules;
mod nodecosts;
mod objects;
mod reconcile;
mod runtime;
#[cfg(test)]
mod testing;

pub use error::Error;
pub use metrics::Metrics;
pub use node_rules::RulesSource;
pub use nodecosts::run_node_costs;
pub use ordereddeployment_wire::Family;
pub use reconcile::context::DecisionLog;
pub use runtime::controller::{Controller, Options, health};
pub use runtime::handover::Apart;
