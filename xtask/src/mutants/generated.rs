//! Generated mutants: small mistakes in the crates without I/O, all compiled at once, each behind a switch.
//!
//! Each test runs alone once and records the mistakes that it reaches. Then each mistake is switched on for
//! the tests that reach it, the fastest first, until one fails. `survivors.txt` lists the mistakes that no
//! test notices, with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::mutator::Mutated;
use super::{part, write};
use crate::process::{run_within, top, tracked};

/// The crates that are mutated, by their folder in `crates`. Any of their tests may notice a mistake.
const CRATES: [&str; 5] = ["placement", "planner", "preview", "sorter", "wire"];

/// The function that asks whether a mistake is switched on, and records that it was reached.
const SWITCH: &str = r#"
pub(crate) fn mutant_is(number: usize) -> bool {
    use std::sync::{LazyLock, Mutex};
    static CHOSEN: LazyLock<Option<usize>> = LazyLock::new(|| std::env::var("MUTANT").ok()?.parse().ok());
    static RECORD: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("MUTANTS_REACHED").ok());
    static SEEN: Mutex<std::collections::BTreeSet<usize>> = Mutex::new(std::collections::BTreeSet::new());
    if let Some(file) = &*RECORD && SEEN.lock().unwrap().insert(number) {
        use std::io::Write;
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
        file.write_all(format!("{number}\n").as_bytes()).unwrap();
    }
    *CHOSEN == Some(number)
}
"#;

/// How often what does not compile is left out, before it is an error.
const ROUNDS: usize = 40;

/// A source file with mistakes.
struct Source {
    name: String,
    text: String,
    mutated: Mutated,
    /// The number of the switch of each mistake; none if the mistake does not compile.
    numbers: Vec<Option<usize>>,
    /// Where each mistake is in the text that was written last.
    places: Vec<(usize, Range<usize>)>,
}

/// A test of a program.
struct Test {
    program: PathBuf,
    folder: PathBuf,
    name: String,
}

/// A test that ran alone without a mistake.
struct Reach<'t> {
    test: &'t Test,
    time: Duration,
    /// The switches that it asked for.
    numbers: BTreeSet<usize>,
}

/// `cargo xtask mutants --generated`: runs a part of the mutants of these source files, or of all. Fails if
/// the survivors are not those of the list.
pub(crate) fn hunt(wanted_part: [&str; 2], files: &[&str]) -> Result<()> {
    let part = part(wanted_part)?;
    let mut sources = sources()?;
    build(&mut sources)?;
    let keys = keys(&sources);
    let tests = tests()?;
    println!("{} mutants, {} tests", keys.len(), tests.len());
    let reached = reach(&tests)?;
    let is_named = |key: &str| files.is_empty() || files.iter().any(|file| key.starts_with(file));
    let chosen: Vec<(usize, &str)> = keys
        .iter()
        .map(|(number, key)| (*number, key.as_str()))
        .filter(|(number, key)| number % part.1 == part.0 && is_named(key))
        .collect();
    let survivors = parallel(&chosen, |&(number, key)| {
        let tests: Vec<&Reach<'_>> = reached.iter().filter(|it| it.numbers.contains(&number)).collect();
        let start = Instant::now();
        let caught = is_caught(number, &tests)?;
        if !caught {
            println!("survives {} tests ({} s): {}", tests.len(), start.elapsed().as_secs(), key);
        }
        Ok((!caught).then_some(key))
    })?;
    let survivors: BTreeSet<&str> = survivors.into_iter().flatten().collect();
    let listed = fs::read_to_string(top().join("xtask/src/mutants/survivors.txt"))?;
    let listed: BTreeSet<&str> =
        listed.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let chosen: BTreeSet<&str> = chosen.iter().map(|(_, key)| *key).collect();
    for line in survivors.difference(&listed) {
        println!("not in the list: {line}");
    }
    let wrong: Vec<&&str> = listed.difference(&survivors).filter(|line| chosen.contains(*line)).collect();
    for line in &wrong {
        println!("in the list, but caught: {line}");
    }
    if !survivors.is_subset(&listed) || !wrong.is_empty() {
        bail!("the survivors are not those of xtask/src/mutants/survivors.txt");
    }
    println!("{} small mistakes, {} noticed", chosen.len(), chosen.len() - survivors.len());
    Ok(())
}

/// The copy of the checkout.
fn tree() -> PathBuf {
    top().join("target/mutants/generated")
}

fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(tree()).env("CARGO_TARGET_DIR", top().join("target/mutants/generated-target"));
    cargo.env("RUSTFLAGS", "--cap-lints=allow").env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    cargo.env("CARGO_INCREMENTAL", "1");
    cargo
}

fn packages() -> impl Iterator<Item = String> {
    CRATES.iter().map(|name| format!("--package=ordereddeployment-{name}"))
}

/// The files of the crates with their mistakes, and a copy of the checkout.
fn sources() -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for name in tracked()? {
        let of = name.strip_prefix("crates/").and_then(|name| name.split_once("/src/"));
        let is_source = of.is_some_and(|(of, file)| {
            CRATES.contains(&of)
                && Path::new(file).extension().is_some_and(|e| e == "rs")
                && !file.contains("tests")
        });
        if is_source {
            let text = fs::read_to_string(top().join(&name))?;
            let mutated = Mutated::of(&text).with_context(|| format!("cannot parse {name}"))?;
            let numbers = vec![None; mutated.mistakes.len()];
            sources.push(Source { name, text, mutated, numbers, places: Vec::new() });
        } else {
            write(&tree().join(&name), &fs::read(top().join(&name))?)?;
        }
    }
    let mut next = 0..;
    sources.iter_mut().flat_map(|source| &mut source.numbers).for_each(|number| *number = next.next());
    Ok(sources)
}

/// Writes the sources, and leaves out what does not compile.
fn build(sources: &mut [Source]) -> Result<()> {
    for _ in 0..ROUNDS {
        for source in &mut *sources {
            let (mut text, places) = source.mutated.apply(&source.text, |index| source.numbers[index]);
            source.places = places;
            if source.name.ends_with("/src/lib.rs") {
                text.push_str(SWITCH);
            }
            write(&tree().join(&source.name), text.as_bytes())?;
        }
        let output = cargo()
            .args(["check", "--quiet", "--message-format=json", "--keep-going"])
            .args(packages())
            .stderr(Stdio::null())
            .output()
            .context("cannot run cargo")?;
        if output.status.success() {
            return Ok(());
        }
        let mut left_out = 0;
        let messages = String::from_utf8_lossy(&output.stdout).into_owned();
        for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if message["message"]["level"] == "error" {
                left_out += leave_out(sources, &message["message"]);
            }
        }
        if left_out == 0 {
            bail!("the mutants do not compile: run `cargo check` in {}", tree().display());
        }
    }
    bail!("the mutants do not compile after {ROUNDS} rounds")
}

/// Leaves out the mistakes that an error speaks of: the innermost around a place of it.
fn leave_out(sources: &mut [Source], message: &Value) -> usize {
    let mut count = 0;
    for span in message["spans"].as_array().into_iter().flatten() {
        let (Some(start), Some(end)) = (span["byte_start"].as_u64(), span["byte_end"].as_u64()) else {
            continue;
        };
        let Some(source) = sources.iter_mut().find(|source| span["file_name"] == source.name.as_str()) else {
            continue;
        };
        let (start, end) = (usize::try_from(start).unwrap_or(0), usize::try_from(end).unwrap_or(0));
        let around = source.places.iter().filter(|(_, place)| place.start < end && start < place.end);
        let innermost = around.min_by_key(|(_, place)| place.len()).map(|(index, _)| *index);
        // A variable without a value: the error is at its use, the mistake at an assignment.
        let is_assignment = |index: &usize| {
            let mistake = &source.mutated.mistakes[*index];
            message["code"]["code"] == "E0381"
                && mistake.operator == "left out"
                && mistake.text.contains(" = ")
        };
        let assignments: Vec<usize> = (0..source.numbers.len()).filter(is_assignment).collect();
        for index in assignments.into_iter().chain(innermost) {
            count += usize::from(source.numbers[index].take().is_some());
        }
    }
    count
}

/// What each switch that compiles changes, by its number, in words that stay when lines move.
fn keys(sources: &[Source]) -> BTreeMap<usize, String> {
    let mut keys = BTreeMap::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for source in sources {
        for (mistake, number) in source.mutated.mistakes.iter().zip(&source.numbers) {
            let key = format!("{} {}: {}: {}", source.name, mistake.function, mistake.operator, mistake.text);
            let count = counts.entry(key.clone()).or_default();
            *count += 1;
            let key = if *count == 1 { key } else { format!("{key} ({count})") };
            if let Some(number) = number {
                keys.insert(*number, key);
            }
        }
    }
    keys
}

/// The tests of the crates.
fn tests() -> Result<Vec<Test>> {
    let output = cargo()
        .args(["test", "--no-run", "--quiet", "--message-format=json", "--lib", "--tests"])
        .args(packages())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the tests with the mutants in them do not compile");
    }
    let mut tests = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line)?;
        let (Some(program), Some(manifest)) =
            (message["executable"].as_str(), message["manifest_path"].as_str())
        else {
            continue;
        };
        let folder = Path::new(manifest).parent().map(Path::to_owned).unwrap_or_default();
        let list = Command::new(program).args(["--list", "--format=terse"]).output()?;
        for name in
            String::from_utf8_lossy(&list.stdout).lines().filter_map(|line| line.strip_suffix(": test"))
        {
            tests.push(Test { program: program.into(), folder: folder.clone(), name: name.to_owned() });
        }
    }
    Ok(tests)
}

/// A program that runs tests: the same cases each time, without what slows a failure down.
fn command(test: &Test) -> Command {
    let mut command = Command::new(&test.program);
    command.current_dir(&test.folder).stderr(Stdio::null());
    command
        .env("PROPTEST_RNG_SEED", "1")
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
    command.args(["--quiet", "--exact", "--test-threads=1"]);
    command
}

/// Runs each test alone. The fastest is the first.
fn reach(tests: &[Test]) -> Result<Vec<Reach<'_>>> {
    let mut all = parallel(tests, |test| {
        let record = top().join("target/mutants").join(test.name.replace("::", "."));
        drop(fs::remove_file(&record));
        let start = Instant::now();
        let mut command = command(test);
        command.arg(&test.name).env("MUTANTS_REACHED", &record);
        let said = run_within(&mut command, Duration::from_secs(300))?;
        let time = start.elapsed();
        if !said.is_some_and(|(status, _)| status.success()) {
            bail!("{} fails without a mutant", test.name);
        }
        let reached = fs::read_to_string(&record).unwrap_or_default();
        drop(fs::remove_file(&record));
        Ok(Reach { test, time, numbers: reached.lines().filter_map(|line| line.parse().ok()).collect() })
    })?;
    all.sort_by_key(|reach| reach.time);
    Ok(all)
}

/// Whether a test fails with this mistake. Many fast tests run in one process.
fn is_caught(number: usize, tests: &[&Reach<'_>]) -> Result<bool> {
    let mut left = tests;
    let mut budget = Duration::from_millis(500);
    while let Some(first) = left.first() {
        let mut time = Duration::ZERO;
        let same = |reach: &&&Reach<'_>| {
            time += reach.time;
            reach.test.program == first.test.program && time <= budget
        };
        let count = left.iter().take_while(same).count().max(1);
        let mut command = command(first.test);
        command.args(left[..count].iter().map(|reach| &reach.test.name)).env("MUTANT", number.to_string());
        let time: Duration = left[..count].iter().map(|reach| reach.time).sum();
        match run_within(&mut command, time * 5 + Duration::from_secs(20))? {
            Some((status, _)) if status.success() => {}
            // Not in time: it goes on for ever.
            _ => return Ok(true),
        }
        left = &left[count..];
        budget *= 2;
    }
    Ok(false)
}

/// Works on all items, as many at a time as there are processors.
fn parallel<'t, T: Sync, R: Send>(
    items: &'t [T],
    work: impl Fn(&'t T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let queue = Mutex::new(items.iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worker = || std::iter::from_fn(next).map(&work).collect::<Result<Vec<R>>>();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().map_err(|_| anyhow!("a worker panicked"))??);
        }
        Ok(all)
    })
}
