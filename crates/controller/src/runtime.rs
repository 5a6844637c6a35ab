//! What runs around reconciliations: watches, the handover with the built-in controller, metrics.

pub(crate) mod controller;
pub(crate) mod handover;
pub(crate) mod watches;
