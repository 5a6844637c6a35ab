//! The command line of OrderedDeployment, run as `kubectl ordered`.
//!
//! It shows what is and what will be, by the very code of the controller, and it writes what a user asks for: a resume, a
//! mark, a template. It never deletes or creates a pod: that is the controller's, the embedded one's of `demo` and `sandbox`
//! included.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod adopt;
mod age;
mod ahead;
mod change;
mod client;
mod commands;
mod compare;
mod complete;
mod convert;
mod demo;
mod embedded;
mod escape;
mod exit;
mod explain;
mod frame;
mod input;
mod live;
mod narrow;
mod observe;
mod output;
mod overview;
mod pod;
#[cfg(test)]
mod reference;
mod revisions;
mod state;
mod style;
mod table;
#[cfg(test)]
mod testing;
mod tree;

use std::ffi::OsString;
use std::io::ErrorKind;

use anyhow::{Result, bail};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use client::ConnectArgs;
pub use exit::Exit;

const EXAMPLES: &str = "\
Examples:
  kubectl ordered demo                          watch an ordered rollout; needs no cluster
  kubectl ordered get web -w                    pods, their order and the pause points of web
  kubectl ordered order web --replicas 8        who would go if web were scaled down to 8
  kubectl ordered plan web --image web=app:2    a whole rollout ahead of time, step by step
  kubectl ordered status web                    wait for the rollout; the exit code tells its end
  kubectl ordered resume web                    continue a rollout held at a pause point
  kubectl ordered crd | kubectl apply -f -      install the CRDs
  kubectl ordered sandbox --kubeconfig my.yaml  a cluster in memory for your own kubectl";

/// Deployments whose pods go in the order you choose, and whose rollout halts at the pods you choose.
#[derive(Debug, Parser)]
#[command(name = "kubectl-ordered", bin_name = "kubectl ordered", version, after_help = EXAMPLES)]
#[command(max_term_width = 100, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(subcommand_required = true)]
struct Cli {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Get(commands::get::Args),
    List(commands::list::Args),
    Status(commands::status::Args),
    Order(commands::order::Args),
    Plan(commands::plan::Args),
    Resume(commands::resume::Args),
    Pause(commands::pause::PauseArgs),
    Unpause(commands::pause::UnpauseArgs),
    Undo(commands::undo::Args),
    History(commands::history::Args),
    Restart(commands::restart::Args),
    Set(commands::set::Args),
    Mark(commands::mark::MarkArgs),
    Unmark(commands::mark::UnmarkArgs),
    Convert(commands::convert::Args),
    Adopt(commands::adopt::Args),
    Crd(commands::crd::Args),
    Sandbox(commands::sandbox::Args),
    Demo(commands::demo::Args),
    Completion(commands::completion::Args),
    Options(commands::options::Args),
}

impl Command {
    /// The cluster that it talks to, where it does.
    fn connect(&mut self) -> Option<&mut ConnectArgs> {
        match self {
            Self::Get(args) => Some(&mut args.connect),
            Self::List(args) => Some(&mut args.connect),
            Self::Status(args) => Some(&mut args.connect),
            Self::Order(args) => Some(&mut args.connect),
            Self::Plan(args) => Some(&mut args.connect),
            Self::Resume(args) => Some(&mut args.connect),
            Self::Pause(args) => Some(&mut args.connect),
            Self::Unpause(args) => Some(&mut args.connect),
            Self::Undo(args) => Some(&mut args.connect),
            Self::History(args) => Some(&mut args.connect),
            Self::Restart(args) => Some(&mut args.connect),
            Self::Set(commands::set::Args { what: commands::set::What::Image(args) }) => {
                Some(&mut args.connect)
            }
            Self::Mark(args) => Some(&mut args.connect),
            Self::Unmark(args) => Some(&mut args.connect),
            Self::Adopt(args) => Some(&mut args.connect),
            Self::Convert(_)
            | Self::Crd(_)
            | Self::Sandbox(_)
            | Self::Demo(_)
            | Self::Completion(_)
            | Self::Options(_) => None,
        }
    }

    async fn run(self) -> Result<Exit> {
        let done = |()| Exit::Done;
        match self {
            Self::Get(args) => commands::get::run(args).await,
            Self::List(args) => commands::list::run(args).await,
            Self::Status(args) => commands::status::run(args).await,
            Self::Order(args) => commands::order::run(args).await.map(done),
            Self::Plan(args) => commands::plan::run(args).await.map(done),
            Self::Resume(args) => commands::resume::run(args).await.map(done),
            Self::Pause(args) => commands::pause::run(args).await,
            Self::Unpause(args) => commands::pause::run_unpause(args).await,
            Self::Undo(args) => commands::undo::run(args).await,
            Self::History(args) => commands::history::run(args).await,
            Self::Restart(args) => commands::restart::run(args).await,
            Self::Set(args) => commands::set::run(args).await,
            Self::Mark(args) => commands::mark::run(args).await,
            Self::Unmark(args) => commands::mark::run_unmark(args).await,
            Self::Adopt(args) => commands::adopt::run(args).await.map(done),
            Self::Crd(args) => commands::crd::run(&args).map(done),
            Self::Sandbox(args) => commands::sandbox::run(args).await.map(done),
            Self::Demo(args) => commands::demo::run(&args).await.map(done),
            Self::Convert(args) => commands::convert::run(&args),
            Self::Completion(args) => commands::completion::run(&args),
            Self::Options(args) => commands::options::run(&args),
        }
    }
}

/// The whole program: parses, runs, and says what went wrong.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(words) = to_complete(&arguments) {
        complete::print(&words);
        return Exit::Done;
    }
    let cli = match parse(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to tell where this fails too.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    match run(cli) {
        Ok(exit) => exit,
        // A pipe whose reader has gone is no mistake of the user's.
        Err(error) if is_broken_pipe(&error) => Exit::Done,
        Err(error) => {
            escape::tell(format_args!("error: {error:#}"));
            exit::of_error(&error)
        }
    }
}

/// The definition of all commands. The flags for a cluster can be given before the command too; its own help tells them.
fn command() -> clap::Command {
    Cli::command().mut_args(|argument| {
        let hide = argument.get_help_heading().is_some();
        if hide { argument.hide(true) } else { argument }
    })
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let definition = match style::width_of_stdout() {
        Some(width) => narrow::fitted(command(), width),
        None => command(),
    };
    let mut matches = definition.try_get_matches_from(arguments)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command()))
}

/// The words to complete, where that is what is asked: by a shell, or by kubectl, which runs `kubectl_complete-ordered`.
fn to_complete(arguments: &[OsString]) -> Option<Vec<String>> {
    let (program, rest) = arguments.split_first()?;
    let by_name =
        std::path::Path::new(program).file_stem().is_some_and(|name| name == "kubectl_complete-ordered");
    let words = match rest.split_first() {
        _ if by_name => rest,
        Some((first, words)) if first == "__complete" => words,
        _ => return None,
    };
    Some(words.iter().map(|word| word.to_string_lossy().into_owned()).collect())
}

fn run(cli: Cli) -> Result<Exit> {
    let Cli { connect: outer, mut command } = cli;
    match command.connect() {
        Some(inner) => *inner = std::mem::take(inner).or(outer),
        None if outer == ConnectArgs::default() => {}
        None => bail!("this command talks to no cluster of yours: give its flags behind its name"),
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(command.run());
    // A thread that waits for the terminal would keep the process alive.
    runtime.shutdown_background();
    done
}

/// Whether the error is that nobody reads the output any more.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
