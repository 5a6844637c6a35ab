//! The total order over pods, and why each pod stands where it does.
//!
//! The smallest pod is deleted first. One [`Key`] a pod, compared left to right:
//!
//! | # | rule | deleted first |
//! |---|---|---|
//! | 0 | delete priority: annotation, else node rule, else 0 | larger |
//! | 1 | assigned to a node | unassigned |
//! | 2 | phase (any other counts as Pending) | Pending, Unknown, Running |
//! | 3 | Ready | not ready |
//! | 4 | pod deletion cost: annotation, else node rule, else 0 | lower |
//! | 5 | rank: related active pods on the same node | higher |
//! | 6 | bucket of the time it became ready | ready for less time |
//! | 7 | container restarts, then sidecar restarts | more |
//! | 8 | bucket of the creation time | newer |
//! | 9 | UID, bytewise | smaller |
//!
//! Comparing keys, not pods, is what makes the order total: no rule looks at two pods at once, so no pair of
//! rules can disagree about three pods. It also makes a comparison cheap, as everything is parsed before.
//!
//! This crate never does I/O, never reads a clock (the caller brings `now`), holds no randomness, never decides
//! how many pods go, and knows neither pause points nor revisions.

mod facts;
mod int32;
mod key;
mod node;
mod reason;

pub use facts::{Facts, Phase};
pub use int32::parse_int32;
pub use key::{Context, Key, Ranks, effective_cost, effective_priority, key};
pub use node::{Grant, NodeFacts, NodeRule, Nodes, Requirement, matching_rule, missing_nodes};
pub use reason::{Rule, Why, reason, why};
