//! Tests of the controller on the sandbox, under the simulated clock: what users see, and the requests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]

mod access;
mod answers;
mod backups;
mod batches;
mod claims;
mod cluster;
mod costs;
mod evictions;
mod fairness;
mod fault_injector;
mod faults;
mod fuzz;
mod handover;
mod health;
mod holds;
mod leadership;
mod live_lists;
mod nodecosts;
mod odd_objects;
mod orphans;
mod plain;
mod replica_sets;
mod rollouts;
mod spellings;
mod webhooks;
