//! The command line of OrderedDeployment, run as `kubectl ordered`.
//!
//! It shows what is and what will be, by the very code of the controller, and it asks for a resume. It never deletes or
//! creates a pod: that is the controller's, the embedded one's of `demo` and `sandbox` included.

mod client;
mod commands;
mod demo;
mod embedded;
mod explain;
mod observe;
mod overview;
mod scale_down;
mod style;
mod table;
#[cfg(test)]
mod testing;
mod tree;

use std::io::ErrorKind;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  kubectl ordered demo                          watch an ordered rollout; needs no cluster
  kubectl ordered get web                       pods, their order and the pause points of web
  kubectl ordered order web --replicas 8        who would go if web were scaled down to 8
  kubectl ordered resume web                    continue a rollout held at a pause point
  kubectl ordered crd | kubectl apply -f -      install the CRDs
  kubectl ordered sandbox --kubeconfig my.yaml  a cluster in memory for your own kubectl";

/// Deployments whose pods go in the order you choose, and whose rollout halts at the pods you choose.
#[derive(Debug, Parser)]
#[command(name = "kubectl-ordered", bin_name = "kubectl ordered", version, after_help = EXAMPLES)]
#[command(max_term_width = 100, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Get(commands::get::Args),
    Order(commands::order::Args),
    Resume(commands::resume::Args),
    Crd(commands::crd::Args),
    Sandbox(commands::sandbox::Args),
    Demo(commands::demo::Args),
}

/// Runs a command to its end.
pub fn run(cli: Cli) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        match cli.command {
            Command::Get(args) => commands::get::run(args).await,
            Command::Order(args) => commands::order::run(args).await,
            Command::Resume(args) => commands::resume::run(args).await,
            Command::Crd(args) => commands::crd::run(&args),
            Command::Sandbox(args) => commands::sandbox::run(args).await,
            Command::Demo(args) => commands::demo::run(&args).await,
        }
    });
    // A thread that waits for the terminal would keep the process alive.
    runtime.shutdown_background();
    done
}

/// Whether the error is that nobody reads the output any more.
#[must_use]
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
