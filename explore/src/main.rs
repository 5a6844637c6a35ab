//! `cargo xtask explore`: the real planner in every state that a small cluster can come to.
//!
//! Each decision is judged by the oracles of the campaign. Once nothing disturbs any more, every order of what is waited for must end
//! as the contract says, and never go round in a circle. It simulates no API server: that is the campaign's part.

mod case;
mod events;
mod search;
mod state;
mod words;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail};
use case::{Case, Depth, cases};
use clap::Parser;
use search::{Broken, Outcome, explore};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Explores every small cluster with the real planner.
///
/// Each cluster is a rollout that is about to begin. A rule that is broken is printed once, with the shortest way to it.
#[derive(Debug, Parser)]
#[command(name = "explore")]
struct Arguments {
    /// Explore only what every check of the repository does, in less than two minutes.
    #[arg(long)]
    bounded: bool,
    /// How many clusters at the same time; by default as many as there are processors.
    #[arg(long)]
    jobs: Option<usize>,
    /// End with success as soon as that oracle finds a rule broken, and with failure if it never does.
    #[arg(long, value_name = "ORACLE")]
    until: Option<String>,
    /// Explore this cluster alone, by the number that is printed with a trace.
    #[arg(long, value_name = "NUMBER")]
    only: Option<usize>,
    /// Explore one cluster of so many. By default all of them, and with --bounded one of 17.
    #[arg(long)]
    every: Option<usize>,
    /// The most states of one cluster.
    #[arg(long, default_value_t = 20_000_000)]
    states: usize,
    /// Name the clusters as they are explored.
    #[arg(long)]
    verbose: bool,
}

/// All that was found.
#[derive(Default)]
struct Total {
    outcome: Outcome,
    clusters: u64,
    largest: u64,
    /// By oracle: the cluster with the shortest trace.
    broken: BTreeMap<&'static str, (usize, Broken)>,
    error: Option<anyhow::Error>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let start = Instant::now();
    let depth = if arguments.bounded { Depth::Bounded } else { Depth::Full };
    let every = arguments.every.unwrap_or(if arguments.bounded { 17 } else { 1 }).max(1);
    let cases: Vec<(usize, Case)> = cases(depth)
        .into_iter()
        .enumerate()
        .filter(|(number, _)| arguments.only.map_or(number % every == 0, |only| only == *number))
        .collect();
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Total::default());
    let jobs =
        arguments.jobs.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| work(&arguments, &cases, &next, &total, start));
        }
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = total.error {
        return Err(error);
    }
    for (oracle, (number, broken)) in &total.broken {
        let case = cases.iter().find(|(other, _)| other == number).map(|(_, case)| case.to_string());
        println!("{oracle} is broken in {} states. The shortest way, in cluster {number}:", broken.count);
        println!("  {}", case.unwrap_or_default());
        for line in &broken.trace {
            println!("  {line}");
        }
        println!("  {}", broken.wrong);
    }
    let Outcome { states, transitions, depth, is_cut, .. } = total.outcome;
    println!(
        "{} clusters, {states} states, {transitions} transitions, at most {depth} steps deep, {} states in the largest; {} s \
         on {jobs} threads",
        total.clusters,
        total.largest,
        start.elapsed().as_secs(),
    );
    if is_cut {
        bail!("the limit of states cut a cluster short");
    }
    if let Some(oracle) = &arguments.until {
        let found = total.broken.contains_key(oracle.as_str());
        println!("{}", if found { format!("caught by {oracle}") } else { format!("{oracle} found nothing") });
        return Ok(if found { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if total.broken.is_empty() {
        println!("every rule was kept");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

fn work(
    arguments: &Arguments,
    cases: &[(usize, Case)],
    next: &AtomicUsize,
    total: &Mutex<Total>,
    start: Instant,
) {
    while let Some((number, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
        let outcome = explore(case.clone(), arguments.states);
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(outcome) => {
                if arguments.verbose {
                    println!(
                        "{number} at {} s: {case}: {} states",
                        start.elapsed().as_secs(),
                        outcome.states
                    );
                }
                total.add(*number, outcome);
            }
            Err(error) => total.error = Some(error.context(format!("cluster {number}"))),
        }
        let caught =
            arguments.until.as_ref().is_some_and(|oracle| total.broken.contains_key(oracle.as_str()));
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
        for (oracle, mut broken) in found.broken {
            match self.broken.get_mut(oracle) {
                None => {
                    self.broken.insert(oracle, (number, broken));
                }
                Some((of, known)) => {
                    let count = known.count + broken.count;
                    if broken.trace.len() < known.trace.len() {
                        std::mem::swap(known, &mut broken);
                        *of = number;
                    }
                    known.count = count;
                }
            }
        }
    }
}
