//! Leader election: one replica holds the Lease and reconciles, the others stand by.

pub(crate) mod election;
pub(crate) mod lease;
