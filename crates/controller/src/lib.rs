//! Observe, plan, execute, report: the shell around the planner.
//!
//! Watches feed a synchronous cache; what this controller wrote or read live lies over it until the watches show it; the
//! planner decides; this crate carries the decision out and tells of it. It never decides which pod goes: that is the
//! planner's. All state can be lost: whatever must survive a restart is in the status of the OrderedDeployment.
//!
//! Several controllers may run in one process, each on its own [`Options`].

mod cache;
mod client;
mod events;
mod leader;
mod nodecosts;
mod reconcile;
mod runtime;
#[cfg(test)]
mod testing;

pub use client::error::{Error, RequestError};
pub use client::http::{client_config, counted};
pub use client::limits::{Limiter, Limits};
pub use leader::election::Timing;
pub use leader::fence::Fence;
pub use leader::lease::{Candidate, identity};
pub use nodecosts::NodeCosts;
pub use runtime::clock::Clock;
pub use runtime::controller::{Controller, Options};
pub use runtime::decision_log::DecisionLog;
pub use runtime::health::Health;
pub use runtime::metrics::{Metrics, metric};
pub use runtime::pod_names::Names;
pub use runtime::server::serve;
