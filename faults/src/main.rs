//! `cargo xtask faults`: plays the campaign and says what it found.

mod tally;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use faults::campaign::{Play, mixed, plays};
use faults::judge::{Violation, judge};
use faults::shrink::shrink;
use faults::{Case, run};
use tally::Tally;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often it says how far it is.
const WORD: Duration = Duration::from_secs(20);
/// One in so many random cases is played twice, and must run equally.
const TWICE: u64 = 50;
/// How many lines of a run are shown before what was not kept.
const LINES: usize = 60;

/// Plays what can go wrong against the controller, under simulated time, and judges what the server saw.
///
/// First every scenario as it is, then crashes at its writes, then random faults, one seed a run. What breaks a promise is
/// shrunk to its shortest case and printed; it can be kept as a file and played again with --replay.
#[derive(Debug, Parser)]
#[command(name = "faults")]
struct Arguments {
    /// How many runs, in all. Where not every write can be crashed at three moments in so many, each is crashed once; those
    /// are played in any case.
    #[arg(long, default_value_t = 2000)]
    runs: usize,
    /// The seed of the first random run; each one after has the next.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Crash each write once and no pairs, instead of each write at three moments and all pairs of short scenarios.
    #[arg(long)]
    slice: bool,
    /// Only those whose name begins like this: `Calm`, `Crash`, `Deletion(1, 40`, `Random`.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// How many runs at the same time; by default as many as there are processors.
    #[arg(long)]
    jobs: Option<usize>,
    /// Play the random run of the first seed alone, and print all that happened.
    #[arg(long, conflicts_with = "replay")]
    alone: bool,
    /// Play this case alone, and print all that happened.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// End with success as soon as that oracle finds a promise broken, and with failure if it never does.
    #[arg(long, value_name = "ORACLE")]
    until: Option<String>,
    /// Go on where a promise is broken, and print a line for each.
    #[arg(long, conflicts_with = "until")]
    all: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(file) = &arguments.replay {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let case =
            serde_json::from_str(&text).with_context(|| format!("{} holds no case", file.display()))?;
        return replay(&case);
    }
    if arguments.alone {
        return replay(&Play::Random(arguments.seed).case());
    }
    campaign(&arguments)
}

/// Plays one case, and prints all that happened.
fn replay(case: &Case) -> Result<ExitCode> {
    println!("{}", serde_json::to_string_pretty(case)?);
    let log = run(case)?;
    for line in log.lines() {
        println!("{line}");
    }
    let violations = judge(case, &log);
    for violation in &violations {
        println!("{violation}");
    }
    Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What several threads share.
struct Shared<'a> {
    plays: &'a [Play],
    next: AtomicUsize,
    over: AtomicBool,
    tally: Mutex<Tally>,
    found: Mutex<Vec<(Play, Vec<Violation>)>>,
    until: Option<&'a str>,
    all: bool,
}

fn campaign(arguments: &Arguments) -> Result<ExitCode> {
    let start = Instant::now();
    let mut plays = plays(arguments.slice, arguments.runs, arguments.seed)?;
    if let Some(only) = &arguments.only {
        plays.retain(|play| format!("{play:?}").starts_with(only.as_str()));
    }
    if arguments.until.is_some() {
        plays = mixed(plays);
    }
    let jobs =
        arguments.jobs.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let shared = Shared {
        plays: &plays,
        next: AtomicUsize::new(0),
        over: AtomicBool::new(false),
        tally: Mutex::default(),
        found: Mutex::default(),
        until: arguments.until.as_deref(),
        all: arguments.all,
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(|| shared.work())).collect();
        let mut said = Instant::now();
        while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::park_timeout(Duration::from_millis(200));
            if said.elapsed() >= WORD {
                said = Instant::now();
                let played = shared.next.load(Ordering::Relaxed).min(plays.len());
                eprintln!("{played} of {} runs in {} s", plays.len(), start.elapsed().as_secs());
            }
        }
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(done) => done,
            Err(_) => anyhow::bail!("a judge panicked; see above"),
        })
    })?;
    let mut found = shared.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(play, _)| plays.iter().position(|other| other == play));
    if let Some(oracle) = &arguments.until {
        println!("{oracle} found nothing in all of {} runs", plays.len());
        return Ok(ExitCode::FAILURE);
    }
    let tally = shared.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{tally}");
    println!("{} s on {jobs} threads", start.elapsed().as_secs());
    let Some((play, violations)) = found.into_iter().next() else {
        println!("every promise was kept");
        return Ok(ExitCode::SUCCESS);
    };
    explain(play, &violations)?;
    Ok(ExitCode::FAILURE)
}

impl Shared<'_> {
    fn work(&self) -> Result<()> {
        while !self.over.load(Ordering::Relaxed) {
            let Some(play) = self.plays.get(self.next.fetch_add(1, Ordering::Relaxed)) else { break };
            let case = play.case();
            let log = run(&case)?;
            let mut violations = judge(&case, &log);
            if let Play::Random(seed) = play
                && seed.is_multiple_of(TWICE)
            {
                violations.extend(differs(&case, &log)?);
            }
            self.tally.lock().unwrap_or_else(PoisonError::into_inner).add(*play, &log);
            if let Some(oracle) = self.until {
                if let Some(caught) = violations.iter().find(|violation| violation.oracle == oracle) {
                    println!("caught: {play:?}: {caught}");
                    // At once: other runs may still be deciding without end.
                    std::process::exit(0);
                }
                continue;
            }
            if self.all {
                let mut told = String::new();
                for violation in &violations {
                    let _ = writeln!(told, "{play:?} {}: {violation}", case.name);
                }
                print!("{told}");
            }
            if !violations.is_empty() {
                self.over.store(!self.all, Ordering::Relaxed);
                self.found.lock().unwrap_or_else(PoisonError::into_inner).push((*play, violations));
            }
        }
        Ok(())
    }
}

/// Plays a case again, and compares.
fn differs(case: &Case, log: &faults::Log) -> Result<Option<Violation>> {
    let (one, other) = (log.lines(), run(case)?.lines());
    let place = one.iter().zip(&other).position(|(one, other)| one != other);
    let place = place.or_else(|| (one.len() != other.len()).then_some(one.len().min(other.len())));
    Ok(place.map(|place| Violation {
        rule: "repeatable",
        oracle: "it is played twice",
        at: log.requests.first().map(|record| record.at).unwrap_or_default(),
        words: format!("line {place} is {:?} and then {:?}", one.get(place), other.get(place)),
    }))
}

/// Prints what was not kept, and the shortest case that shows it.
fn explain(play: Play, violations: &[Violation]) -> Result<()> {
    println!("{play:?} broke {} promises:", violations.len());
    for violation in violations.iter().take(10) {
        println!("  {violation}");
    }
    let Some(first) = violations.first() else { return Ok(()) };
    let shows = |case: &Case| {
        run(case).is_ok_and(|log| judge(case, &log).iter().any(|violation| violation.oracle == first.oracle))
    };
    let shortest = shrink(&play.case(), shows);
    let log = run(&shortest)?;
    let lines = log.lines();
    let violation = judge(&shortest, &log).into_iter().find(|violation| violation.oracle == first.oracle);
    let Some(violation) = violation else {
        println!("It does not show when played again: the run is not repeatable.");
        return Ok(());
    };
    println!("The shortest case that shows it, to keep in a file for --replay:");
    println!("{}", serde_json::to_string_pretty(&shortest)?);
    let at = violation.at.to_string();
    let end = lines.iter().position(|line| line.split(' ').next() > Some(&at)).unwrap_or(lines.len());
    println!("What the server saw until then:");
    let told = lines[..end].iter().filter(|line| {
        (!line.contains(" sandbox-") || is_collected(line)) && !line.contains(" somebody get ")
    });
    let told: Vec<&String> = told.collect();
    for line in &told[told.len().saturating_sub(LINES)..] {
        println!("  {}", brief(line));
    }
    println!("{violation}");
    Ok(())
}

/// Whether it is a write of the garbage collector.
fn is_collected(line: &str) -> bool {
    [" patch ", " delete "].iter().any(|verb| line.contains(&format!(" sandbox-garbage-collector{verb}")))
}

/// A line short enough to be read.
fn brief(line: &str) -> String {
    line.chars().take(400).collect()
}
