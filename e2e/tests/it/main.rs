//! Scenarios on both servers, and the two servers against each other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]

mod chart;
mod election;
mod servers;
mod ten_pods;
