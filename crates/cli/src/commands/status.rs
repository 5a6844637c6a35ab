//! `status`: waits for a rollout and returns its result as exit code. Read-only.

use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::StreamExt;
use kube::Api;
use kube_runtime::{WatchStreamExt, watcher};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_wire::Family;

use crate::client::explain::explain;
use crate::client::{ConnectArgs, Connection, Timeout, object_name, timeout};
use crate::commands::list::waiting;
use crate::exit::Exit;
use crate::terminal::escape::{escaped, print, print_line, print_stderr};
use crate::view::declared::of_hold;
use crate::view::pause_points::{left, on_pods};
use crate::view::phase::{Phase, pause_point, rolled_back, side, suspended};

/// Wait for a rollout; the exit code is its result
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  complete, or with `--until held` paused at a pause point
  1  an error, such as no cluster or no such object
  3  paused at a pause point, or by spec.paused; without --until only
  4  failed: progress deadline exceeded, or stalled until the spec or the cluster is changed
  5  timed out, or not ended yet with --watch=false
  6  complete without a pause at a pause point; with `--until held` only

Without --until the command ends once the rollout is complete (0), paused (3) or failed (4). It waits while \
a pause point with a duration pauses the rollout, because that pause ends without a resume.

Examples:
  kubectl ordered status web                      wait until complete, paused or failed
  kubectl ordered status web --until complete     keep waiting while paused at pause points
  kubectl ordered status web --until held && kubectl ordered resume web canary
  kubectl ordered status web --watch=false        print the current state")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment
    #[arg(value_parser = object_name)]
    name: String,
    /// The state to wait for; `held` is paused at a pause point
    #[arg(long, value_name = "STATE")]
    until: Option<Until>,
    /// How long to wait, such as 30s or 10m; 0 is no limit
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = timeout)]
    timeout: Timeout,
    /// With `--watch=false`, print the current state and do not wait; the exit code is 5 unless the rollout
    /// has ended
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true,
        default_missing_value = "true", hide_default_value = true, action = clap::ArgAction::Set)]
    watch: bool,
}

/// The state to wait for. The variants have no doc comments, because clap would print them in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Until {
    Complete,
    Held,
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<Exit> {
    let connection = connect.connect().await?;
    let (name, flags) = (&args.name, &connection.flags);
    let doing = format!("cannot read {name} in {}", connection.namespace);
    // A read returns errors that a watch would only retry: not found, forbidden, no server.
    let first = connection.deployments().get(name).await.map_err(|error| explain(error, &doing))?;
    let mut last = String::new();
    // Prints the state if it has changed. Returns the exit code once the wait is over.
    let mut show = |found: &OrderedDeployment| -> Result<Option<Exit>> {
        let (exit, line) = evaluate(found, args.until, flags);
        if line != last {
            print_line(escaped(&line))?;
            last = line;
        }
        Ok(exit)
    };
    let mut exit = show(&first)?;
    let mut is_late = false;
    if exit.is_none() && args.watch {
        let limit = args.timeout.0.unwrap_or(Duration::MAX);
        let waited = tokio::time::timeout(limit, wait(&connection, name, show)).await;
        is_late = waited.is_err();
        exit = waited.ok().transpose()?;
    }
    let note = match exit {
        Some(_) => points_left(name, &connection).await,
        None => not_running(name, &connection).await,
    };
    if let Some(note) = note {
        print(format_args!("note: {}\n", escaped(&note)))?;
    }
    if is_late {
        print_stderr(format_args!(
            "error: {name}: timed out waiting for the rollout\nhint: see `kubectl ordered get {name}{flags}`"
        ));
    }
    Ok(exit.unwrap_or(Exit::TimedOut))
}

/// Why a pod does not run, if the user may read pods.
async fn not_running(name: &str, connection: &Connection) -> Option<String> {
    let pods = Api::namespaced(connection.client.clone(), &connection.namespace);
    let why = waiting(&pods).await.remove(&(connection.namespace.clone(), name.to_owned()))?;
    Some(format!("a pod does not run: {why}"))
}

/// The pause points that are left on pods, if the rollout is complete and the user may read its pods.
async fn points_left(name: &str, connection: &Connection) -> Option<String> {
    let state = connection.state(Family::Ordered, name).await.ok()?;
    if Phase::of(&state.deployment) != Phase::Complete {
        return None;
    }
    let left = left(&on_pods(&state.observed()))?;
    Some(format!("{left}; remove all marks with `kubectl ordered unmark --all {name}{}`", connection.flags))
}

async fn wait(
    connection: &Connection,
    name: &str,
    mut show: impl FnMut(&OrderedDeployment) -> Result<Option<Exit>>,
) -> Result<Exit> {
    let api: Api<OrderedDeployment> = Api::namespaced(connection.watching.clone(), &connection.namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut changes = watcher(api, config).default_backoff().boxed();
    while let Some(change) = changes.next().await {
        let found = match change {
            Ok(watcher::Event::Delete(_)) => return Err(anyhow!("{name} was deleted")),
            Ok(watcher::Event::Apply(found) | watcher::Event::InitApply(found)) => found,
            // The watch reconnects. The caller has the timeout.
            Ok(_) | Err(_) => continue,
        };
        if let Some(exit) = show(&found)? {
            return Ok(exit);
        }
    }
    Err(anyhow!("the watch of {name} ended"))
}

/// The exit code once the wait is over, and the state in one line.
fn evaluate(found: &OrderedDeployment, until: Option<Until>, flags: &str) -> (Option<Exit>, String) {
    let name = found.metadata.name.as_deref().unwrap_or_default();
    let status = found.status.clone().unwrap_or_default();
    let revision = status.rollout.as_ref().map_or(0, |rollout| rollout.revision);
    let counts = format!(
        "{} of {} pods updated, {} available",
        status.updated_replicas.unwrap_or(0),
        found.spec.replicas,
        status.available_replicas.unwrap_or(0)
    );
    match Phase::of(found) {
        Phase::Unobserved => (None, format!("{name}: waiting for the controller to observe this spec")),
        Phase::Suspended(revision) => (None, format!("{name}: {}", suspended(revision))),
        Phase::Rolling => (None, format!("{name}: rolling out revision {revision}: {counts}")),
        Phase::Migrating(migration) => {
            let (label, command) = (migration.label(), migration.command(name, flags));
            (None, format!("{name}: {label}: {}; finish with `{command}`", migration.message))
        }
        Phase::Aborted(aborted) => {
            let left = status.updated_replicas.unwrap_or(0);
            let available = status.available_replicas.unwrap_or(0);
            let plural = if left == 1 { "" } else { "s" };
            let is_done = left == 0 && available >= found.spec.replicas;
            let line = format!(
                "{name}: aborted: {}: {left} pod{plural} of revision {} left, {available} of {} available; \
                 start it again with `kubectl ordered retry {name}{flags}`",
                rolled_back(&aborted, is_done),
                aborted.revision,
                found.spec.replicas
            );
            (Some(Exit::Failed), line)
        }
        Phase::Stalled(why) | Phase::DeadlineExceeded(why) => {
            (Some(Exit::Failed), format!("{name}: failed: {why}"))
        }
        Phase::Complete => {
            let exit = if until == Some(Until::Held) { Exit::NotHeld } else { Exit::Success };
            (Some(exit), format!("{name}: complete at revision {revision}"))
        }
        Phase::Paused => {
            let exit = (until.is_none()).then_some(Exit::Held);
            let line = format!(
                "{name}: paused (spec.paused): {counts}; continue with `kubectl ordered unpause \
                 {name}{flags}`"
            );
            (exit, line)
        }
        Phase::Held(hold) => {
            let exit = match until {
                Some(Until::Held) => Some(Exit::Success),
                Some(Until::Complete) => None,
                None => hold.until.is_none().then_some(Exit::Held),
            };
            let until = hold.until.as_ref().map(|until| format!(", until {}", until.0));
            let place = match (of_hold(&hold, &found.spec), &hold.declared) {
                (Some(waits_for), _) => {
                    format!(", {waits_for}{}", until.as_deref().unwrap_or(", until resumed"))
                }
                (None, Some(_)) => until.unwrap_or_else(|| ", until resumed".to_owned()),
                (None, None) => format!(", {} that pod{}", side(hold.point), until.unwrap_or_default()),
            };
            let line = format!(
                "{name}: paused at {}{place}: {counts}; resume with `kubectl ordered resume {name} \
                 {}{flags}`",
                pause_point(&hold),
                hold.label()
            );
            (exit, line)
        }
    }
}

#[cfg(test)]
mod tests;
