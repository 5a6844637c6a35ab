//! `cargo xtask faults`: plays the campaign and says what it found.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use faults::judge::judge;
use faults::{campaign, run};

/// Plays what can go wrong against the controller, under simulated time.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many runs.
    #[arg(long, default_value_t = 2000)]
    runs: u64,
    /// The seed of the first random run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let start = Instant::now();
    let mut played = 0;
    for calm in campaign::calm() {
        let log = run(&calm)?;
        println!(
            "{}: {} writes, {} requests, {} commits, {} decisions",
            calm.name,
            log.writes,
            log.requests.len(),
            log.commits.len(),
            log.decisions.len()
        );
        if std::env::var_os("LINES").is_some() {
            for line in log.lines() {
                println!("{line}");
            }
        }
        for case in campaign::crashes(&calm, 1000)? {
            let log = run(&case)?;
            played += 1;
            for violation in judge(&case, &log) {
                println!("{violation}");
            }
            if played >= arguments.runs {
                break;
            }
        }
    }
    println!("{played} runs in {:?}", start.elapsed());
    Ok(ExitCode::SUCCESS)
}
