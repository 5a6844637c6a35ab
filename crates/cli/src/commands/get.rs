//! `get`: shows OrderedDeployments as trees. Read-only.

use std::io::IsTerminal;

use anyhow::{Result, bail};
use futures::StreamExt;
use kube_runtime::watcher;
use ordereddeployment_kubernetes::patient;
use ordereddeployment_wire::Family;

use crate::client::output::{self, Output};
use crate::client::reader::{self, Scope};
use crate::client::watch_cache::WatchCache;
use crate::client::{ConnectArgs, Connection, OfEither, of_either};
use crate::commands::screen;
use crate::terminal::escape::{escaped, print, print_data, print_stderr};
use crate::terminal::table::text_of;
use crate::view::overview::Overview;
use crate::view::state::{ObservedState, reference};
use crate::view::tree::{self, Drawing, Fold};

/// Show OrderedDeployments as trees: sets, pods, their order with reasons, and pause points
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered get           show all in the namespace
  kubectl ordered get -A -l team=shop
  kubectl ordered get web -w    show web and redraw it when it changes
  kubectl ordered get od/web -o yaml
  kubectl ordered get deployment/web    show a plain Deployment

`#` is the place in the order: 1 is deleted first. During a rollout only old pods have a place, otherwise \
all pods.
WHY is the priority of a pod, then what parts it from the next one.
deployment/web is a plain Deployment whose ReplicaSets ordered-controller-manager reconciles.
A narrow terminal has fewer columns; `-o wide` shows all columns, including ages and restarts.
`-w` shows a screen on a terminal: `r` resumes a rollout, `p` shows the plan, `/` filters the pods, `q` \
quits. Elsewhere, and for a plain Deployment, it prints the trees again when they change. It ends when the \
named object is deleted.")]
#[allow(clippy::struct_excessive_bools, reason = "one for each flag")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment, or deployment/NAME; the default is all OrderedDeployments in the
    /// namespace
    #[arg(value_parser = of_either)]
    name: Option<OfEither>,
    /// Show the OrderedDeployments in all namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    all_namespaces: bool,
    /// Show those that this label selector selects
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "name")]
    selector: Option<String>,
    /// Watch for changes
    #[arg(short, long)]
    watch: bool,
    /// Show all pods of large objects, instead of the first ones in the order
    #[arg(long)]
    all: bool,
    /// Show the state, the progress and the next pods only
    #[arg(long, conflicts_with = "all")]
    summary: bool,
    /// The output format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Output>,
    /// The node label for the pool of a node
    #[arg(long, value_name = "LABEL", default_value = "node.usage")]
    pool_label: String,
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?;
    match (output::for_programs(args.output), &args.name) {
        (Some(output), Some(OfEither { family: Family::Plain, name })) => bail!(
            "-o {output} prints OrderedDeployments\nhint: `kubectl get deployment/{name} -o {output}{}`",
            connection.flags
        ),
        (Some(output), _) => objects(&args, &connection, output).await,
        (None, _) if args.watch => watch(&args, &connection).await,
        (None, _) => once(&args, &connection).await,
    }
}

async fn once(args: &Args, connection: &Connection) -> Result<()> {
    let scope = scope(args, connection);
    let all = reader::all(&connection.client, scope, connection.clock.now()).await?;
    if all.is_empty() {
        print_stderr(no_objects(scope));
        return Ok(());
    }
    Ok(print(trees(&all, args, connection))?)
}

fn scope<'a>(args: &'a Args, connection: &'a Connection) -> Scope<'a> {
    Scope {
        family: args.name.as_ref().map_or(Family::Ordered, |named| named.family),
        namespace: (!args.all_namespaces).then_some(&connection.namespace),
        name: args.name.as_ref().map(|named| named.name.as_str()),
        selector: args.selector.as_deref(),
    }
}

fn no_objects(scope: Scope<'_>) -> String {
    format!("No OrderedDeployments in {}.", scope.place())
}

fn trees(all: &[ObservedState], args: &Args, connection: &Connection) -> String {
    let wide = args.output == Some(Output::Wide);
    let fold = Fold { all: args.all, ..Fold::default() };
    let drawing = Drawing { wide, fold, ..Drawing::of_stdout(&connection.flags) };
    let drawn = |state: &ObservedState| {
        let overview = Overview::of(state, &args.pool_label);
        if args.summary {
            text_of(&tree::summary(&overview, drawing))
        } else {
            tree::render(&overview, drawing)
        }
    };
    let trees: Vec<String> = all.iter().map(drawn).collect();
    trees.join("\n")
}

/// A screen on a terminal. On a pipe it prints the trees again when they change.
async fn watch(args: &Args, connection: &Connection) -> Result<()> {
    let scope = scope(args, connection);
    let on_terminal = std::io::stdout().is_terminal()
        && std::io::stdin().is_terminal()
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    if on_terminal && !args.summary && scope.family == Family::Ordered {
        let options = screen::Options {
            scope,
            pool_label: &args.pool_label,
            wide: args.output == Some(Output::Wide),
            all: args.all,
        };
        return Ok(print(screen::run(connection, options).await?)?);
    }
    let mut cache = WatchCache::start(connection, scope).await?;
    let mut shown = String::new();
    loop {
        let all = cache.states(connection.clock.now());
        if let (Some(name), true) = (scope.name, all.is_empty()) {
            return Ok(print(format_args!("{} is deleted\n", reference(scope.family, name)))?);
        }
        let mut text = if all.is_empty() { no_objects(scope) + "\n" } else { trees(&all, args, connection) };
        if let Some(lost) = cache.lost() {
            text.extend(["note: connection lost, reconnecting: ", &escaped(&lost.error), "\n"]);
        }
        if text != shown {
            let between = if shown.is_empty() { "" } else { "\n" };
            print(format_args!("{between}{text}"))?;
            shown = text;
        }
        cache.changed().await?;
    }
}

/// Prints the objects; with `--watch` each one again when it changes, as kubectl does.
async fn objects(args: &Args, connection: &Connection, output: Output) -> Result<()> {
    let Scope { namespace, name, .. } = scope(args, connection);
    let api = output::raw(&connection.client, namespace);
    if !args.watch {
        let found = output::read(&api, name, args.selector.as_deref()).await?;
        return Ok(print_data(&output::text(&found, output)?)?);
    }
    // A read returns errors that a watch would only retry.
    output::read(&api, name, args.selector.as_deref()).await?;
    let config = watcher::Config::default();
    let config = match name {
        Some(name) => config.fields(&format!("metadata.name={name}")),
        None => args.selector.iter().fold(config, |config, selector| config.labels(selector)),
    };
    let api = output::raw(&connection.watching, namespace);
    let mut changes = patient("objects", || watcher(api.clone(), config.clone())).boxed();
    // Whether a list contains an object: one that is deleted during a lost connection is only missing in the
    // next list.
    let mut is_listed = false;
    while let Some(change) = changes.next().await {
        let Ok(change) = change else { continue };
        let is_deleted = match &change {
            watcher::Event::Delete(_) => true,
            watcher::Event::InitDone => !is_listed,
            watcher::Event::Init | watcher::Event::InitApply(_) | watcher::Event::Apply(_) => false,
        };
        if let (Some(name), true) = (name, is_deleted) {
            print_stderr(format!("{name} is deleted"));
            return Ok(());
        }
        is_listed = matches!(change, watcher::Event::InitApply(_));
        let (watcher::Event::Apply(object) | watcher::Event::InitApply(object)) = change else { continue };
        let value = output::object(object)?;
        let mark = if output == Output::Yaml { "---\n" } else { "" };
        print_data(&format!("{mark}{}", output::text(&value, output)?))?;
    }
    Ok(())
}
