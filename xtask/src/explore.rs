//! The exploration of small clusters: built with optimizations, since it makes millions of decisions.

use anyhow::Result;

use crate::process::{OPTIMIZED, build_release, release_program, run};

/// `cargo xtask explore`: the exploration, with these arguments.
pub(crate) fn run_with(arguments: &[&str]) -> Result<()> {
    build_release(&OPTIMIZED, &["explore"])?;
    run(release_program("explore").args(arguments))
}

/// The part of the exploration that every check runs. The program is built already.
pub(crate) fn bounded() -> Result<()> {
    run(release_program("explore").arg("--bounded"))
}
