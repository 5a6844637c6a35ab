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
mod report;
mod results;
mod rows;
mod workload;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::cluster::{Cluster, Shape};
use crate::results::{How, Results};
use crate::rows::Row;

/// Measures rollouts on a real control plane.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Also measure the rows that take long: more pods, more objects, longer waits.
    #[arg(long)]
    large: bool,
    /// Measure only the rows with these names, and keep the other results.
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<String>,
    /// How often each row is measured for each contender; large ones once. The report gives medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// The folder of the report. Results there of rows that are not measured are kept.
    #[arg(long, default_value = "docs/internals/benchmarks")]
    output: PathBuf,
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
    let known: Vec<&str> = rows::rows().into_iter().map(|row| row.name).collect();
    let file = arguments.output.join(report::VALUES);
    let mut broken = Vec::new();
    for (shape, rows) in by_shape(arguments.rows()?) {
        let start = Instant::now();
        let cluster = Cluster::start(shape).await?;
        eprintln!("a control plane with {} pods in {:.0?}", shape.others, start.elapsed());
        for row in rows {
            let start = Instant::now();
            let how = How {
                command: command(),
                rounds: if row.large { 1 } else { arguments.rounds.into() },
                kubernetes: cluster.plane()?.version.clone(),
                machine: machine(),
            };
            let measured = row.measure(&cluster, how).await?;
            eprintln!("{}: done in {:.0?}", row.name, start.elapsed());
            let promises = measured.broken.iter().flat_map(|(contender, all)| {
                all.iter().map(move |promise| format!("{contender}: {promise}"))
            });
            broken.extend(promises.map(|promise| format!("{}: {promise}", row.name)));
            // After each row: an interrupted run keeps what it has.
            let mut results = Results::read(&file)?;
            results.put(measured, &known);
            report::write(&arguments.output, &results)?;
        }
    }
    ensure!(broken.is_empty(), "promises were broken:\n{}", broken.join("\n"));
    Ok(())
}

/// The rows of one control plane together, in the order of the first of each.
fn by_shape(rows: Vec<Row>) -> Vec<(Shape, Vec<Row>)> {
    let mut shapes: Vec<(Shape, Vec<Row>)> = Vec::new();
    for row in rows {
        match shapes.iter_mut().find(|(shape, _)| *shape == row.shape) {
            Some((_, rows)) => rows.push(row),
            None => shapes.push((row.shape, vec![row])),
        }
    }
    shapes
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

    use super::{Arguments, by_shape};

    fn names(arguments: &[&str]) -> Vec<&'static str> {
        let arguments = Arguments::parse_from([&["bench"], arguments].concat());
        arguments.rows().unwrap().into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn large_rows_are_measured_on_request() {
        assert!(!names(&[]).contains(&"rest"));
        assert!(names(&["--large"]).contains(&"rest"));
        assert_eq!(names(&["--only", "rest,strict-100"]), ["strict-100", "rest"]);
    }

    #[test]
    fn an_unknown_row_is_an_error() {
        let arguments = Arguments::parse_from(["bench", "--only", "strict"]);
        assert!(arguments.rows().unwrap_err().to_string().contains("there is no row strict"));
    }

    #[test]
    fn rows_of_one_shape_share_a_control_plane() {
        let rows = Arguments::parse_from(["bench", "--large"]).rows().unwrap();
        let all = rows.len();
        let shapes = by_shape(rows);
        assert_eq!(shapes.iter().map(|(_, rows)| rows.len()).sum::<usize>(), all);
        assert_eq!(shapes.len(), 4);
    }
}
