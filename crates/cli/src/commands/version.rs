//! `version`: prints the version of this program.

use anyhow::Result;

use crate::escape::print;
use crate::exit::Exit;

/// Print the version of this program, as --version does
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<Exit> {
    print(format_args!("kubectl-ordered {}\n", env!("CARGO_PKG_VERSION")))?;
    Ok(Exit::Success)
}
