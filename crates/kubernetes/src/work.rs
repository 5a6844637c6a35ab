//! What is reconciled next, and how much at the same time.

pub(crate) mod queue;
pub(crate) mod workers;
