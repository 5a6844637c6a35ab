//! The total order over pods, and the reason for each pod's place.
//!
//! The smallest pod is deleted first. Each pod has one [`Key`], compared left to right:
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
//! The order is total because it compares keys, not pods: no rule depends on two pods at once, so no two
//! rules can contradict each other over three pods. It also makes comparisons cheap: everything is parsed
//! before.
//!
//! This crate does no I/O, reads no clock (the caller passes `now`), and uses no randomness. It does not
//! decide how many pods are deleted, and it does not know pause points or revisions.

mod facts;
mod key;
mod node;
mod order;
mod reason;

pub use facts::{Facts, Phase, parse_int32};
pub use key::{Key, priority};
pub use node::{NodeFacts, Nodes, matching_rule};
pub use order::{Order, Pods};
pub use reason::{Rule, Why, reason, why, why_by};
