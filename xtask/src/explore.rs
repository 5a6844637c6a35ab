//! The exploration of small clusters: built with optimizations, since it makes millions of decisions.

use std::process::Command;

use anyhow::Result;

use crate::process::{run, top};

/// `cargo xtask explore`: the exploration, with these arguments.
pub(crate) fn run_with(arguments: &[&str]) -> Result<()> {
    let mut cargo = Command::new("cargo");
    run(cargo.current_dir(top()).args(["build", "--release", "--quiet", "--package", "explore"]))?;
    run(Command::new(top().join("target/release/explore")).current_dir(top()).args(arguments))
}

/// The part of the exploration that every check runs.
pub(crate) fn bounded() -> Result<()> {
    run_with(&["--bounded"])
}
