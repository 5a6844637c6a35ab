//! Tasks of this repository, run as `cargo xtask <task>`.
//!
//! This crate checks the product and fetches what the checks need. It is never part of the product, and it never
//! writes outside the checkout and the cache directory.

mod apt;
mod cache;
mod kubectl;
mod process;
mod suites;
mod tools;

use std::process::ExitCode;

const HELP: &str = "\
Tasks of this repository.

Usage: cargo xtask <task>

  test       run every check: format, lints, dependencies, tests, the demo
  kubectl    print the path of the kubectl that the tests use, fetching one if need be

What a task fetches goes to ${XDG_CACHE_HOME:-$HOME/.cache}/ordereddeployment; nothing is installed system-wide.

  KUBECTL=FILE    the kubectl to use, 1.24 or newer";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next();
    if let Some(extra) = arguments.next() {
        eprintln!("error: unexpected argument `{extra}`; try `cargo xtask --help`");
        return ExitCode::from(2);
    }
    let done = match task.as_deref() {
        Some("test") => suites::run_all(),
        Some("kubectl") => kubectl::find().map(|path| println!("{}", path.display())),
        None | Some("help" | "-h" | "--help") => {
            println!("{HELP}");
            Ok(())
        }
        Some(other) => {
            eprintln!("error: no task `{other}`; try `cargo xtask --help`");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, no backtrace: whoever reads it wants to know what to do.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
