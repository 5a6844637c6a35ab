//! `undo`: back to an earlier template, which is a rollout of its own. It writes the template, and with `--through` a resume.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use kube::Api;
use kube_runtime::wait::await_condition;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::annotation;

use crate::ahead;
use crate::change::{self, Change};
use crate::client::{ConnectArgs, Connection, Timeout, object_name, timeout};
use crate::commands::history::named;
use crate::commands::resume::{Which, resume};
use crate::escape::print;
use crate::exit::{Ended, Exit};
use crate::observe::Reader;
use crate::overview::images;
use crate::revisions::{self, Revision};

/// Go back to an earlier revision
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered undo web --dry-run         where it would go, and the pause points ahead
  kubectl ordered undo web                   back to the revision before
  kubectl ordered undo web --to-revision 3   back to revision 3
  kubectl ordered undo web --through         and halt nowhere on the way

An undo is a rollout: in order, and it halts at pause points on the pods that it replaces. They are listed; --through \
passes them all.")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment
    #[arg(value_parser = object_name)]
    name: String,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Where to, and how.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct How {
    /// The revision to go back to, as `kubectl ordered history` lists them; 0, as without it, is the one before
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) to_revision: i64,
    /// Pass all pause points on the way
    #[arg(long)]
    pub(crate) through: bool,
    /// Tell what would be done, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long --through waits for the controller; 0 waits for ever
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    pub(crate) timeout: Timeout,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let connection = args.connect.connect().await?;
    print(format_args!("{}\n", undo(&connection, &args.name, args.how).await?))?;
    Ok(Exit::Done)
}

/// Writes the template. What came of it, and what to do next.
pub(crate) async fn undo(connection: &Connection, name: &str, how: How) -> Result<String> {
    let seen =
        Reader::new(&connection.client, &connection.namespace).one(name, connection.clock.now()).await?;
    let revisions = revisions::read(connection, &seen.deployment).await?;
    let target = target(&revisions, how.to_revision, (name, &connection.flags))?;
    let flags = &connection.flags;
    if target.current {
        return Ok(format!(
            "{name}: has the template of revision {} already\n`kubectl ordered get {name}{flags}` shows where it stands",
            target.number
        ));
    }
    let doing = format!("cannot undo {name} in {}", connection.namespace);
    let change = Change {
        seen: &seen,
        name,
        template: target.template.clone(),
        annotation: Some((annotation::CHANGE_CAUSE, target.cause.clone())),
        doing: &doing,
    };
    change.refuse_if_paused(flags)?;
    let points = change.ahead();
    let listed = ahead::told(&points);
    let to = format!("revision {} ({})", target.number, images(&target.template.value()).join(", "));
    if how.dry_run {
        let flags = format!("{}{flags}", if how.through { " --through" } else { "" });
        return Ok(format!(
            "{name}: would go back to {to}\n{listed}\ndo it with `kubectl ordered undo {name} --to-revision {}{flags}`",
            target.number
        ));
    }
    let written = change.write(connection).await?;
    let done = format!("{name}: goes back to {to}\n{listed}");
    if points.is_empty() || !how.through {
        return Ok(format!("{done}\n{}", change::next(name, flags, &points)));
    }
    let limit = how.timeout.0.unwrap_or(Duration::MAX);
    let passing = async {
        begun(connection, name, written.metadata.generation.unwrap_or(0)).await?;
        resume(connection, name, Which::All, Some(Duration::MAX)).await
    };
    let passed = tokio::time::timeout(limit, passing).await.map_err(|_| {
        Ended::timed_out(format!(
            "{name}: goes back to {to}, but the controller has not taken it within {} s\nhint: is ordered-controller-manager running? Then pass the points with `kubectl ordered resume {name} --all{flags}`",
            limit.as_secs()
        ))
    })?;
    Ok(format!("{done}\n{}", passed?))
}

/// Waits until the controller has begun the rollout: until then a resume would be one of the rollout before.
async fn begun(connection: &Connection, name: &str, generation: i64) -> Result<()> {
    let api: Api<OrderedDeployment> = Api::namespaced(connection.watching.clone(), &connection.namespace);
    let seen = await_condition(api, name, |found: Option<&OrderedDeployment>| {
        let status = found.map(|found| found.status.clone().unwrap_or_default());
        status.is_none_or(|status| status.observed_generation.unwrap_or(0) >= generation)
    });
    match seen.await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(anyhow!("{name} was deleted meanwhile")),
        Err(error) => Err(anyhow!("cannot follow {name}: {error}")),
    }
}

/// The revision of that number; 0 is the newest that is not current.
fn target<'a>(revisions: &'a [Revision], number: i64, (name, flags): (&str, &str)) -> Result<&'a Revision> {
    if number > 0 {
        return named(revisions, number, name);
    }
    let Some(found) = revisions.iter().find(|revision| !revision.current) else {
        bail!(
            "{name} has no other revision to go back to\nhint: `kubectl ordered history {name}{flags}` lists them"
        );
    };
    Ok(found)
}

#[cfg(test)]
#[path = "undo/tests.rs"]
mod tests;
