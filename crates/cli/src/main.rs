//! `kubectl ordered`: show, order, pause, resume and roll back OrderedDeployments.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_ordered::main(std::env::args_os()).into()
}
