//! Observe, plan, execute, report: the shell around the planner.
//!
//! Watches feed a synchronous cache; what this controller wrote or read live lies over it until the watches show it; the
//! planner decides; this crate carries the decision out and tells of it. It never decides which pod goes: that is the
//! planner's. All state can be lost: whatever must survive a restart is in the status of the OrderedDeployment.
//!
//! Several controllers may run in one process, each on its own [`Options`].

mod backoff;
mod budgets;
mod cache;
mod calls;
mod claim;
mod client;
mod clock;
mod compare;
mod context;
mod controller;
mod decode;
mod election;
mod entry;
mod error;
mod events;
mod execute;
mod fence;
mod health;
mod journal;
mod lease;
mod limits;
mod memory;
mod merge_patch;
mod metrics;
mod nodecosts;
mod observe;
mod overlay;
mod pass;
mod pod_names;
mod queue;
mod reconcile;
mod report;
mod server;
#[cfg(test)]
mod testing;
mod verdict;
mod watches;

pub use client::{client_config, counted};
pub use clock::Clock;
pub use controller::{Controller, Options};
pub use election::Timing;
pub use error::{CallError, Error};
pub use fence::Fence;
pub use health::Health;
pub use journal::Journal;
pub use lease::{Candidate, identity};
pub use limits::{Limiter, Limits};
pub use metrics::{Metrics, metric};
pub use nodecosts::NodeCosts;
pub use pod_names::Names;
pub use server::serve;
