//! Scenarios on both servers, and the comparison of the two servers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

#[cfg(feature = "real-servers")]
mod admission;
mod built_in;
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
mod evictions;
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
mod spellings;
mod templates;
mod ten_pods;
mod tutorial;
mod waiting;

/// How many random moments the scenarios try. `RANDOM_MOMENTS` raises it.
fn moments() -> usize {
    std::env::var("RANDOM_MOMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}
