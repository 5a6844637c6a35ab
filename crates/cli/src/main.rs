//! `kubectl ordered`: see, order, hold, resume and undo OrderedDeployments.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_ordered::main(std::env::args_os()).into()
}
