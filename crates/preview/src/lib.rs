//! Previews of what the controller will do: the planner's decisions, applied to a model with its own clock.
//!
//! [`preview`] calls [`decide`](ordereddeployment_planner::decide) until there is nothing left to do. The
//! behavior of the cluster meanwhile (pods are scheduled, started and terminated, a user resumes) is assumed
//! explicitly: [`Assumptions`]. This crate makes no decisions about pods, does no I/O, reads no clock and
//! uses no randomness.

mod cluster;
mod scale_down;
mod simulation;
mod steps;

pub use cluster::{Assumptions, preview};
pub use scale_down::{next_act, scale_down, scale_down_plain};
pub use simulation::{Applied, SimulatedCluster, decide_and_read};
pub use steps::{Action, Counts, Deleted, End, Preview, Step};
