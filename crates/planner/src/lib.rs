//! A snapshot and a time in, a decision out: which pods go, which come, where the rollout halts.
//!
//! [`decide`] is a plain function. This crate does no I/O, reads no clock, holds no randomness, and depends on no client.
//! The controller, the command line's preview and the simulator all call it.
//!
//! One decision looks at all pods of all revisions at once. It is one of three: something must be read before anything can be
//! decided ([`Decision::Read`]); something must be stored before anything may be done ([`Decision::Record`]); or the pods
//! to create and to delete ([`Decision::Act`]). Whoever carries it out comes back with what is true then.

mod backoff;
mod barrier;
mod comparison;
mod conditions;
mod decide;
mod events;
mod history;
mod hold;
mod inventory;
mod kept;
mod migration;
mod model;
mod node_rules;
mod phase;
mod pod_changes;
mod report;
mod revision;
mod rollout;
mod rollout_order;
mod scaling;
mod sizes;
mod stuck;
mod template_comparison;
mod unstored;

pub use comparison::{Answer, Comparison};
pub use conditions::seconds as whole_seconds;
pub use decide::decide;
pub use migration::{is_handed_back, sources};
pub use model::{
    Act, ComparisonResult, Create, Decision, DeleteGroup, DryRun, Event, EventType, Failed, Failure,
    FailureKind, Malformed, Pod, Point, Purpose, Read, Record, Regarding, Set, SetChange, Snapshot, Source,
    Target,
};
pub use node_rules::node_rules;
pub use revision::{is_of, make_hashes_unique, to_compare};
pub use rollout_order::{Place, RolloutOrder, rollout_order};
pub use unstored::{report_unstored, unstored_message};
