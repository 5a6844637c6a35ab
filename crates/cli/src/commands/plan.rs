//! `plan`: the whole rollout ahead of time, step by step, with its pause points. It reads and shows; it writes nothing.

mod change;
#[cfg(test)]
mod foretold;
mod json;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::{OrderedDeployment, parse_pause_duration};
use ordereddeployment_placement as placement;
use ordereddeployment_planner::{PodView, whole_seconds};
use ordereddeployment_preview::{Assumptions, Preview, preview};

use crate::client::{ConnectArgs, Connection, object_name};
use crate::compare::compare;
use crate::escape::{print, print_data};
use crate::explain::explain;
use crate::observe::{Reader, Seen};
use crate::tree::Drawing;
use change::{Change, Image};

/// What a plan promises of what then happens.
const PROMISE: &str =
    "the sequence of priorities and the pause points; within one priority the order is as of now";

/// How long a new pod takes where no pod tells.
const READY_AFTER: Duration = Duration::from_secs(10);
const GONE_AFTER: Duration = Duration::from_secs(5);
const RESUMED_AFTER: Duration = Duration::from_secs(60);

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

/// What cannot be known beforehand, as far as the user says it.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    ready: Option<Duration>,
    gone: Option<Duration>,
    resumed: Option<Duration>,
}

/// A preview, and what it is made of.
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) preview: Preview,
    pub(crate) ready_after: Duration,
    pub(crate) gone_after: Duration,
    pub(crate) resumed_after: Duration,
    /// Where the present pods told how long a new one takes.
    pub(crate) ready_after_learned: bool,
    pub(crate) notes: Vec<String>,
    /// The command that does it.
    pub(crate) next: Option<String>,
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
    let mut plan = plan(&connection.client, &seen, &change, given).await?;
    plan.next = change.command(&name, args.filename.as_deref(), &connection.flags);
    match args.output {
        Some(_) => print_data(&json::json(&plan)?)?,
        None => print(text::text(&plan, Drawing::of_stdout(&connection.flags)))?,
    }
    Ok(())
}

/// Looks ahead from what was seen, with that change.
async fn plan(client: &Client, seen: &Seen, change: &Change, given: Given) -> Result<Plan> {
    let mut notes = Vec::new();
    let mut observed = seen.observed();
    let deployment = change.apply(&observed.deployment)?;
    change::refuse_invalid(&deployment.spec)?;
    let name = deployment.name_any();
    let namespace = deployment.namespace().unwrap_or_default();
    observed.deployment = deployment.into();
    observed.compared = compare(client, &observed, &mut notes).await?;
    let learned = ready_after(seen);
    let placed_on = nodes(client, &mut notes).await?;
    let assumptions = Assumptions {
        ready_after: given.ready.or(learned).unwrap_or(READY_AFTER),
        gone_after: given.gone.unwrap_or(GONE_AFTER),
        resumed_after: given.resumed.unwrap_or(RESUMED_AFTER),
        others: if placed_on.is_empty() { BTreeMap::new() } else { others(client, seen, &mut notes).await? },
        nodes: placed_on,
    };
    for (name, facts) in &seen.nodes {
        observed.nodes.insert(name.as_str().into(), Some(facts.facts()));
    }
    Ok(Plan {
        name,
        namespace,
        preview: preview(&observed, &assumptions),
        ready_after: assumptions.ready_after,
        gone_after: assumptions.gone_after,
        resumed_after: assumptions.resumed_after,
        ready_after_learned: given.ready.is_none() && learned.is_some(),
        notes,
        next: None,
    })
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

/// How long the present pods took from their creation to Ready: the middle one of them, in whole seconds.
fn ready_after(seen: &Seen) -> Option<Duration> {
    let pods = seen.observed().pods;
    let mut took: Vec<i64> = pods
        .iter()
        .filter_map(|pod| Some(pod.facts.ready_since?.duration_since(pod.facts.created?).as_secs()))
        .filter(|seconds| (0..3600).contains(seconds))
        .collect();
    took.sort_unstable();
    took.get(took.len() / 2).and_then(|seconds| u64::try_from(*seconds).ok()).map(Duration::from_secs)
}

async fn nodes(client: &Client, told: &mut Vec<String>) -> Result<BTreeMap<String, placement::Node>> {
    match Api::<Node>::all(client.clone()).list(&ListParams::default()).await {
        Ok(nodes) => Ok(nodes.iter().map(|node| (node.name_any(), placement::Node::of(node))).collect()),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            told.push(format!(
                "the nodes cannot be read, so new pods are taken to find none: {}",
                status.message
            ));
            Ok(BTreeMap::new())
        }
        Err(error) => Err(explain(error, "cannot list the nodes")),
    }
}

/// How many pods that are not of this deployment each node has.
async fn others(client: &Client, seen: &Seen, told: &mut Vec<String>) -> Result<BTreeMap<String, usize>> {
    let own: Vec<&str> = seen.pods.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
    let mut load: BTreeMap<String, usize> = BTreeMap::new();
    let pods = match Api::<PodView>::all(client.clone()).list(&ListParams::default()).await {
        Ok(pods) => pods.items,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            told.push(format!("pods of other namespaces cannot be counted: {}", status.message));
            Vec::new()
        }
        Err(error) => return Err(explain(error, "cannot list the pods of all namespaces")),
    };
    for pod in &pods {
        let is_own = pod.metadata.uid.as_deref().is_some_and(|uid| own.contains(&uid));
        if let Some(node) = pod.node().filter(|_| !is_own && !matches!(pod.phase(), "Succeeded" | "Failed")) {
            *load.entry(node.to_owned()).or_default() += 1;
        }
    }
    Ok(load)
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
