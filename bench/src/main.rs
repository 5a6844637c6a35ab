//! `cargo xtask bench`: the controller, the built-in controllers and a driver without a controller, measured in turn on one
//! real control plane.
//!
//! Every rollout is observed by a watch of its pods. A run that breaks the order, the floor or the ceiling is an error, not a result.

mod cluster;
mod contender;
mod null;
mod observer;
mod process;
mod report;
mod rows;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

/// Measures rollouts on a real control plane.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Also measure the rows that take long: more pods, more objects, longer waits.
    #[arg(long)]
    large: bool,
    /// Measure only the rows whose names contain this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// How often each row is measured for each contender. The report gives medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The folder for the table, the JSON file and the plots.
    #[arg(long, default_value = "docs/benchmarks")]
    output: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let rows = rows::rows(arguments.large);
    let wanted = |name: &str| arguments.only.as_ref().is_none_or(|text| name.contains(text));
    let mut results = Vec::new();
    for row in rows.into_iter().filter(|row| wanted(&row.name)) {
        results.push(runtime.block_on(row.measure(arguments.rounds))?);
        // Written after each row: an interrupted run keeps what it has.
        report::write(&arguments.output, &results)?;
    }
    Ok(())
}
