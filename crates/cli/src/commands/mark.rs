//! `mark` and `unmark`: the delete priority and the pause point of pods. They write annotations of pods,
//! nothing else.

use std::time::Duration;

use anyhow::Result;
use kube::api::Patch;
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedReplicaSet;
use ordereddeployment_api::names::{annotation, pause_point};
use ordereddeployment_wire::{Family, PlainSet};
use serde_json::{Map, Value, json};

use crate::client::explain::explain;
use crate::client::{ConnectArgs, Connection, DryRunArgs, OfEither, of_either, pause_length, pod_name};
use crate::terminal::escape::print_line;
use crate::view::overview::Overview;
use crate::view::pause_points::some_of;
use crate::view::phase::pause_point;
use crate::view::pod::{ObservedPod, pods_in_words};
use crate::view::state::reference;

/// Set the delete priority or the pause point of pods
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered mark web-5d9c-x7k2p --priority 5          delete it before pods of lower priority
  kubectl ordered mark web-5d9c-x7k2p --pause before        pause the next rollout before it
  kubectl ordered mark web-5d9c-x7k2p --pause after --for 10m
  kubectl ordered mark pod/web-5d9c-x7k2p pod/web-5d9c-b9gk7 --priority -1

It writes the annotations ordereddeployment.io/delete-priority, pause-point and pause-duration, as `kubectl \
annotate` does. Without --priority or --pause, those annotations do not change. Without --for, the rollout \
pauses until it is resumed.")]
pub(crate) struct MarkArgs {
    /// The names of pods
    #[arg(value_name = "POD", required = true, value_parser = pod_name)]
    pods: Vec<String>,
    #[command(flatten)]
    marks: Marks,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

/// The values to write.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(group = clap::ArgGroup::new("mark").required(true).multiple(true).args(["priority", "pause"]))]
pub(crate) struct Marks {
    /// The delete priority: pods with a larger one are deleted first; the default is 0
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) priority: Option<i32>,
    /// Pause a rollout before this pod is deleted, or after
    #[arg(long, value_name = "SIDE")]
    pub(crate) pause: Option<Side>,
    /// How long to pause, such as 10m; without it, until the rollout is resumed
    #[arg(long = "for", value_name = "DURATION", requires = "pause", value_parser = pause_length)]
    pub(crate) length: Option<Duration>,
}

/// Before or after the pod. The variants have no doc comments, because clap would print them in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    Before,
    After,
}

/// Remove the delete priority and the pause point of pods
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered unmark web-5d9c-x7k2p
  kubectl ordered unmark --all web          all pods of web

It removes the annotations that `mark` writes, and the alias controller.alpha.kubernetes.io/delete-priority. \
A rollout that is paused at the pod continues.")]
pub(crate) struct UnmarkArgs {
    /// The names of pods
    #[arg(value_name = "POD", required_unless_present = "all", conflicts_with = "all",
        value_parser = pod_name)]
    pods: Vec<String>,
    /// Unmark all pods of this OrderedDeployment, or of deployment/NAME
    #[arg(long, value_name = "NAME", value_parser = of_either)]
    all: Option<OfEither>,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

pub(crate) async fn run(args: MarkArgs, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?.with(args.dry_run);
    for pod in &args.pods {
        print_line(mark(&connection, pod, args.marks).await?)?;
    }
    Ok(())
}

pub(crate) async fn run_unmark(args: UnmarkArgs, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?.with(args.dry_run);
    if let Some(OfEither { family, name }) = &args.all {
        print_line(unmark_all(&connection, *family, name).await?)?;
    }
    for pod in &args.pods {
        print_line(unmark(&connection, pod).await?)?;
    }
    Ok(())
}

/// Writes the annotations of one pod. Returns the result and the next command.
pub(crate) async fn mark(connection: &Connection, pod: &str, marks: Marks) -> Result<String> {
    let mut annotations = Map::new();
    let mut changes = Vec::new();
    if let Some(priority) = marks.priority {
        annotations.insert(annotation::DELETE_PRIORITY.to_owned(), priority.to_string().into());
        changes.push(format!("priority {priority}"));
    }
    if let Some(pause) = marks.pause {
        let side = match pause {
            Side::Before => pause_point::BEFORE,
            Side::After => pause_point::AFTER,
        };
        let length = marks.length;
        annotations.insert(annotation::PAUSE_POINT.to_owned(), side.into());
        annotations.insert(
            annotation::PAUSE_DURATION.to_owned(),
            length.map_or(Value::Null, |length| written(length).into()),
        );
        let length =
            length.map_or_else(|| "until resumed".to_owned(), |length| format!("for {}", written(length)));
        changes.push(format!("pause point {side} it, {length}"));
    }
    let marked = annotate(connection, pod, annotations).await;
    let marked = marked.map_err(|error| explained(connection, error, "mark", pod))?;
    if connection.dry_run.is_dry() {
        return Ok(format!("{pod}: would have {}{}", changes.join("; "), connection.dry_run.note()));
    }
    Ok(format!("{pod}: {}\n{}", changes.join("; "), place(connection, &marked, marks.pause).await))
}

pub(crate) async fn unmark(connection: &Connection, pod: &str) -> Result<String> {
    let unmarked = annotate(connection, pod, no_marks()).await;
    let unmarked = unmarked.map_err(|error| explained(connection, error, "unmark", pod))?;
    if connection.dry_run.is_dry() {
        return Ok(format!("{pod}: annotations would be removed{}", connection.dry_run.note()));
    }
    Ok(format!("{pod}: annotations removed\n{}", place(connection, &unmarked, None).await))
}

/// Removes the annotations of all pods of a deployment. A failure of one pod does not prevent the others.
pub(crate) async fn unmark_all(connection: &Connection, family: Family, name: &str) -> Result<String> {
    let state = connection.state(family, name).await?;
    let name = reference(family, name);
    let is_marked = |pod: &&ObservedPod| MARKS.iter().any(|key| pod.annotations().contains_key(*key));
    let pods: Vec<String> = state.pods.iter().filter(is_marked).map(ResourceExt::name_any).collect();
    let (mut unmarked, mut failed, mut first) = (Vec::new(), Vec::new(), None);
    for pod in pods {
        match annotate(connection, &pod, no_marks()).await {
            Ok(_) => unmarked.push(pod),
            // It was deleted meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                first.get_or_insert_with(|| explained(connection, error, "unmark", &pod));
                failed.push(pod);
            }
        }
    }
    let done = if connection.dry_run.is_dry() { "would be removed" } else { "removed" };
    if let Some(error) = first {
        let all = unmarked.len() + failed.len();
        let done = format!("{name}: annotations {done} from {} of {}", unmarked.len(), pods_in_words(all));
        return Err(error.context(format!("{done}, not from {}", some_of(&failed))));
    }
    if unmarked.is_empty() {
        return Ok(format!("{name}: no pod has marks"));
    }
    let (pods, note) = (pods_in_words(unmarked.len()), connection.dry_run.note());
    Ok(format!("{name}: annotations {done} from {pods}: {}{note}", some_of(&unmarked)))
}

const MARKS: [&str; 4] = [
    annotation::DELETE_PRIORITY,
    annotation::DELETE_PRIORITY_ALIAS,
    annotation::PAUSE_POINT,
    annotation::PAUSE_DURATION,
];

fn no_marks() -> Map<String, Value> {
    MARKS.into_iter().map(|key| (key.to_owned(), Value::Null)).collect()
}

async fn annotate(
    connection: &Connection,
    pod: &str,
    annotations: Map<String, Value>,
) -> kube::Result<ObservedPod> {
    let api: Api<ObservedPod> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    if connection.dry_run.sends() {
        api.patch(pod, &connection.dry_run.patch_params(), &patch).await
    } else {
        api.get(pod).await
    }
}

fn explained(connection: &Connection, error: kube::Error, what: &str, pod: &str) -> anyhow::Error {
    explain(error, &format!("cannot {what} pod {pod} in {}", connection.namespace))
}

/// The place of the pod in the order, what makes its new pause point useless, and the next command. The place
/// is left out if the user may not read the objects.
async fn place(connection: &Connection, pod: &ObservedPod, pause: Option<Side>) -> String {
    let flags = &connection.flags;
    let family =
        [Family::Ordered, Family::Plain].into_iter().find(|family| family.set_of(&pod.metadata).is_some());
    let Some(family) = family else {
        return "note: no OrderedDeployment and no ReplicaSet controls it: the annotations have no effect"
            .to_owned();
    };
    // From the state of its deployment, if it can be read; then what needs no state.
    let (mut lines, mut last) = (Vec::new(), Vec::new());
    if pause.is_some() && pod.pod().facts.priority.is_none() {
        last.push(format!(
            "note: it has no delete priority of its own, so its place can change until a rollout is there; \
             fix it with `kubectl ordered mark {} --priority N{flags}`",
            pod.name_any()
        ));
    }
    let found = owner(connection, pod, family).await;
    let name = found.as_ref().map_or_else(|| "NAME".to_owned(), |found| reference(family, found));
    last.push(match (&found, family) {
        (None, Family::Plain) => "note: its ReplicaSet has no Deployment, or cannot be read".to_owned(),
        _ => format!("`kubectl ordered order {name}{flags}` shows the order"),
    });
    let Some(found) = found else { return last.join("\n") };
    let Ok(state) = connection.state(family, &found).await else { return last.join("\n") };
    let overview = Overview::of(&state, "");
    if let Some(hold) = &overview.hold
        && hold.declared.is_none()
        && Some(&hold.pod_uid) == pod.metadata.uid.as_ref()
    {
        return format!(
            "{name}: paused at {}\n`kubectl ordered get {name}{flags}` shows its state",
            pause_point(hold)
        );
    }
    let order = overview.in_order();
    let row = order.iter().find(|row| Some(&*row.uid) == pod.metadata.uid.as_deref());
    if let Some(place) = row.and_then(|row| row.place) {
        lines.push(format!("{name}: it is number {place} of {} in the order", order.len()));
        if pause == Some(Side::After) && place == order.len() {
            lines.push("note: it is the last in the order: no rollout pauses after its last pod".to_owned());
        }
    } else if overview.is_rolling() {
        let place = "it is of the current revision; the annotations take effect after this rollout";
        lines.push(format!("{name}: {place}"));
    }
    lines.extend(state.doubt.iter().map(|doubt| format!("note: {doubt}")));
    lines.extend(last);
    lines.join("\n")
}

async fn owner(connection: &Connection, pod: &ObservedPod, family: Family) -> Option<String> {
    let set = family.set_of(&pod.metadata)?;
    let (client, namespace) = (connection.client.clone(), &connection.namespace);
    let set = match family {
        Family::Ordered => Api::<OrderedReplicaSet>::namespaced(client, namespace).get(&set.name).await,
        Family::Plain => {
            let found = Api::<PlainSet>::namespaced(client, namespace).get(&set.name).await;
            found.map(|set| set.object)
        }
    };
    Some(family.deployment_of(&set.ok()?.metadata)?.name.clone())
}

/// Formats a duration so that Go parses it.
fn written(length: Duration) -> String {
    let seconds = length.as_secs();
    match (length.subsec_millis(), seconds) {
        (0, 1..) if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        (0, 1..) if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        (0, _) => format!("{seconds}s"),
        (_, _) => format!("{}ms", length.as_millis()),
    }
}

#[cfg(test)]
mod tests;
