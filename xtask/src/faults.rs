//! The fault campaign: built with optimizations, since the time of each run counts.

use anyhow::Result;

use crate::process::{OPTIMIZED, build_release, release_program, run};

/// `cargo xtask faults`: the campaign, with these arguments.
pub(crate) fn campaign(arguments: &[&str]) -> Result<()> {
    build_release(&OPTIMIZED, &["faults"])?;
    run(release_program("faults").args(arguments))
}

/// The part of the campaign that every check runs: every second write of each scenario interrupted once, and random faults.
/// The program is built already.
pub(crate) fn slice() -> Result<()> {
    run(release_program("faults").args(["--slice", "--runs", "6000"]))
}
