//! Observed state and a time in, a decision out: which pods go, which come, where the rollout halts.
//!
//! [`decide`] is a plain function. This crate does no I/O, reads no clock, holds no randomness, and depends on no client.
//! The controller, the command line's preview and the simulator all call it.
//!
//! One decision looks at all pods of all revisions at once. It is one of three: something must be read before anything can be
//! decided ([`Decision::Read`]); something must be stored before anything may be done ([`Decision::Record`]); or the pods
//! to create and to delete ([`Decision::Act`]). Whoever carries it out comes back with what is true then.

mod backoff;
mod barrier;
mod census;
mod comparison;
mod conditions;
mod decide;
mod events;
mod history;
mod hold;
mod kept;
mod line_up;
mod migration;
mod model;
mod moves;
mod node_rules;
mod objects;
mod phase;
mod report;
mod revision;
mod rollout;
mod scaling;
mod sizes;
mod stuck;
mod uncompared;
mod unstored;
mod view;
mod world;

pub use comparison::{Answer, Comparison};
pub use conditions::seconds as whole_seconds;
pub use decide::decide;
pub use line_up::{LineUp, Place, line_up};
pub use migration::{is_handed_back, sources};
pub use model::{
    Act, Compared, Create, Decision, DeleteGroup, Event, EventType, Failed, Failure, Hindrance, Malformed,
    Observed, Pod, Point, Proof, Purpose, Read, Record, Regarding, Set, SetChange, Source, Target,
};
pub use node_rules::node_rules;
pub use objects::{new_pod, new_set, owner_of, tell_apart, with_hash, without_hash};
pub use revision::{is_of, to_compare};
pub use unstored::{tell_unstored, unstored_message};
pub use view::{ConditionView, MalformedAnnotation, NodeView, PodView, set};
pub use world::{Done, World};
