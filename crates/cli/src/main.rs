//! `kubectl ordered`: see, order and resume OrderedDeployments.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let done = kubectl_ordered::run(kubectl_ordered::Cli::parse());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A pipe whose reader has gone is no mistake of the user's.
            if kubectl_ordered::is_broken_pipe(&error) {
                return ExitCode::SUCCESS;
            }
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
