//! What runs around reconciliations: watches, the handover with the built-in controller, metrics.

pub(crate) mod controller;
pub(crate) mod decision_log;
pub(crate) mod handover;
pub(crate) mod metrics;
pub(crate) mod node_rules;
pub(crate) mod reports;
pub(crate) mod watches;
