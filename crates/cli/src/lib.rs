//! The command line of OrderedDeployment, run as `kubectl ordered`.
//!
//! It shows the current state and a preview of changes, computed by the code of the controller. It writes what a user
//! requests: a resume, pod annotations, a template. It never creates or deletes a pod: only the controller does, also
//! the one embedded in `demo` and `sandbox`.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod adopt;
mod client;
mod commands;
mod complete;
mod convert;
mod embedded;
mod exit;
mod input;
mod terminal;
#[cfg(test)]
mod testing;
mod view;

use std::ffi::OsString;
use std::io::ErrorKind;

use anyhow::{Result, bail};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use client::ConnectArgs;
pub use exit::Exit;
use terminal::{escape, help_width, style};

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

/// Defines the commands, from the arguments and the function of each. One that uses a cluster has the flags for it in a field.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident: $module:ident::$args:ident => $run:ident $(.$wait:tt)? $([$($connect:tt)+])?;)+) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            $($(#[$attribute])* $name(commands::$module::$args),)+
        }

        impl Command {
            /// The flags for the cluster, if the command uses one.
            fn connect(&mut self) -> Option<&mut ConnectArgs> {
                match self {
                    $($(Self::$name(args) => Some(&mut args.$($connect)+),)?)+
                    _ => None,
                }
            }

            async fn run(self) -> Result<Exit> {
                match self {
                    $(Self::$name(args) => commands::$module::$run(args)$(.$wait)?.map(Into::into),)+
                }
            }
        }
    };
}

commands! {
    Get: get::Args => run.await [connect];
    Dashboard: dashboard::Args => run.await [connect];
    List: list::Args => run.await [connect];
    Status: status::Args => run.await [connect];
    Order: order::Args => run.await [connect];
    Plan: plan::Args => run.await [connect];
    #[command(visible_aliases = ["continue", "promote"])]
    Resume: resume::Args => run.await [connect];
    Abort: abort::Args => run.await [connect];
    Retry: retry::Args => run.await [connect];
    Pause: pause::PauseArgs => run.await [connect];
    Unpause: pause::UnpauseArgs => run_unpause.await [connect];
    #[command(visible_alias = "rollback")]
    Undo: undo::Args => run.await [connect];
    History: history::Args => run.await [connect];
    Restart: restart::Args => run.await [connect];
    Set: set::Args => run.await [image().connect];
    Mark: mark::MarkArgs => run.await [connect];
    Unmark: mark::UnmarkArgs => run_unmark.await [connect];
    Convert: convert::Args => run;
    Adopt: adopt::Args => run.await [connect];
    Crd: crd::Args => run;
    Sandbox: sandbox::Args => run.await;
    Demo: demo::Args => run.await;
    Completion: completion::Args => run;
    Options: options::Args => run;
    Version: version::Args => run.await [connect];
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
mod tests;
