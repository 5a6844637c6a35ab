//! `get`: shows OrderedDeployments as trees. Read-only.

use std::io::IsTerminal;

use anyhow::{Result, bail};
use ordereddeployment_wire::Family;

use crate::client::output::{self, Output};
use crate::client::reader::{self, Scope};
use crate::client::watch_cache::WatchCache;
use crate::client::{ConnectArgs, Connection, OfEither, of_either, quoted};
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
`-w` with a name shows a screen on a terminal: `r` resumes a rollout, `p` shows the plan, `/` filters the \
pods, `q` quits. Elsewhere, and for a plain Deployment, it prints the trees again when they change. It ends \
when the named object is deleted.")]
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
        (Some(output), name) if args.watch => {
            let name = name.as_ref().map_or_else(String::new, |of| format!(" {}", of.name));
            let all = if args.all_namespaces { " -A" } else { "" };
            let selector =
                args.selector.as_ref().map_or_else(String::new, |it| format!(" -l {}", quoted(it)));
            bail!(
                "-o {output} prints the objects once\nhint: `kubectl get od{name}{all}{selector} -w -o \
                 {output}{}` prints them again when they change",
                connection.flags
            )
        }
        (Some(output), _) => {
            let Scope { namespace, name, selector, .. } = scope(&args, &connection);
            let found = output::read(&output::raw(&connection.client, namespace), name, selector).await?;
            Ok(print_data(&output::text(&found, output)?)?)
        }
        (None, _) if args.watch => watch(&args, &connection).await,
        (None, _) => once(&args, &connection).await,
    }
}

async fn once(args: &Args, connection: &Connection) -> Result<()> {
    let scope = scope(args, connection);
    let all = reader::all(&connection.client, scope, connection.clock.now()).await?;
    if all.is_empty() {
        print_stderr(scope.nothing());
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

/// A screen of one object on a terminal. Otherwise it prints the trees again when they change.
async fn watch(args: &Args, connection: &Connection) -> Result<()> {
    let scope = scope(args, connection);
    let on_terminal = std::io::stdout().is_terminal()
        && std::io::stdin().is_terminal()
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    if let (true, Family::Ordered, Some(name)) = (on_terminal && !args.summary, scope.family, scope.name) {
        let options = screen::Options {
            name,
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
        let mut text = if all.is_empty() { scope.nothing() + "\n" } else { trees(&all, args, connection) };
        if let Some(lost) = cache.watches.lost() {
            text.extend(["note: connection lost, reconnecting: ", &escaped(&lost.error), "\n"]);
        }
        if text != shown {
            let between = if shown.is_empty() { "" } else { "\n" };
            print(format_args!("{between}{text}"))?;
            shown = text;
        }
        cache.watches.changed().await?;
    }
}
