//! The command line of OrderedDeployment, run as `kubectl ordered`.
//!
//! It shows the current state and a preview of changes, computed by the code of the controller. It writes
//! what a user requests: a resume, pod annotations, a template. It never creates or deletes a pod: only the
//! controller does, also the one embedded in `demo` and `sandbox`.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod client;
mod commands;
mod complete;
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
use terminal::{escape, style};

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
    /// Whether the command uses no cluster.
    #[arg(skip)]
    is_local: bool,
}

const LOCAL: [&str; 5] = ["convert", "crd", "sandbox", "demo", "options"];

/// What early versions had, and what to use instead.
const REMOVED: [(&str, &str); 4] = [
    ("completion", "kubectl completes `kubectl ordered` through a link: see docs/cli.md"),
    ("--username", "use a token or a client certificate: API servers accept no passwords"),
    ("--password", "use a token or a client certificate: API servers accept no passwords"),
    ("--disable-compression", "leave it out: responses are not compressed"),
];

/// Defines the commands, from the arguments and the function of each. One that uses a cluster takes the flags
/// for it.
macro_rules! commands {
    ($connect:ident; $($(#[$attribute:meta])*
        $name:ident: $module:ident::$args:ident => $run:ident($($with:ident)?) $(.$wait:tt)?;)+) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            $($(#[$attribute])* $name(commands::$module::$args),)+
        }

        impl Command {
            async fn run(self, $connect: ConnectArgs) -> Result<Exit> {
                match self {
                    $(Self::$name(args) => commands::$module::$run(args $(,
                    $with)?)$(.$wait)?.map(Into::into),)+
                }
            }
        }
    };
}

commands! {
    connect;
    Get: get::Args => run(connect).await;
    Dashboard: dashboard::Args => run(connect).await;
    List: list::Args => run(connect).await;
    Status: status::Args => run(connect).await;
    Order: order::Args => run(connect).await;
    Plan: plan::Args => run(connect).await;
    #[command(visible_aliases = ["continue", "promote"])]
    Resume: resume::Args => run(connect).await;
    Abort: abort::AbortArgs => run(connect).await;
    Retry: abort::RetryArgs => run_retry(connect).await;
    Pause: pause::PauseArgs => run(connect).await;
    Unpause: pause::UnpauseArgs => run_unpause(connect).await;
    #[command(visible_alias = "rollback")]
    Undo: undo::Args => run(connect).await;
    History: history::Args => run(connect).await;
    Restart: restart::Args => run(connect).await;
    Set: set::Args => run(connect).await;
    Mark: mark::MarkArgs => run(connect).await;
    Unmark: mark::UnmarkArgs => run_unmark(connect).await;
    Convert: convert::Args => run();
    Adopt: adopt::Args => run(connect).await;
    Crd: crd::Args => run();
    Sandbox: sandbox::Args => run().await;
    Demo: demo::Args => run().await;
    Options: options::Args => run();
    Version: version::Args => run(connect).await;
}

/// The program: parses the command line, runs the command, and prints errors.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(words) = to_complete(&arguments) {
        complete::print(&command(), &words);
        return Exit::Success;
    }
    let cli = match parse(arguments.iter().cloned()) {
        Ok(cli) => cli,
        Err(error) => {
            // A failure to print cannot be reported anywhere.
            let _ = error.print();
            if let Some(hint) = instead(&arguments) {
                escape::print_stderr(format_args!("hint: {hint}"));
            }
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

fn instead(arguments: &[OsString]) -> Option<&'static str> {
    let is_given = |word: &str| {
        let mut given = arguments.iter().map(|argument| argument.to_string_lossy());
        given.any(|given| given.split('=').next() == Some(word))
    };
    REMOVED.into_iter().find(|(word, _)| is_given(word)).map(|(_, hint)| hint)
}

/// The definition of all commands. Flags for a cluster are also accepted before the command; only the help of
/// each command lists them.
fn command() -> clap::Command {
    let definition = Cli::command().mut_args(|argument| {
        let hide = argument.get_help_heading().is_some();
        if hide { argument.hide(true) } else { argument }
    });
    definition.mut_subcommands(|one| if LOCAL.contains(&one.get_name()) { one } else { with_flags(one) })
}

/// The command, or its innermost ones, with the flags for a cluster.
fn with_flags(command: clap::Command) -> clap::Command {
    if command.has_subcommands() {
        return command.mut_subcommands(with_flags);
    }
    <ConnectArgs as clap::Args>::augment_args(command)
}

/// The command definition with its examples adapted to a terminal of that width.
fn fit(command: clap::Command, width: usize) -> clap::Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(examples(&text, width)),
        None => command,
    };
    command.mut_subcommands(|inner| fit(inner, width))
}

/// The text. If one example does not fit with its comment, all comments are put on their own lines.
fn examples(text: &str, width: usize) -> String {
    fn parts(line: &str) -> Option<(&str, &str)> {
        line.strip_prefix("  ")
            .filter(|line| line.starts_with("kubectl"))
            .and_then(|line| line.split_once("  "))
    }
    let too_long = |line: &str| line.chars().count() > width && parts(line).is_some();
    if !text.lines().any(too_long) {
        return text.to_owned();
    }
    let lines = text.split('\n').map(|line| match parts(line) {
        Some((example, explanation)) => format!("  # {}\n  {example}", explanation.trim_start()),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let definition = match style::width_of_stdout() {
        Some(width) => fit(command(), width),
        None => command(),
    };
    let matches = definition.try_get_matches_from(arguments)?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))?;
    cli.is_local = matches.subcommand_name().is_some_and(|name| LOCAL.contains(&name));
    if !cli.is_local {
        cli.connect = ConnectArgs::of(&matches)?;
    }
    Ok(cli)
}

/// The words to complete, if kubectl runs this program as `kubectl_complete-ordered`.
fn to_complete(arguments: &[OsString]) -> Option<Vec<String>> {
    let (program, words) = arguments.split_first()?;
    let name = std::path::Path::new(program).file_stem()?;
    let words = words.iter().map(|word| word.to_string_lossy().into_owned());
    (name == "kubectl_complete-ordered").then(|| words.collect())
}

fn run(cli: Cli) -> Result<Exit> {
    let Cli { connect, command, is_local } = cli;
    if is_local && connect != ConnectArgs::default() {
        bail!("this command does not use a cluster: put its flags after its name");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(command.run(connect));
    // Do not wait for threads: one that reads the terminal would block the exit.
    runtime.shutdown_background();
    done
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests;
