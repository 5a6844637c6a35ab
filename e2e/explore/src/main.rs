//! `cargo xtask explore`: runs the planner in every reachable state of small clusters.
//!
//! The rules of `e2e/oracle` check each decision. Without further faults, every order of expected events must
//! end in a state that the contract allows, and must not contain a cycle. No API server is simulated: the
//! campaign of faults does that.

mod case;
mod events;
mod pods;
mod search;
mod setup;
mod state;
mod statuses;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use case::{Case, cases};
use clap::Parser;
use search::{Finding, Outcome, explore};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Explores small clusters with the planner.
///
/// Each cluster starts with a rollout that is about to begin. A broken rule is printed once, with its
/// shortest trace.
#[derive(Debug, Parser)]
#[command(name = "explore")]
struct Arguments {
    /// Explore only the part that every check of the repository explores, in less than two minutes.
    #[arg(long)]
    bounded: bool,
    /// Exit with success when that oracle finds a violation, and with failure if it finds none.
    #[arg(long, value_name = "ORACLE")]
    until: Option<String>,
    /// Explore only the cluster with this number, as printed with a trace.
    #[arg(long, value_name = "NUMBER")]
    only: Option<usize>,
    /// Explore only part K of N: each n-th cluster. The default is 1 1, with --bounded 1 17.
    #[arg(long, num_args = 2, value_names = ["K", "N"])]
    part: Option<Vec<usize>>,
    /// The maximum number of states of one cluster.
    #[arg(long, default_value_t = 20_000_000)]
    states: usize,
}

/// The results of all clusters.
#[derive(Default)]
struct Total {
    outcome: Outcome,
    clusters: u64,
    largest: u64,
    /// By oracle: the cluster with the shortest trace.
    findings: BTreeMap<&'static str, (usize, Finding)>,
    error: Option<anyhow::Error>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let start = Instant::now();
    let (part, parts) = match arguments.part.as_deref() {
        Some(&[part, parts]) => (part.saturating_sub(1), parts.max(1)),
        _ => (0, if arguments.bounded { 17 } else { 1 }),
    };
    let cases: Vec<(usize, Case)> = cases(!arguments.bounded)
        .into_iter()
        .enumerate()
        .filter(|(number, _)| arguments.only.map_or(number % parts == part, |only| only == *number))
        .collect();
    ensure!(!cases.is_empty(), "these arguments select no cluster");
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Total::default());
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| work(&arguments, &cases, &next, &total));
        }
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = total.error {
        return Err(error);
    }
    for (oracle, (number, finding)) in &total.findings {
        let case = cases.iter().find(|(other, _)| other == number).map(|(_, case)| format!("{case:?}"));
        println!(
            "{oracle} finds violations in {} states. The shortest trace is in cluster {number}:",
            finding.count
        );
        println!("  {}", case.unwrap_or_default());
        for line in &finding.trace {
            println!("  {line}");
        }
        println!("  {}", finding.violation);
    }
    let Outcome { states, transitions, depth, is_cut, .. } = total.outcome;
    let clean = if total.findings.is_empty() { ", no violations" } else { "" };
    println!(
        "{} clusters, {states} states, {transitions} transitions, at most {depth} steps deep, {} states in \
         the largest; {} s on {jobs} threads{clean}",
        total.clusters,
        total.largest,
        start.elapsed().as_secs(),
    );
    if is_cut {
        bail!("a cluster has more states than --states allows");
    }
    if let Some(oracle) = &arguments.until {
        let found = total.findings.contains_key(oracle.as_str());
        println!("{}", if found { format!("caught by {oracle}") } else { format!("{oracle} found nothing") });
        return Ok(if found { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    Ok(if total.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn work(arguments: &Arguments, cases: &[(usize, Case)], next: &AtomicUsize, total: &Mutex<Total>) {
    while let Some((number, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
        let outcome = explore(case.clone(), arguments.states);
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(outcome) => total.add(*number, outcome),
            Err(error) => total.error = Some(error.context(format!("cluster {number}"))),
        }
        let caught =
            arguments.until.as_ref().is_some_and(|oracle| total.findings.contains_key(oracle.as_str()));
        if caught || total.error.is_some() {
            next.store(cases.len(), Ordering::Relaxed);
        }
    }
}

impl Total {
    fn add(&mut self, number: usize, found: Outcome) {
        let all = &mut self.outcome;
        self.clusters += 1;
        self.largest = self.largest.max(found.states);
        all.states += found.states;
        all.transitions += found.transitions;
        all.depth = all.depth.max(found.depth);
        all.is_cut |= found.is_cut;
        for (oracle, mut finding) in found.findings {
            match self.findings.get_mut(oracle) {
                None => {
                    self.findings.insert(oracle, (number, finding));
                }
                Some((of, known)) => {
                    let count = known.count + finding.count;
                    if finding.trace.len() < known.trace.len() {
                        std::mem::swap(known, &mut finding);
                        *of = number;
                    }
                    known.count = count;
                }
            }
        }
    }
}
