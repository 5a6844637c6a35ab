//! `cargo xtask faults`: plays the campaign and prints the violations.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use faults::{
    Case, CaseId, Log, RunEventKind, Violation, case_ids, check, instance, interleaved, run, shrink,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often the progress is printed.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(20);
/// Every n-th random case is played twice; both runs must be equal.
const PLAYED_TWICE: u64 = 50;
/// How many lines of a run are printed before a violation.
const LINES: usize = 60;

/// Runs the controller under simulated time, injects faults, and checks the log of the server against the
/// promises.
///
/// It plays every scenario without faults, then with crashes at its writes, then with random faults, one seed
/// per run. A case that breaks a promise is shrunk to the shortest one and printed. Keep it as a file to play
/// it again with --replay.
#[derive(Debug, Parser)]
#[command(name = "faults")]
struct Arguments {
    /// The number of runs. If a crash at three moments of every write takes more runs, each write gets one
    /// crash; these runs are played in any case.
    #[arg(long, default_value_t = 2000)]
    runs: usize,
    /// The seed of the first random run. Each run has the next seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Crash once at every second write, instead of at three moments of each write and at all pairs of writes
    /// in short scenarios.
    #[arg(long)]
    slice: bool,
    /// Play only the cases whose ID starts with this text: `NoFaults`, `Crash`, `Deletion(1, 40`, `Random`.
    #[arg(long, value_name = "ID")]
    only: Option<String>,
    /// Play only part K of N.
    #[arg(long, num_args = 2, value_names = ["K", "N"])]
    part: Option<Vec<usize>>,
    /// Play only the random run of the first seed, and print its log.
    #[arg(long, conflicts_with = "replay")]
    alone: bool,
    /// Play only this case, and print its log.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Exit with success when that oracle, or rule for decisions, finds a violation, and with failure if it
    /// finds none.
    #[arg(long, value_name = "ORACLE")]
    until: Option<String>,
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
        return replay(&CaseId::Random(arguments.seed).case());
    }
    campaign(&arguments)
}

/// Plays one case, and prints its log.
fn replay(case: &Case) -> Result<ExitCode> {
    println!("{}", serde_json::to_string_pretty(case)?);
    let log = run(case)?;
    for line in log.lines() {
        println!("{line}");
    }
    let violations = check(case, &log);
    for violation in &violations {
        println!("{violation}");
    }
    Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The state that all threads share.
struct Shared<'a> {
    ids: &'a [CaseId],
    next: AtomicUsize,
    over: AtomicBool,
    summary: Mutex<Summary>,
    found: Mutex<Vec<(CaseId, Vec<Violation>)>>,
    until: Option<&'a str>,
}

fn campaign(arguments: &Arguments) -> Result<ExitCode> {
    let start = Instant::now();
    let mut ids = case_ids(arguments.slice, arguments.runs, arguments.seed)?;
    if let Some(only) = &arguments.only {
        ids.retain(|id| format!("{id:?}").starts_with(only.as_str()));
    }
    if let Some(&[part, parts]) = arguments.part.as_deref() {
        ids = ids.into_iter().skip(part.saturating_sub(1)).step_by(parts.max(1)).collect();
    }
    ensure!(!ids.is_empty(), "these arguments select no run");
    if arguments.until.is_some() {
        ids = interleaved(ids);
    }
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let shared = Shared {
        ids: &ids,
        next: AtomicUsize::new(0),
        over: AtomicBool::new(false),
        summary: Mutex::default(),
        found: Mutex::default(),
        until: arguments.until.as_deref(),
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(|| shared.work())).collect();
        let mut printed = Instant::now();
        while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::park_timeout(Duration::from_millis(200));
            if printed.elapsed() >= PROGRESS_INTERVAL {
                printed = Instant::now();
                let played = shared.next.load(Ordering::Relaxed).min(ids.len());
                eprintln!("{played} of {} runs in {} s", ids.len(), start.elapsed().as_secs());
            }
        }
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(done) => done,
            Err(_) => anyhow::bail!("an oracle panicked; see above"),
        })
    })?;
    let mut found = shared.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(id, _)| ids.iter().position(|other| other == id));
    if let Some(oracle) = &arguments.until {
        println!("{oracle} found no violation in {} runs", ids.len());
        return Ok(ExitCode::FAILURE);
    }
    let summary = shared.summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{summary}");
    let Some((id, violations)) = found.into_iter().next() else {
        println!("{} runs, {} s on {jobs} threads, no violations", ids.len(), start.elapsed().as_secs());
        return Ok(ExitCode::SUCCESS);
    };
    explain(id, &violations)?;
    Ok(ExitCode::FAILURE)
}

impl Shared<'_> {
    fn work(&self) -> Result<()> {
        while !self.over.load(Ordering::Relaxed) {
            let Some(id) = self.ids.get(self.next.fetch_add(1, Ordering::Relaxed)) else { break };
            let case = id.case();
            let log = run(&case)?;
            let mut violations = check(&case, &log);
            if let CaseId::Random(seed) = id
                && seed.is_multiple_of(PLAYED_TWICE)
            {
                violations.extend(differs(&case, &log)?);
            }
            self.summary.lock().unwrap_or_else(PoisonError::into_inner).add(*id, &log);
            if let Some(oracle) = self.until {
                if let Some(caught) = violations.iter().find(|violation| violation.is_of(oracle)) {
                    println!("caught: {id:?}: {caught}");
                    // Other runs may be in an endless loop of decisions.
                    std::process::exit(0);
                }
                continue;
            }
            if !violations.is_empty() {
                self.over.store(true, Ordering::Relaxed);
                self.found.lock().unwrap_or_else(PoisonError::into_inner).push((*id, violations));
            }
        }
        Ok(())
    }
}

/// Plays a case again, and compares.
fn differs(case: &Case, log: &Log) -> Result<Option<Violation>> {
    let (one, other) = (log.lines(), run(case)?.lines());
    let place = one.iter().zip(&other).position(|(one, other)| one != other);
    let place = place.or_else(|| (one.len() != other.len()).then_some(one.len().min(other.len())));
    Ok(place.map(|place| Violation {
        rule: "repeatable",
        oracle: "repeatable",
        at: log.requests.first().map(|record| record.at).unwrap_or_default(),
        message: format!(
            "line {place} is {:?} in one run and {:?} in the other",
            one.get(place),
            other.get(place)
        ),
    }))
}

/// Prints the violations, and the shortest case of the first one.
fn explain(id: CaseId, violations: &[Violation]) -> Result<()> {
    println!("{id:?} has {} violations:", violations.len());
    for violation in violations.iter().take(10) {
        println!("  {violation}");
    }
    let Some(first) = violations.first() else { return Ok(()) };
    let fails = |case: &Case| {
        run(case).is_ok_and(|log| check(case, &log).iter().any(|violation| violation.oracle == first.oracle))
    };
    let shortest = shrink(&id.case(), fails);
    let log = run(&shortest)?;
    let lines = log.lines();
    let violation = check(&shortest, &log).into_iter().find(|violation| violation.oracle == first.oracle);
    let Some(violation) = violation else {
        println!("The shrunk case has no violation when it is played again: the run is not repeatable.");
        return Ok(());
    };
    println!("The shortest case, to be kept in a file for --replay:");
    println!("{}", serde_json::to_string_pretty(&shortest)?);
    let at = violation.at.to_string();
    let end = lines.iter().position(|line| line.split(' ').next() > Some(&at)).unwrap_or(lines.len());
    println!("The log until the violation:");
    let shown = lines[..end]
        .iter()
        .filter(|line| (!line.contains(" sandbox-") || is_collected(line)) && !line.contains(" user get "));
    let shown: Vec<&String> = shown.collect();
    for line in &shown[shown.len().saturating_sub(LINES)..] {
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

/// The numbers of a campaign: sums over all runs.
#[derive(Debug, Default)]
struct Summary {
    runs: BTreeMap<&'static str, usize>,
    requests: usize,
    decisions: usize,
    deletions: usize,
    creates: usize,
    seconds: i64,
    faults: BTreeMap<String, usize>,
}

impl Summary {
    fn add(&mut self, id: CaseId, log: &Log) {
        let kind = match id {
            CaseId::NoFaults(_) => "without faults",
            CaseId::Crash(..) => "one crash",
            CaseId::TwoCrashes(..) => "two crashes",
            CaseId::Combination(..) => "faults together",
            CaseId::Deletion(..) => "deletions",
            CaseId::Random(_) => "random faults",
        };
        *self.runs.entry(kind).or_default() += 1;
        let own = || log.requests.iter().filter(|record| instance(&record.user_agent).is_some());
        let of_pods = |verb: &str| {
            own().filter(|record| record.verb == verb && record.plural == "pods" && record.code < 300).count()
        };
        self.requests += own().count();
        self.decisions += log.decisions.len();
        self.deletions += of_pods("delete");
        self.creates += of_pods("create");
        if let (Some(first), Some(last)) = (log.requests.first(), log.events.last()) {
            self.seconds += last.at.duration_since(first.at).as_secs();
        }
        for event in &log.events {
            if let RunEventKind::FaultInjected(fault) = &event.kind {
                *self.faults.entry(kind_of(fault)).or_default() += 1;
            }
        }
    }
}

/// The kind of a fault: of a watch its effect, of a response its code, of an action its kind.
fn kind_of(fault: &str) -> String {
    let word = |text: &str| text.split([' ', '(', ',', '{']).next().unwrap_or_default().to_owned();
    let detail =
        ["effect: ", "code: ", "action: "].into_iter().find_map(|key| Some(word(fault.split_once(key)?.1)));
    detail.map_or_else(|| word(fault), |detail| format!("{} {detail}", word(fault)))
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs: Vec<String> = self.runs.iter().map(|(kind, runs)| format!("{runs} {kind}")).collect();
        writeln!(f, "{} runs: {}", self.runs.values().sum::<usize>(), runs.join(", "))?;
        writeln!(
            f,
            "{} simulated hours, {} decisions, {} requests of controllers, {} pods created, {} deleted",
            self.seconds / 3600,
            self.decisions,
            self.requests,
            self.creates,
            self.deletions
        )?;
        let faults: Vec<String> = self.faults.iter().map(|(kind, times)| format!("{kind} {times}")).collect();
        write!(f, "injected faults: {}", faults.join(", "))
    }
}
