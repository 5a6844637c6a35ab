//! `cargo xtask bench`: the controller, the built-in controllers and a driver without a controller, measured
//! in turn on one real control plane.
//!
//! Every rollout is observed by a watch of its pods. One that breaks the order, the floor or the ceiling is
//! not a result.

mod cluster;
mod contender;
mod null;
mod observer;
mod promises;
mod results;
mod rows;
mod workload;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::cluster::Cluster;
use crate::rows::Row;

/// The page of the results.
const PAGE: &str = "docs/internals/benchmarks/results.md";

/// Measures rollouts on a real control plane.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Also measure the rows that take long: more pods, more objects, longer waits. Writes the page, which is
    /// printed otherwise.
    #[arg(long)]
    large: bool,
    /// Measure only the rows with these names.
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<String>,
    /// How often each row is measured for each contender; large ones once. The report gives medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Print the names of the rows and end.
    #[arg(long)]
    list: bool,
}

impl Arguments {
    /// The rows to measure: those named, else all that do not take too long.
    fn rows(&self) -> Result<Vec<Row>> {
        let mut rows = rows::rows();
        for name in &self.only {
            let exists = rows.iter().any(|row| row.name == *name);
            ensure!(exists, "there is no row {name}: --list shows all");
        }
        rows.retain(|row| match self.only.as_slice() {
            [] => self.large || !row.large,
            only => only.iter().any(|name| name == row.name),
        });
        Ok(rows)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // No backtrace: the message says what to do.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.list {
        for row in rows::rows() {
            println!("{}{}: {}", row.name, if row.large { " (--large)" } else { "" }, row.question);
        }
        return Ok(());
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(measure(&arguments))
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let (mut measured, mut page) = (Vec::new(), String::new());
    // Rows of one shape share a control plane.
    for rows in arguments.rows()?.chunk_by(|one, other| one.shape == other.shape) {
        let start = Instant::now();
        let cluster = Cluster::start(rows[0].shape).await?;
        eprintln!("a control plane with {} pods in {:.0?}", rows[0].shape.others, start.elapsed());
        let version = &cluster.plane()?.version;
        let (command, rounds, machine) = (command(), arguments.rounds, machine());
        let how = format!(
            "Measured by `{command}` with Kubernetes {version}, on {machine}. Rounds: {rounds}; of large \
             rows 1."
        );
        for row in rows {
            let start = Instant::now();
            let rounds = if row.large { 1 } else { arguments.rounds };
            measured.push(row.measure(&cluster, rounds).await?);
            eprintln!("{}: done in {:.0?}", row.name, start.elapsed());
            page = results::page(&measured, &how)?;
        }
    }
    // Only a run of all rows replaces the page.
    if arguments.large && arguments.only.is_empty() {
        fs::write(PAGE, &page).with_context(|| format!("cannot write {PAGE}"))?;
    } else {
        println!("{page}");
    }
    let broken =
        measured.iter().flat_map(|row| row.broken.iter().map(|one| format!("{}: {one}", row.question)));
    let broken: Vec<String> = broken.collect();
    ensure!(broken.is_empty(), "promises were broken:\n{}", broken.join("\n"));
    Ok(())
}

/// The command as a user types it.
fn command() -> String {
    let arguments = std::env::args().skip(1);
    ["cargo", "xtask", "bench"].map(str::to_owned).into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

/// The processor, the number of its threads, and the memory.
fn machine() -> String {
    let line = |file: &str, key: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.split_once(':'));
        value.map(|(_, value)| value.trim().to_owned())
    };
    let processor = line("/proc/cpuinfo", "model name").unwrap_or_else(|| "an unknown processor".to_owned());
    let memory =
        line("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let threads = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{threads} threads of {processor}, {} GiB", memory.unwrap_or_default() >> 20)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Arguments;

    #[test]
    fn large_rows_are_measured_on_request_and_unknown_ones_are_an_error() {
        let names = |arguments: &[&str]| {
            let rows = Arguments::parse_from([&["bench"], arguments].concat()).rows()?;
            anyhow::Ok(rows.into_iter().map(|row| row.name).collect::<Vec<_>>())
        };
        assert!(!names(&[]).unwrap().contains(&"rest"));
        assert!(names(&["--large"]).unwrap().contains(&"rest"));
        assert_eq!(names(&["--only", "rest,strict-100"]).unwrap(), ["strict-100", "rest"]);
        assert!(names(&["--only", "strict"]).unwrap_err().to_string().contains("there is no row strict"));
    }
}
