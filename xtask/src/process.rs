//! Starts other programs, without a shell. An error names the command.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Runs a command with this process's output; fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", describe(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", describe(command));
    }
    Ok(())
}

/// The packages of the programs that run with optimizations. Together they need the features of the command
/// line alone, so that their dependencies, and those of `cargo run --release -- demo`, are compiled once,
/// whichever program is built.
pub(crate) const OPTIMIZED: [&str; 3] = ["kubectl-ordered", "faults", "explore"];

/// Builds programs with optimizations, into `target/release`, with the features that these packages need.
pub(crate) fn build_release(packages: &[&str], programs: &[&str]) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(top()).args(release_arguments(packages, programs));
    run(&mut cargo)
}

/// The arguments of cargo for that.
pub(crate) fn release_arguments<'a>(packages: &[&'a str], programs: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["build", "--release", "--quiet"];
    arguments.extend(packages.iter().flat_map(|package| ["--package", *package]));
    arguments.extend(programs.iter().flat_map(|program| ["--bin", *program]));
    arguments
}

/// A program that [`build_release`] builds, started at the top of the checkout.
pub(crate) fn release_program(name: &str) -> Command {
    let mut program = Command::new(top().join("target/release").join(name));
    program.current_dir(top());
    program
}

/// Runs a command and returns what it printed; its error output is in the error.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&output(command)?.stdout).into_owned())
}

/// Runs a command and returns all that it printed: its output, then its error output.
pub(crate) fn capture_all(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn output(command: &mut Command) -> Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", describe(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}):\n{}", describe(command), output.status, said.trim());
    }
    Ok(output)
}

/// Runs a command, prints the lines of its output and gives each to `see`. Its error output is that of this
/// process.
pub(crate) fn run_seen(command: &mut Command, mut see: impl FnMut(&str)) -> Result<ExitStatus> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot start {}", describe(command)))?;
    let output = child.stdout.take().context("a program without output")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        see(&line);
    }
    Ok(child.wait()?)
}

/// Runs a command for at most that time. Returns whether it succeeded and what it printed; `None` if it was
/// stopped.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<Option<(ExitStatus, String)>> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot start {}", describe(command)))?;
    let mut output = child.stdout.take().context("a program without output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.read_to_end(&mut bytes).map(|_| bytes);
        // After a timeout the receiver is gone.
        drop(sender.send(read));
    });
    let Ok(read) = receiver.recv_timeout(limit) else {
        child.kill().with_context(|| format!("cannot stop {}", describe(command)))?;
        child.wait()?;
        return Ok(None);
    };
    Ok(Some((child.wait()?, String::from_utf8_lossy(&read?).into_owned())))
}

/// Runs a verbose command with its output in a file; the error quotes the end of it.
pub(crate) fn run_logged(command: &mut Command, log: &Path) -> Result<()> {
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let status = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .with_context(|| format!("cannot start {}", describe(command)))?;
    if !status.success() {
        bail!("{} failed ({status}):\n{}", describe(command), tail(log, 30));
    }
    Ok(())
}

/// The last lines of a file, for error messages.
pub(crate) fn tail(file: &Path, lines: usize) -> String {
    let text =
        std::fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// The top of the checkout.
pub(crate) fn top() -> PathBuf {
    // This crate is one level below.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// The tracked files, by their names from the top. Files that are deleted and not committed yet are left out.
pub(crate) fn tracked() -> Result<BTreeSet<String>> {
    let names = capture(Command::new("git").current_dir(top()).args(["ls-files", "-z"]))?;
    Ok(names.split_terminator('\0').filter(|name| top().join(name).is_file()).map(str::to_owned).collect())
}

/// The path of a program in PATH.
pub(crate) fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The command as a user would type it, cut to a readable length.
fn describe(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    if text.chars().count() > 200 {
        text = text.chars().take(200).collect::<String>() + " …";
    }
    format!("`{text}`")
}
