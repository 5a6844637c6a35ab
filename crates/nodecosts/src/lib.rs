//! Deletion costs for the pods of plain Deployments, by the nodes that they run on.
//!
//! [`Index`] takes the events of watches and says which cost to write on which pod. It changes no cost that
//! it did not write. This crate sends no request, reads no clock and holds no randomness.

mod config;
mod decision;
mod index;

pub use config::Config;
pub use decision::Change;
pub use index::{ALL_SYNCED, Changed, Index, Pod, WatchEvent};
