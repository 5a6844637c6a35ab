//! Scenarios on both servers, and the comparison of the two servers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

#[cfg(feature = "real-servers")]
mod admission;
mod built_in;
#[cfg(feature = "real-servers")]
mod chaos;
mod chart;
#[cfg(feature = "real-servers")]
mod charts;
mod collection;
mod command_line;
mod dashboard;
mod declared;
#[cfg(feature = "real-servers")]
mod definitions;
#[cfg(feature = "real-servers")]
mod deletion;
#[cfg(feature = "real-servers")]
mod differential;
mod election;
#[cfg(feature = "real-servers")]
mod monitoring;
#[cfg(feature = "real-servers")]
mod nodecosts;
mod page;
mod parity;
mod policies;
mod recipes;
#[cfg(feature = "real-servers")]
mod replicasets;
mod templates;
mod ten_pods;
mod tutorial;
mod waiting;
