//! Scenarios on both servers, and the two servers against each other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod chart;
#[cfg(feature = "real-servers")]
mod differential;
mod election;
mod servers;
mod ten_pods;
mod witness;
