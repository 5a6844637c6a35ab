//! The planner: from a snapshot it decides which pods to create and delete, and where the rollout pauses.
//!
//! [`decide()`] is a pure function. This crate does no I/O, reads no clock, uses no randomness, and depends
//! on no client. The controller, the previews of the command line and the simulator all call it.
//!
//! One decision covers all pods of all revisions. It is one of three: data that must be read before a
//! decision is possible ([`Decision::Read`]), a status that must be stored before any other write
//! ([`Decision::Record`]), or the pods to create and to delete ([`Decision::Act`]). The caller carries it out
//! and calls [`decide()`] again with a new snapshot.

mod abort;
mod backoff;
mod comparison;
mod conditions;
mod corrected;
mod decide;
mod events;
mod groups;
mod history;
mod hold;
mod ids;
mod inventory;
mod migration;
mod model;
mod node_rules;
mod phase;
mod pod_changes;
mod points;
mod replica_sets;
mod report;
mod revision;
mod rollout;
mod rollout_order;
mod scaling;
mod seen;
mod served;
mod sizes;
mod stuck;
mod template_comparison;

pub use comparison::{Answer, Comparison, dropped_fields};
pub use conditions::{report_unstored, seconds as whole_seconds, unstored_message};
pub use decide::decide;
pub use migration::{is_handed_back, sources};
pub use model::{
    Act, ComparisonResult, Create, Decision, DeleteGroup, DryRun, Event, EventType, Failed, Failure,
    FailureKind, Malformed, Pod, Point, Purpose, Read, Record, Regarding, Set, SetChange, Snapshot, Source,
    Target,
};
pub use node_rules::{needs_nodes, node_rules};
pub use replica_sets::{decide_sets, pauses};
pub use revision::{is_of, make_hashes_unique, to_compare};
pub use rollout_order::{BarrierPlace, Place, RolloutOrder, rollout_order};
pub use served::last_served;
