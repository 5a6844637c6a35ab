//! Mutants: the controller with one deliberate mistake, which the fault campaign must catch. They show that
//! the oracles work.
//!
//! Each mutant is a patch in `e2e/faults/mutants`, named after the promise that it breaks; a switch enables
//! its mistake. Its first line names the oracles that must catch it: those of the campaign, or those of the
//! exploration of small clusters. Other mutants are caught by tests: the line names a crate, a part of their
//! names, and a part of what they print. All patches are applied to a copy of the checkout, which is built
//! once; the product itself contains none of them.

pub(crate) mod generated;
mod mutator;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::process::{OPTIMIZED, capture, release_arguments, run, top, tracked};

/// The patch that all others need; no mutant by itself.
const SWITCH: &str = "switch";
/// The most runs until a mutant must be caught.
const RUNS: &str = "6000";

/// The programs with the mutants in them: the campaign, and the exploration.
const PROGRAMS: [&str; 2] = ["faults-mutants", "explore-mutants"];

/// The text before the names of the oracles that catch a mutant: of the campaign, and of the exploration.
const CAUGHT_BY: &str = "Caught by ";
const FOUND_BY: &str = "Found by exploring, by ";
/// The text before the crate and the tests that catch a mutant, and the text before a part of what they
/// print.
const TESTED_BY: &str = "Found by tests of ";
const TOLD_BY: &str = ", by: ";

/// `cargo xtask mutants`: builds the mutants and runs the campaign on each given one, or on a part of them,
/// until each of its oracles has caught it.
pub(crate) fn hunt(wanted_part: [&str; 2], wanted: &[&str]) -> Result<()> {
    let (part, names) = (part(wanted_part)?, names()?);
    if let Some(unknown) = wanted.iter().find(|name| !names.contains(**name)) {
        bail!("there is no mutant {unknown}; there are {}", names.into_iter().collect::<Vec<_>>().join(", "));
    }
    build(&names)?;
    let mut missed = Vec::new();
    let mut caught = 0_u32;
    let of_part = names.iter().skip(part.0).step_by(part.1);
    for name in of_part.filter(|name| wanted.is_empty() || wanted.contains(&name.as_str())) {
        let mut all = true;
        let (hunter, oracles) = hunters(name)?;
        for oracle in oracles {
            let start = Instant::now();
            let said = hunter.until(name, &oracle)?;
            let took = start.elapsed().as_secs_f32();
            all &= said.is_some();
            let said: String = said.as_deref().unwrap_or("NOT CAUGHT").chars().take(200).collect();
            println!("{name}, by {oracle}: {said} ({took:.1} s)");
        }
        if all {
            caught += 1;
        } else {
            missed.push(name.clone());
        }
    }
    if !missed.is_empty() {
        bail!("nothing catches {}", missed.join(", "));
    }
    println!("{caught} mutants, all caught");
    Ok(())
}

/// The index of a part, counted from 0, and how many parts there are.
fn part([part, parts]: [&str; 2]) -> Result<(usize, usize)> {
    match (part.parse(), parts.parse()) {
        (Ok(part), Ok(parts)) if (1..=parts).contains(&part) => Ok((part - 1, parts)),
        _ => bail!("{part} of {parts} is no part: give for example 1 3"),
    }
}

fn folder() -> PathBuf {
    top().join("e2e/faults/mutants")
}

/// What must catch a mutant.
enum Hunter {
    /// A program with the mutants in it, and its arguments.
    Program(&'static str, &'static [&'static str]),
    /// The tests of a crate that have this in their names.
    Tests(String, String),
}

impl Hunter {
    /// What it says when this oracle has caught the mutant.
    fn until(&self, mutant: &str, oracle: &str) -> Result<Option<String>> {
        match self {
            Self::Program(program, arguments) => {
                let mut hunter = Command::new(target().join("release").join(program));
                hunter.current_dir(top());
                hunter.env("MUTANT", mutant).args(*arguments).args(["--until", oracle]);
                let said = capture(&mut hunter).ok();
                Ok(said.and_then(|said| said.lines().last().map(str::to_owned)))
            }
            Self::Tests(package, tests) => {
                let mut cargo = cargo();
                cargo.env("MUTANT", mutant).args(["test", "--quiet", "-p", package]);
                cargo.args(["--test", "it", "--", tests]);
                let output = cargo.output().context("cannot run cargo")?;
                let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
                Ok(text.lines().find(|line| line.contains(oracle)).map(str::to_owned))
            }
        }
    }
}

/// The copy of the checkout with all mutants in it.
fn tree() -> PathBuf {
    top().join("target/mutants/tree")
}

/// What is built there. Cargo would take what it builds of the copy for that of the checkout, if both were
/// built to one place.
fn target() -> PathBuf {
    top().join("target/mutants/target")
}

/// Cargo, for the copy.
fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(tree()).env("CARGO_TARGET_DIR", target());
    cargo
}

/// What must catch the mutant, and the oracles.
fn hunters(mutant: &str) -> Result<(Hunter, Vec<String>)> {
    let file = folder().join(format!("{mutant}.patch"));
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let line = text.lines().next().and_then(|line| line.strip_suffix('.')).unwrap_or_default();
    let split = |named: &str| named.split(", ").map(str::to_owned).collect();
    if let Some((tests, message)) = line.strip_prefix(TESTED_BY).and_then(|line| line.split_once(TOLD_BY)) {
        let (package, tests) = tests.split_once(' ').unwrap_or((tests, ""));
        return Ok((Hunter::Tests(package.to_owned(), tests.to_owned()), vec![message.to_owned()]));
    }
    if let Some(named) = line.strip_prefix(FOUND_BY) {
        return Ok((Hunter::Program(PROGRAMS[1], &["--bounded", "--part", "1", "1"]), split(named)));
    }
    let named = line.strip_prefix(CAUGHT_BY);
    let named = named.with_context(|| format!("the first line of {mutant} does not say who catches it"))?;
    Ok((Hunter::Program(PROGRAMS[0], &["--slice", "--runs", RUNS]), split(named)))
}

/// The names of all mutants.
fn names() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder()).context("cannot list the mutants")? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if path.extension().is_some_and(|extension| extension == "patch") && name != SWITCH {
            names.insert(name.to_owned());
        }
    }
    Ok(names)
}

/// Builds a copy of the checkout with all mutants in it.
fn build(names: &BTreeSet<String>) -> Result<()> {
    let (fresh, tree) = (top().join("target/mutants/fresh"), tree());
    if fresh.exists() {
        fs::remove_dir_all(&fresh).context("cannot remove the last copy")?;
    }
    let tracked = patch(names, &fresh)?;
    for name in &tracked {
        write(&tree.join(name), &fs::read(fresh.join(name))?)?;
    }
    run(cargo().args(release_arguments(&OPTIMIZED, &PROGRAMS)))
}

/// Copies the checkout to `fresh` and applies the mutants there. Returns the files of the checkout.
fn patch(names: &BTreeSet<String>, fresh: &Path) -> Result<BTreeSet<String>> {
    let tracked = tracked()?;
    for name in &tracked {
        write(&fresh.join(name), &fs::read(top().join(name))?)?;
    }
    for name in std::iter::once(SWITCH).chain(names.iter().map(String::as_str)) {
        let mut apply = Command::new("git");
        // As if there were no repository around it: otherwise paths would be relative to that one.
        apply.current_dir(fresh).env("GIT_CEILING_DIRECTORIES", fresh.parent().unwrap_or(fresh));
        apply.arg("apply").arg(folder().join(format!("{name}.patch")));
        capture(&mut apply).with_context(|| format!("the mutant {name} does not fit the code any more"))?;
    }
    Ok(tracked)
}

/// Writes a file and its folder. An unchanged file keeps its time, so that it is not built again.
fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(file).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_fits_the_code() {
        let copy = tempfile::tempdir().unwrap();
        patch(&names().unwrap(), copy.path()).unwrap();
    }
}
