//! `get`: shows OrderedDeployments as trees. Read-only.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use kube_runtime::{WatchStreamExt, watcher};

use crate::client::{ConnectArgs, Connection, object_name};
use crate::escape::{escaped, print, print_data, print_stderr};
use crate::exit::Exit;
use crate::frame::Frame;
use crate::observe::{ObservedState, Reader};
use crate::output::{self, Output};
use crate::overview::Overview;
use crate::tree::{self, Drawing};
use crate::watch_cache::WatchCache;

/// The interval for updating ages on a terminal. It causes no request.
const TICK: Duration = Duration::from_secs(1);

/// Show OrderedDeployments as trees: sets, pods, their order with reasons, and pause points
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered get           show all in the namespace
  kubectl ordered get web -w    show web and redraw it when it changes
  kubectl ordered get od/web -o yaml

`#` is the place in the order: 1 is deleted first. During a rollout only old pods have a place, otherwise all pods.
WHY is the priority of a pod, then what parts it from the next one.
A narrow terminal has fewer columns; `-o wide` shows all columns, including ages and restarts.
`-w` ends with Ctrl-C, or when the named object is deleted.")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment; the default is all in the namespace
    #[arg(value_parser = object_name)]
    name: Option<String>,
    /// Watch for changes
    #[arg(short, long)]
    watch: bool,
    /// The output format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Output>,
    /// The node label for the pool of a node
    #[arg(long, value_name = "LABEL", default_value = "node.usage")]
    pool_label: String,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let connection = args.connect.connect().await?;
    match args.output {
        Some(output @ (Output::Json | Output::Yaml | Output::Name)) => {
            objects(&args, &connection, output).await?;
        }
        Some(Output::Wide) | None if args.watch => watch(&args, &connection).await?,
        Some(Output::Wide) | None => once(&args, &connection).await?,
    }
    Ok(Exit::Success)
}

async fn once(args: &Args, connection: &Connection) -> Result<()> {
    let reader = Reader::new(&connection.client, &connection.namespace);
    let all = match &args.name {
        Some(name) => vec![reader.one(name, connection.clock.now()).await?],
        None => reader.all(connection.clock.now()).await?,
    };
    if all.is_empty() {
        print_stderr(no_objects(connection));
        return Ok(());
    }
    Ok(print(trees(&all, args, connection))?)
}

fn no_objects(connection: &Connection) -> String {
    format!("No OrderedDeployments in namespace {}.", connection.namespace)
}

fn trees(all: &[ObservedState], args: &Args, connection: &Connection) -> String {
    let wide = args.output == Some(Output::Wide);
    let drawing = Drawing { wide, ..Drawing::of_stdout(&connection.flags) };
    let trees: Vec<String> =
        all.iter().map(|state| tree::render(&Overview::of(state, &args.pool_label), drawing)).collect();
    trees.join("\n")
}

/// Redraws on a terminal. On a pipe it prints the trees again when they change.
async fn watch(args: &Args, connection: &Connection) -> Result<()> {
    let mut cache =
        WatchCache::start(&connection.watching, &connection.namespace, args.name.as_deref()).await?;
    let mut out = std::io::stdout();
    let on_terminal = out.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    let mut frame = Frame::default();
    let mut shown = String::new();
    loop {
        let all = cache.states(connection.clock.now());
        if let (Some(name), true) = (&args.name, all.is_empty()) {
            return Ok(print(format_args!("{name} is deleted\n"))?);
        }
        let mut text =
            if all.is_empty() { no_objects(connection) + "\n" } else { trees(&all, args, connection) };
        if let Some(error) = cache.error() {
            text.extend(["note: connection lost, reconnecting: ", &escaped(error), "\n"]);
        }
        if on_terminal {
            let lines: Vec<&str> = text.lines().collect();
            frame.draw(&mut out, &lines, "")?;
            tokio::select! {
                changed = cache.changed() => changed?,
                () = tokio::time::sleep(TICK) => {}
            }
        } else {
            if text != shown {
                let between = if shown.is_empty() { "" } else { "\n" };
                print(format_args!("{between}{text}"))?;
                shown = text;
            }
            cache.changed().await?;
        }
    }
}

/// Prints the objects; with `--watch` each one again when it changes, as kubectl does.
async fn objects(args: &Args, connection: &Connection, output: Output) -> Result<()> {
    let api = output::raw(&connection.client, Some(&connection.namespace));
    if !args.watch {
        let found = output::read(&api, args.name.as_deref()).await?;
        return Ok(print_data(&output::text(&found, output)?)?);
    }
    // A read returns errors that a watch would only retry.
    output::read(&api, args.name.as_deref()).await?;
    let config = watcher::Config::default();
    let config = match &args.name {
        Some(name) => config.fields(&format!("metadata.name={name}")),
        None => config,
    };
    let api = output::raw(&connection.watching, Some(&connection.namespace));
    let mut changes = watcher(api, config).default_backoff().applied_objects().boxed();
    while let Some(change) = changes.next().await {
        let Ok(object) = change else { continue };
        let value = output::object(object)?;
        let mark = if output == Output::Yaml { "---\n" } else { "" };
        print_data(&format!("{mark}{}", output::text(&value, output)?))?;
    }
    Ok(())
}
