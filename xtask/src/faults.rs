//! The fault campaign: built with optimizations, since the time of each run counts.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process::{run, top};

/// `cargo xtask faults`: the campaign, with these arguments.
pub(crate) fn campaign(arguments: &[&str]) -> Result<()> {
    run(&mut build())?;
    run(program(&top().join("target/release/faults")).args(arguments))
}

/// The part of the campaign that every check runs: every second write of each scenario interrupted once, and random faults.
pub(crate) fn slice() -> Result<()> {
    campaign(&["--slice", "--runs", "6000"])
}

fn build() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(top()).args(["build", "--release", "--quiet", "--package", "faults"]);
    cargo
}

fn program(path: &Path) -> Command {
    let mut program = Command::new(path);
    program.current_dir(top());
    program
}
