//! Leader election: one replica holds the Lease and works, the others wait.

pub(crate) mod election;
pub(crate) mod fence;
pub(crate) mod lease;
