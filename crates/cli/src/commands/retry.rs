//! `retry`: requests that the controller starts an aborted rollout again. It writes `status.retryRequested`
//! and waits for the controller.

use std::time::Duration;

use anyhow::{Result, anyhow};
use ordereddeployment_api::{Action, OrderedDeploymentStatus};

use crate::client::{ConnectArgs, Connection, Target, Timeout, timeout};
use crate::commands::request::{StatusRequest, next_command};
use crate::terminal::escape::print_line;
use crate::view::phase::aborted;

/// Start an aborted rollout again
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered retry web    start the aborted rollout of web again

The rollout gets a new revision number and pauses at all its pause points again.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// How long to wait for the controller; 0 does not wait
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    timeout: Timeout,
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?.with(args.target.dry_run);
    let text = retry(&connection, &args.target.name, None, args.timeout.0).await?;
    Ok(print_line(text)?)
}

/// Writes the request and waits until the controller has handled it. Returns the result and the next command.
/// `seen` is the revision that a page has shown: no other one is started again.
pub(crate) async fn retry(
    connection: &Connection,
    name: &str,
    seen: Option<i64>,
    limit: Option<Duration>,
) -> Result<String> {
    let flags = &connection.flags;
    let ask = StatusRequest::new(connection, name, "retry");
    let status = ask.read(seen).await?.status.unwrap_or_default();
    let revision = retriable((name, flags), &status)?;
    let what = format!("retry of revision {revision}");
    let result = |after: &_, paused| result((name, flags), revision, after, paused);
    ask.send(&what, ("retryRequested", revision.into()), limit, result).await
}

/// The revision of the aborted rollout; else why there is none to start again.
pub(crate) fn retriable((name, flags): (&str, &str), status: &OrderedDeploymentStatus) -> Result<i64> {
    aborted(status).map(|aborted| aborted.revision).ok_or_else(|| {
        anyhow!(
            "{name} is not aborted: nothing to start again\nhint: `kubectl ordered get {name}{flags}` shows \
             its state"
        )
    })
}

fn result(
    (name, flags): (&str, &str),
    revision: i64,
    after: &OrderedDeploymentStatus,
    paused: bool,
) -> Result<String> {
    let now = after.rollout.as_ref().map_or(0, |rollout| rollout.revision);
    let why = if paused { " (spec.paused)" } else { "" };
    let next = next_command((name, flags), None, paused) + why;
    let mut entries = after.history.iter().flatten();
    if entries.any(|entry| entry.action == Action::Retried && entry.revision == now) {
        return Ok(format!("{name}: revision {revision} is started again, as revision {now}\n{next}"));
    }
    if now != revision {
        return Ok(format!(
            "{name}: not started again: the template was changed, and the rollout to revision {now} has \
             started\n{next}"
        ));
    }
    Err(anyhow!(
        "{name}: the controller ignored the request to start revision {revision} again\nhint: see the event \
         RequestIgnored in `kubectl describe od {name}{flags}`"
    ))
}

#[cfg(test)]
mod tests;
