//! Tests of the planner on a simple model of a cluster, which checks the contract at every step.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail by panicking")]
#![allow(clippy::similar_names, reason = "hold and held are the words of this field")]

mod aborts;
mod attacks;
mod blocked;
mod collected;
mod declared;
mod deleted_sets;
mod extremes;
mod failures;
mod forged;
mod migration;
mod model;
mod pauses;
mod play;
mod random;
mod replica_sets;
mod reports;
mod rollouts;
mod scaling;
mod spellings;
mod stories;
mod waiting;
