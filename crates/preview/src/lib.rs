//! What the controller will do, ahead of time: the planner's decisions, carried out on a model with a clock of its own.
//!
//! [`preview`] steps [`decide`](ordereddeployment_planner::decide) until there is nothing left to do. What a cluster does
//! meanwhile (placing pods, starting them, ending them, somebody who resumes) is assumed, and said: [`Assumptions`]. This
//! crate decides nothing about any pod, does no I/O, reads no clock and holds no randomness.

mod cluster;
mod scale_down;
mod simulation;
mod steps;

pub use cluster::{Assumptions, preview};
pub use scale_down::{next_act, scale_down};
pub use simulation::{Applied, SimulatedCluster};
pub use steps::{Deleted, End, Preview, Step, What};
