//! Tests of the sandbox through its API: in memory under the simulated clock, and with real kubectl.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assumption fails the test"
)]
#![allow(clippy::needless_pass_by_value, reason = "reads better where the value is written in place")]

mod budgets;
mod common;
mod garbage;
mod kubectl;
mod lifecycle;
mod limits;
mod objects;
mod watches;
