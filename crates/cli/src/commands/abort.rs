//! `abort` requests that the controller rolls the pods back to the last complete revision, `retry` that it
//! starts the aborted rollout again. They write `status.abortRequested` and `status.retryRequested`, and wait
//! for the controller.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use ordereddeployment_api::{Action, OrderedDeploymentStatus};

use crate::client::reader::revisions;
use crate::client::{ConnectArgs, Connection, Target, Timeout, timeout};
use crate::commands::request::{StatusRequest, next_command};
use crate::terminal::escape::print_line;
use crate::view::phase::aborted;

/// The object of a request, and how long it takes at most.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    target: Target,
    /// How long to wait for the controller; 0 does not wait
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    timeout: Timeout,
}

/// Abort a rollout: roll its pods back to the last complete revision
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered abort web    roll the pods back to the last complete revision
  kubectl ordered retry web    start the aborted rollout again

The spec does not change: it keeps the template of the aborted revision. An abort ignores pause points, and \
deletes pods that are not available first. It ends when the template is changed, such as by `undo`, or with \
`retry`.
`undo` rolls a complete rollout back.")]
pub(crate) struct AbortArgs {
    #[command(flatten)]
    request: RequestArgs,
}

/// Start an aborted rollout again
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered retry web    start the aborted rollout of web again

The rollout gets a new revision number and pauses at all its pause points again.")]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    request: RequestArgs,
}

pub(crate) async fn run(args: AbortArgs, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?.with(args.request.target.dry_run);
    let text = abort(&connection, &args.request.target.name, None, args.request.timeout.0).await?;
    Ok(print_line(text)?)
}

pub(crate) async fn run_retry(args: RetryArgs, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?.with(args.request.target.dry_run);
    let text = retry(&connection, &args.request.target.name, None, args.request.timeout.0).await?;
    Ok(print_line(text)?)
}

/// Requests it and waits for the result. `seen` is the revision that a page has shown: no other is aborted.
pub(crate) async fn abort(
    connection: &Connection,
    name: &str,
    seen: Option<i64>,
    limit: Option<Duration>,
) -> Result<String> {
    let flags = &connection.flags;
    let ask = StatusRequest::new(connection, name, "abort");
    let found = ask.read(seen).await?;
    let status = found.status.clone().unwrap_or_default();
    if let Some(aborted) = aborted(&status) {
        let next = next((name, flags), found.spec.paused);
        return Ok(format!(
            "{name}: revision {} is already aborted, back to revision {}\n{next}",
            aborted.revision, aborted.to
        ));
    }
    let revision = abortable((name, flags), &status)?;
    let revisions = revisions(connection, &found).await?;
    if !revisions.is_empty() && !revisions.iter().any(|revision| revision.back) {
        return Err(nothing_served((name, flags), revision));
    }
    let what = format!("abort of revision {revision}");
    let result = |after: &_, paused| result((name, flags), revision, after, paused);
    ask.send(&what, ("abortRequested", revision.into()), limit, result).await
}

/// The revision of the rollout that can be aborted; else why there is none.
pub(crate) fn abortable((name, flags): (&str, &str), status: &OrderedDeploymentStatus) -> Result<i64> {
    let Some(rollout) = &status.rollout else {
        bail!(
            "{name} has no rollout to abort\nhint: `kubectl ordered undo {name}{flags}` rolls back to an \
             earlier revision"
        );
    };
    let revision = rollout.revision;
    if rollout.completed {
        bail!(
            "{name} is complete at revision {revision}: no rollout to abort\nhint: roll back with `kubectl \
             ordered undo {name}{flags}`"
        );
    }
    if rollout.from.is_none() {
        return Err(nothing_served((name, flags), revision));
    }
    Ok(revision)
}

fn nothing_served((name, flags): (&str, &str), revision: i64) -> anyhow::Error {
    anyhow!(
        "{name} has no earlier complete revision to roll back to: the rollout to revision {revision} cannot \
         be aborted\nhint: change the template, or roll back to another revision with `kubectl ordered undo \
         {name} --to-revision N{flags}`; `kubectl ordered history {name}{flags}` lists them"
    )
}

fn result(
    (name, flags): (&str, &str),
    revision: i64,
    after: &OrderedDeploymentStatus,
    paused: bool,
) -> Result<String> {
    if let Some(aborted) = aborted(after).filter(|aborted| aborted.revision == revision) {
        let next = next((name, flags), paused);
        return Ok(format!(
            "{name}: aborted revision {revision}; rolling back to revision {}\n{next}",
            aborted.to
        ));
    }
    let now = after.rollout.as_ref().map_or(0, |rollout| rollout.revision);
    if now != revision {
        bail!(
            "{name}: revision {revision} was not aborted: the rollout to revision {now} has started \
             since\nhint: `kubectl ordered get {name}{flags}` shows its state"
        );
    }
    abortable((name, flags), after)?;
    // What is left: the controller could not find the set.
    let to = after.rollout.as_ref().and_then(|rollout| rollout.from.as_ref()).map_or(0, |from| from.revision);
    Err(anyhow!(
        "{name}: the controller ignored the request to abort revision {revision}: the set of revision {to}, \
         the last complete one, is gone\nhint: roll back to another revision with `kubectl ordered undo \
         {name} --to-revision N{flags}`; `kubectl ordered history {name}{flags}` lists them"
    ))
}

fn next((name, flags): (&str, &str), paused: bool) -> String {
    let first = if paused {
        format!("no pod is replaced until `kubectl ordered unpause {name}{flags}` (spec.paused)")
    } else {
        next_command((name, flags), None, false)
    };
    format!("{first}\nstart the rollout again with `kubectl ordered retry {name}{flags}`")
}

/// Requests it and waits for the result. `seen` is the revision that a page has shown: no other is retried.
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
    let result = |after: &_, paused| retry_result((name, flags), revision, after, paused);
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

fn retry_result(
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
