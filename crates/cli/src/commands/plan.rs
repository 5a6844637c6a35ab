//! `plan`: previews a rollout step by step, with its pause points. Read-only.

mod forecast;
mod json;
mod spec_change;
mod text;

use std::path::PathBuf;

use anyhow::{Context, Result};
use kube::Client;
use ordereddeployment_planner::whole_seconds;
use ordereddeployment_wire::Family;
use serde_json::Value;

use crate::client::output::{self, Output};
use crate::client::reader;
use crate::client::{ConnectArgs, Connection, object_name};
use crate::commands::set::pair;
use crate::terminal::escape::{print, print_data, print_line};
use crate::view::state::ObservedState;
use crate::view::tree::{Drawing, Fold};
use forecast::AssumptionFlags;
pub(crate) use forecast::duration;
use spec_change::SpecChange;

/// Preview a change step by step: which pods are deleted, in which order, and where the rollout pauses
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered plan -f new.yaml                   preview `kubectl apply -f new.yaml`
  kubectl ordered plan web --image web=nginx:1.29    preview a new image
  kubectl ordered plan web --replicas 4              preview another number of replicas
  kubectl ordered plan web                           preview the rest of the current rollout

Nothing is written: the command reads objects, pods and nodes, and runs the controller's code on a model of \
them. The order by priority and the pause points are guaranteed; within one priority, the order is the \
current one. Times, and the nodes of new pods, are assumptions.")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment; optional with -f
    #[arg(value_parser = object_name, required_unless_present = "filename")]
    name: Option<String>,
    /// A manifest with the new OrderedDeployment; - is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,
    /// The new number of replicas
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(0..))]
    replicas: Option<i32>,
    /// A new image for a container; * is all containers
    #[arg(long = "image", value_name = "CONTAINER=IMAGE", value_parser = pair)]
    images: Vec<(String, String)>,
    /// Show all steps of long plans
    #[arg(long)]
    all: bool,
    /// The output format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Output>,
    #[command(flatten)]
    assumptions: AssumptionFlags,
}

pub(crate) async fn run(args: Args, mut connect: ConnectArgs) -> Result<()> {
    let read = |path: &PathBuf| {
        let text = crate::input::read(path)?;
        spec_change::manifest(&text).with_context(|| path.display().to_string())
    };
    let manifest = args.filename.as_ref().map(read).transpose()?;
    let change = SpecChange { manifest, replicas: args.replicas, images: args.images };
    connect.namespace = change.namespace(connect.namespace)?;
    let connection = connect.connect().await?;
    let name = change.name(args.name.as_deref())?;
    if change.manifest.is_some() && is_missing(&connection, &name).await? {
        let text = change.describe_creation(&name, &connection.namespace)?;
        return Ok(print_line(text)?);
    }
    // Times in a status are whole seconds. With them the printed times are consistent.
    let now = whole_seconds(connection.clock.now());
    let named = (connection.namespace.as_str(), name.as_str());
    let state = reader::one(&connection.client, Family::Ordered, named, now).await?;
    let mut plan = forecast::plan(&connection.client, &state, &change, args.assumptions).await?;
    plan.next = change.command(&name, args.filename.as_deref(), &connection.flags);
    let fold = Fold { all: args.all, ..Fold::default() };
    if let Some(output) = output::for_programs(args.output) {
        let object = (output::OBJECTS, [name.as_str()]);
        return Ok(print_data(&output::data(&json::json(&plan), output, object)?)?);
    }
    let drawing = Drawing { fold, ..Drawing::of_stdout(&connection.flags) };
    // What is left is `wide`.
    let width = drawing.width.filter(|_| args.output.is_none());
    Ok(print(text::text(&plan, Drawing { width, ..drawing }))?)
}

pub(crate) async fn rest_of(
    client: &kube::Client,
    state: &ObservedState,
    drawing: Drawing<'_>,
) -> Result<String> {
    let state = ObservedState { now: whole_seconds(state.now), ..state.clone() };
    let plan = forecast::plan(client, &state, &SpecChange::default(), AssumptionFlags::default()).await?;
    Ok(text::text(&plan, drawing))
}

/// The timeline of the current rollout, or of a rollout to these images, each `container=image`.
pub(crate) async fn timeline(client: &Client, state: &ObservedState, images: &[String]) -> Result<Value> {
    let images = images.iter().map(|text| pair(text)).collect::<Result<_>>()?;
    let change = SpecChange { images, ..SpecChange::default() };
    let plan = forecast::plan(client, state, &change, AssumptionFlags::default()).await?;
    Ok(json::timeline(&plan))
}

/// Whether the CRD is installed and the object does not exist.
async fn is_missing(connection: &Connection, name: &str) -> Result<bool> {
    match connection.deployments().get(name).await {
        // The details of the status name the object only if the CRD is installed.
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Ok(status.details.as_ref().is_some_and(|details| !details.name.is_empty()))
        }
        // The next read reports other errors.
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests;
