//! `restart`: replaces all pods. It writes the annotation of the template that `kubectl rollout restart`
//! writes.

use anyhow::Result;
use ordereddeployment_wire::Family;
use serde_json::{Value, json};

use crate::client::{ConnectArgs, Connection, Target};
use crate::commands::template_change::TemplateChange;
use crate::terminal::escape::print_line;

const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// Replace all pods in order, with the same template
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered restart web

A restart is a rollout: it replaces pods in order, within maxSurge and maxUnavailable, and pauses at pause \
points. The command lists them.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?.with(args.target.dry_run);
    Ok(print_line(restart(&connection, &args.target.name).await?)?)
}

/// Writes the annotation. Returns the result and the next command.
pub(crate) async fn restart(connection: &Connection, name: &str) -> Result<String> {
    let now = connection.clock.now();
    let state = connection.state(Family::Ordered, name).await?;
    let mut template = state.deployment.spec.template.clone();
    // kubectl writes whole seconds.
    let second = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
    template.edit(|template| annotate(template, &second.to_string()));
    let change = TemplateChange { state: &state, verb: "restart", template, annotation: None };
    change.refuse_if_paused(&connection.flags)?;
    change.apply(connection, "restarted", "would be restarted").await
}

fn annotate(template: &mut Value, now: &str) {
    let object = |value: &mut Value| {
        if !value.is_object() {
            *value = json!({});
        }
    };
    object(&mut template["metadata"]);
    object(&mut template["metadata"]["annotations"]);
    template["metadata"]["annotations"][RESTARTED_AT] = now.into();
}

#[cfg(test)]
mod tests;
