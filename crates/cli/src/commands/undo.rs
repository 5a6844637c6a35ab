//! `undo`: rolls back to an earlier template. It writes the template, and with `--through` a resume request.

use std::time::Duration;

use anyhow::{Result, bail};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::annotation;
use ordereddeployment_wire::Family;

use crate::client::reader;
use crate::client::{ConnectArgs, Connection, Target, Timeout, timeout};
use crate::commands::history::named;
use crate::commands::resume::{ResumeTarget, resume};
use crate::commands::template_change::{self, TemplateChange};
use crate::exit::TimedOut;
use crate::terminal::escape::print_line;
use crate::view::overview::images;
use crate::view::state::Revision;

/// Roll back to an earlier revision
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered undo web --dry-run         show the revision and the pause points of the rollback
  kubectl ordered undo web                   roll back to the last other revision that served
  kubectl ordered undo web --to-revision 3   roll back to revision 3
  kubectl ordered undo web --through         roll back without pausing at pause points

A rollback is a rollout: it replaces pods in order and pauses at their pause points. The command lists them; \
--through passes them all.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    options: UndoOptions,
}

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct UndoOptions {
    /// The revision to roll back to, as listed by `kubectl ordered history`; 0, the default, is the last
    /// other one that served
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true,
        allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) to_revision: i64,
    /// Pass all pause points of the rollback
    #[arg(long, visible_alias = "no-pause")]
    pub(crate) through: bool,
    /// How long --through waits for the controller; 0 is no limit
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    pub(crate) timeout: Timeout,
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?.with(args.target.dry_run);
    Ok(print_line(undo(&connection, &args.target.name, args.options).await?)?)
}

/// Writes the template. Returns the result and the next command.
pub(crate) async fn undo(connection: &Connection, name: &str, options: UndoOptions) -> Result<String> {
    let state = connection.state(Family::Ordered, name).await?;
    let revisions = reader::revisions(connection, &state.deployment).await?;
    let target = target(&revisions, options.to_revision, (name, &connection.flags))?;
    let flags = &connection.flags;
    if target.current {
        return Ok(format!(
            "{name}: has the template of revision {} already\n`kubectl ordered get {name}{flags}` shows its \
             state",
            target.number
        ));
    }
    let change = TemplateChange {
        state: &state,
        verb: "undo",
        template: target.template.clone(),
        annotation: Some((annotation::CHANGE_CAUSE, target.cause.clone())),
    };
    change.refuse_if_paused(flags)?;
    let (listed, points) = change.pause_points();
    let to = format!("revision {} ({})", target.number, images(&target.template.value()).join(", "));
    let written = change.write(connection).await?;
    if connection.dry_run.is_dry() {
        let flags = format!("{}{flags}", if options.through { " --through" } else { "" });
        return Ok(format!(
            "{name}: would roll back to {to}{}\n{listed}\napply with `kubectl ordered undo {name} \
             --to-revision {}{flags}`",
            connection.dry_run.note(),
            target.number
        ));
    }
    let done = format!("{name}: rolling back to {to}\n{listed}");
    if points == 0 || !options.through {
        return Ok(format!("{done}\n{}", template_change::next_command(name, flags, points)));
    }
    let limit = options.timeout.0.unwrap_or(Duration::MAX);
    let passing = async {
        // A resume before the controller has started the rollout would be for the previous one.
        let generation = written.and_then(|written| written.metadata.generation);
        let has_started = |found: &OrderedDeployment| {
            found.status.as_ref().and_then(|status| status.observed_generation) >= generation
        };
        connection.until(name, has_started).await?;
        resume(connection, name, ResumeTarget::All(None), Some(Duration::MAX)).await
    };
    let passed = tokio::time::timeout(limit, passing).await.map_err(|_| {
        TimedOut(format!(
            "{name}: rolling back to {to}, but timed out waiting for the controller ({} s)\nhint: is \
             ordered-controller-manager running? Then pass the pause points with `kubectl ordered resume \
             {name} --all{flags}`",
            limit.as_secs()
        ))
    })?;
    Ok(format!("{done}\n{}", passed?))
}

/// The revision of that number; 0 is the last other one that served.
pub(crate) fn target<'a>(
    revisions: &'a [Revision],
    number: i64,
    (name, flags): (&str, &str),
) -> Result<&'a Revision> {
    if number > 0 {
        return named(revisions, number, name);
    }
    if let Some(found) = revisions.iter().find(|revision| revision.back) {
        return Ok(found);
    }
    if revisions.iter().all(|revision| revision.current) {
        bail!(
            "{name} has no other revision to roll back to\nhint: `kubectl ordered history {name}{flags}` \
             lists them"
        );
    }
    bail!(
        "{name} has no other revision that served\nhint: roll back to one of them with `kubectl ordered undo \
         {name} --to-revision N{flags}`; `kubectl ordered history {name}{flags}` lists them"
    );
}

#[cfg(test)]
mod tests;
