//! The environment of the reconciliation: watches, the queue, workers, health, metrics, time.

pub(crate) mod backoff;
pub(crate) mod clock;
pub(crate) mod controller;
pub(crate) mod decision_log;
pub(crate) mod handover;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod node_rules;
pub(crate) mod pod_names;
pub(crate) mod queue;
pub(crate) mod reports;
pub(crate) mod server;
pub(crate) mod watches;
pub(crate) mod workers;
