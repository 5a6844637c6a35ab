//! `plan`: the whole rollout ahead of time, step by step, with its pause points. It reads and shows; it writes nothing.

mod change;
mod forecast;
#[cfg(test)]
mod foretold;
mod json;
mod text;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use kube::Api;
use ordereddeployment_api::{OrderedDeployment, parse_pause_duration};
use ordereddeployment_planner::whole_seconds;

use crate::client::{ConnectArgs, Connection, object_name};
use crate::escape::{print, print_data};
use crate::observe::Reader;
use crate::tree::Drawing;
use change::{Change, Image};
use forecast::Given;

/// Show what a change would do, step by step: who goes, in which order, and where the rollout halts
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered plan -f new.yaml                   what `kubectl apply -f new.yaml` would lead to
  kubectl ordered plan web --image web=nginx:1.29    a new image
  kubectl ordered plan web --replicas 4              another number of pods
  kubectl ordered plan web                           what is left of the rollout under way

Nothing is written: objects, pods and nodes are read, and the controller's own code decides on a model of them. \
Promised are the sequence of priorities and the pause points; within one priority the order is as of now. Times, and \
the nodes of new pods, are assumptions.")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment; with -f it may be left out
    #[arg(value_parser = object_name, required_unless_present = "filename")]
    name: Option<String>,
    /// A manifest with the OrderedDeployment as it is to be; - reads standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,
    /// With this many replicas
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    replicas: Option<i32>,
    /// With this image in that container; * is every container
    #[arg(long = "image", value_name = "CONTAINER=IMAGE", value_parser = change::image)]
    images: Vec<Image>,
    /// Print it as JSON
    #[arg(short, long, value_name = "FORMAT", value_parser = ["json"])]
    output: Option<String>,
    /// Assume that new pods are ready after this long, instead of as long as the present ones took
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ready_after: Option<Duration>,
    /// Assume that deleted pods are gone after this long [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    gone_after: Option<Duration>,
    /// Assume that somebody resumes each halt after this long [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    resumed_after: Option<Duration>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let manifest = args.filename.as_deref().map(read_manifest).transpose()?;
    let change = Change { manifest, replicas: args.replicas, images: args.images };
    let mut connect = args.connect;
    connect.namespace = change.namespace(connect.namespace)?;
    let connection = connect.connect().await?;
    let name = change.name(args.name.as_deref())?;
    let given = Given { ready: args.ready_after, gone: args.gone_after, resumed: args.resumed_after };
    let reader = Reader::new(&connection.client, &connection.namespace);
    if change.manifest.is_some() && is_missing(&connection, &name).await? {
        let told = change.told_as_new(&name, &connection.namespace)?;
        return Ok(print(format_args!("{told}\n"))?);
    }
    // Times in a status have whole seconds; so that those told add up, the plan begins at one.
    let seen = reader.one(&name, whole_seconds(connection.clock.now())).await?;
    let mut plan = forecast::plan(&connection.client, &seen, &change, given).await?;
    plan.next = change.command(&name, args.filename.as_deref(), &connection.flags);
    match args.output {
        Some(_) => print_data(&json::json(&plan)?)?,
        None => print(text::text(&plan, Drawing::of_stdout(&connection.flags)))?,
    }
    Ok(())
}

/// Whether the cluster knows the kind, and has none of that name.
async fn is_missing(connection: &Connection, name: &str) -> Result<bool> {
    let api: Api<OrderedDeployment> = Api::namespaced(connection.client.clone(), &connection.namespace);
    match api.get(name).await {
        // The details name an object only where the kind is known.
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Ok(status.details.as_ref().is_some_and(|details| !details.name.is_empty()))
        }
        // Whatever else is wrong is told by who reads it all.
        _ => Ok(false),
    }
}

fn read_manifest(path: &std::path::Path) -> Result<serde_json::Value> {
    let text = crate::input::read(path)?;
    change::manifest(&text).map_err(|error| anyhow!("{}: {error}", path.display()))
}

fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" || text == "0s" {
        return Ok(Duration::ZERO);
    }
    parse_pause_duration(text).ok_or_else(|| "give a duration such as 30s or 5m".to_owned())
}

#[cfg(test)]
mod tests;
