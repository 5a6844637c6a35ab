//! `restart`: a rollout to the same template. It writes one annotation of the template, the one that kubectl writes.

use anyhow::Result;
use serde_json::{Value, json};

use crate::ahead;
use crate::change::{self, Change};
use crate::client::{ConnectArgs, Connection, object_name};
use crate::escape::print;
use crate::exit::Exit;
use crate::observe::Reader;

/// What kubectl writes too: a tool that knows it knows this restart.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// Replace all pods, in order, by new ones of the same template
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered restart web

It is a rollout: in order, within maxSurge and maxUnavailable, and it halts at pause points, which are listed.")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment
    #[arg(value_parser = object_name)]
    name: String,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let connection = args.connect.connect().await?;
    print(format_args!("{}\n", restart(&connection, &args.name).await?))?;
    Ok(Exit::Done)
}

/// Writes the annotation. What came of it, and what to do next.
pub(crate) async fn restart(connection: &Connection, name: &str) -> Result<String> {
    let now = connection.clock.now();
    let seen = Reader::new(&connection.client, &connection.namespace).one(name, now).await?;
    let mut template = seen.deployment.spec.template.clone();
    // Whole seconds, as kubectl writes it.
    let second = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
    template.edit(|template| annotate(template, &second.to_string()));
    let doing = format!("cannot restart {name} in {}", connection.namespace);
    let change = Change { seen: &seen, name, template, annotation: None, doing: &doing };
    change.refuse_if_paused(&connection.flags)?;
    let points = change.ahead();
    change.write(connection).await?;
    Ok(format!(
        "{name}: restarted\n{}\n{}",
        ahead::told(&points),
        change::next(name, &connection.flags, &points)
    ))
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
#[path = "restart/tests.rs"]
mod tests;
