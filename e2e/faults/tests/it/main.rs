//! Tests of the campaign: every scenario is playable, every oracle has a mutant, and no regression breaks a
//! promise.
#![allow(clippy::unwrap_used, reason = "a failed assumption fails the test")]

mod mutants;
mod regressions;
mod scenarios;
