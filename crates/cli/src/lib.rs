//! The command line of OrderedDeployment, run as `kubectl ordered`.
//!
//! It shows the current state and a preview of changes, computed by the code of the controller. It writes what a user
//! requests: a resume, pod annotations, a template. It never creates or deletes a pod: only the controller does, also
//! the one embedded in `demo` and `sandbox`.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod adopt;
mod age;
mod client;
mod commands;
mod compare;
mod complete;
mod connect_error;
mod convert;
mod dashboard;
mod declared;
mod demo;
mod embedded;
mod escape;
mod exit;
mod explain;
mod frame;
mod help_width;
mod input;
mod observe;
mod output;
mod overview;
mod pause_points;
mod phase;
mod plain;
mod pod;
#[cfg(test)]
mod reference;
mod request;
mod revisions;
mod screen;
mod style;
mod table;
mod template_change;
#[cfg(test)]
mod testing;
mod tree;
mod watch_cache;
mod watches;

use std::ffi::OsString;
use std::io::ErrorKind;

use anyhow::{Result, bail};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use client::ConnectArgs;
pub use exit::Exit;

const EXAMPLES: &str = "\
Examples:
  kubectl ordered demo                          watch an ordered rollout; needs no cluster
  kubectl ordered get web -w                    show the pods of web, their order and pause points
  kubectl ordered dashboard                     the same in a web browser, with buttons
  kubectl ordered order web --replicas 8        show which pods a scale-down to 8 would delete
  kubectl ordered plan web --image web=app:2    preview a rollout, step by step
  kubectl ordered status web                    wait for the rollout; the exit code is its result
  kubectl ordered resume web                    resume a rollout that is paused at a pause point
  kubectl ordered abort web                     roll a rollout back to the last complete revision
  kubectl ordered crd | kubectl apply -f -      install the CRDs
  kubectl ordered sandbox --kubeconfig my.yaml  run a cluster in memory for your own kubectl";

/// Deployments that delete pods in the order you choose, and pause a rollout at the pods you choose.
#[derive(Debug, Parser)]
#[command(name = "kubectl-ordered", bin_name = "kubectl ordered", version, after_help = EXAMPLES)]
#[command(max_term_width = 100, arg_required_else_help = true)]
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
    Dashboard(commands::dashboard::Args),
    List(commands::list::Args),
    Status(commands::status::Args),
    Order(commands::order::Args),
    Plan(commands::plan::Args),
    #[command(visible_aliases = ["continue", "promote"])]
    Resume(commands::resume::Args),
    Abort(commands::abort::Args),
    Retry(commands::retry::Args),
    Pause(commands::pause::PauseArgs),
    Unpause(commands::pause::UnpauseArgs),
    #[command(visible_alias = "rollback")]
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
    Version(commands::version::Args),
}

impl Command {
    /// The flags for the cluster, if the command uses one.
    fn connect(&mut self) -> Option<&mut ConnectArgs> {
        match self {
            Self::Get(args) => Some(&mut args.connect),
            Self::Dashboard(args) => Some(&mut args.connect),
            Self::List(args) => Some(&mut args.connect),
            Self::Status(args) => Some(&mut args.connect),
            Self::Order(args) => Some(&mut args.connect),
            Self::Plan(args) => Some(&mut args.connect),
            Self::Resume(args) => Some(&mut args.connect),
            Self::Abort(args) => Some(&mut args.connect),
            Self::Retry(args) => Some(&mut args.connect),
            Self::Pause(args) => Some(&mut args.connect),
            Self::Unpause(args) => Some(&mut args.connect),
            Self::Undo(args) => Some(&mut args.connect),
            Self::History(args) => Some(&mut args.connect),
            Self::Restart(args) => Some(&mut args.connect),
            Self::Set(commands::set::Args { command: commands::set::SetCommand::Image(args) }) => {
                Some(&mut args.connect)
            }
            Self::Mark(args) => Some(&mut args.connect),
            Self::Unmark(args) => Some(&mut args.connect),
            Self::Adopt(args) => Some(&mut args.connect),
            Self::Version(args) => Some(&mut args.connect),
            Self::Convert(_)
            | Self::Crd(_)
            | Self::Sandbox(_)
            | Self::Demo(_)
            | Self::Completion(_)
            | Self::Options(_) => None,
        }
    }

    async fn run(self) -> Result<Exit> {
        let done = |()| Exit::Success;
        match self {
            Self::Get(args) => commands::get::run(args).await,
            Self::Dashboard(args) => commands::dashboard::run(args).await.map(done),
            Self::List(args) => commands::list::run(args).await,
            Self::Status(args) => commands::status::run(args).await,
            Self::Order(args) => commands::order::run(args).await.map(done),
            Self::Plan(args) => commands::plan::run(args).await.map(done),
            Self::Resume(args) => commands::resume::run(args).await.map(done),
            Self::Abort(args) => commands::abort::run(args).await.map(done),
            Self::Retry(args) => commands::retry::run(args).await.map(done),
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
            Self::Version(args) => commands::version::run(args).await,
        }
    }
}

/// The program: parses the command line, runs the command, and prints errors.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(words) = to_complete(&arguments) {
        let mut definition = command();
        // Adds `help`, whose words are the commands.
        definition.build();
        complete::print(&definition, &words);
        return Exit::Success;
    }
    let cli = match parse(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // A failure to print cannot be reported anywhere.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Success };
        }
    };
    match run(cli) {
        Ok(exit) => exit,
        // The reader closed the pipe, such as `head`. That is not an error.
        Err(error) if is_broken_pipe(&error) => Exit::Success,
        Err(error) => {
            escape::print_stderr(format_args!("error: {error:#}"));
            exit::of_error(&error)
        }
    }
}

/// The definition of all commands. Flags for a cluster are also accepted before the command; only the help of each
/// command lists them.
fn command() -> clap::Command {
    Cli::command().mut_args(|argument| {
        let hide = argument.get_help_heading().is_some();
        if hide { argument.hide(true) } else { argument }
    })
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let definition = match style::width_of_stdout() {
        Some(width) => help_width::fit(command(), width),
        None => command(),
    };
    let mut matches = definition.try_get_matches_from(arguments)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command()))
}

/// The words to complete, if a shell runs `kubectl-ordered __complete` or kubectl runs `kubectl_complete-ordered`.
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
        None => bail!("this command does not use a cluster: put its flags after its name"),
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(command.run());
    // Do not wait for threads: one that reads the terminal would block the exit.
    runtime.shutdown_background();
    done
}

/// Whether the error is a closed pipe on the output.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
