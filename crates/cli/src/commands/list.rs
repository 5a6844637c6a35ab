//! `list`: one line per OrderedDeployment. Read-only.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use ordereddeployment_api::names::label::POD_TEMPLATE_HASH;
use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentStatus, OrderedReplicaSet};
use ordereddeployment_wire::Family;

use crate::client::ConnectArgs;
use crate::client::output::{self, Output};
use crate::client::reader::Scope;
use crate::terminal::escape::{escaped, print, print_data, print_stderr};
use crate::terminal::style::Paint;
use crate::terminal::table::{Dropped, REASON, Table, left, shortened, text_of};
use crate::view::age::age;
use crate::view::overview::images;
use crate::view::phase::Phase;
use crate::view::pod::ObservedPod;
use crate::view::tree::Drawing;

/// The columns that are left out if lines are too wide, in this order. `get` shows them.
const DROPPED: [Dropped; 3] = [("AGE", usize::MAX), ("UPDATED", usize::MAX), ("AVAILABLE", REASON)];

/// Why a pod of an object does not run, by namespace and name.
pub(crate) type Waiting = BTreeMap<(String, String), String>;

/// List OrderedDeployments, one per line, with their state
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  kubectl ordered list        in the namespace
  kubectl ordered list -A     in all namespaces

STATE is Complete, Rolling, Suspended, `Paused at` with the pod of the pause point, Paused (spec.paused), \
Failed, Adopting, Handing back, or `Waiting for controller` until the controller has observed the spec."
)]
pub(crate) struct Args {
    /// List the OrderedDeployments in all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// List those that this label selector selects
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// The output format; `wide` adds the images
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Output>,
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?;
    let namespace = (!args.all_namespaces).then_some(connection.namespace.as_str());
    if let Some(output) = output::for_programs(args.output) {
        let found =
            output::read(&output::raw(&connection.client, namespace), None, args.selector.as_deref()).await?;
        print_data(&output::text(&found, output)?)?;
        return Ok(());
    }
    let scope = Scope { family: Family::Ordered, namespace, name: None, selector: args.selector.as_deref() };
    let found = scope.list(&connection.client).await?;
    if found.is_empty() {
        print_stderr(scope.nothing());
        return Ok(());
    }
    let drawing = Drawing { wide: args.output == Some(Output::Wide), ..Drawing::of_stdout("") };
    let waiting = waiting(&scope.api(&connection.client)).await;
    let text = table(&found, &waiting, Timestamp::now(), args.all_namespaces, drawing);
    Ok(print(text)?)
}

/// Reads why pods are pending. Users who may not read pods see no reasons.
pub(crate) async fn waiting(pods: &Api<ObservedPod>) -> Waiting {
    let pending = ListParams::default().fields("status.phase=Pending");
    let pods = pods.list(&pending).await.map(|found| found.items).unwrap_or_default();
    pods.iter().filter_map(reason).collect()
}

fn reason(pod: &ObservedPod) -> Option<((String, String), String)> {
    let set = pod.owner_references().iter().find(|owner| owner.kind == OrderedReplicaSet::kind(&()))?;
    let hash = pod.labels().get(POD_TEMPLATE_HASH)?;
    // The name of a set is that of its object, then the hash.
    let name = set.name.strip_suffix(hash)?.strip_suffix('-')?;
    let reason = pod.detail.reason.clone()?;
    let why = match &pod.pod().unscheduled {
        Some(why) => format!("{reason}: {why}"),
        None => reason,
    };
    Some(((pod.namespace()?, name.to_owned()), why))
}

fn table(
    found: &[OrderedDeployment],
    waiting: &Waiting,
    now: Timestamp,
    namespaces: bool,
    Drawing { style, width, wide, .. }: Drawing<'_>,
) -> String {
    let width = width.filter(|_| !wide);
    let count = |count: fn(&OrderedDeploymentStatus) -> Option<i32>| {
        move |found: &OrderedDeployment| found.status.as_ref().and_then(count).unwrap_or(0).to_string()
    };
    let state = |found: &OrderedDeployment| {
        let phase = Phase::of(found);
        // The reason is cut at the end of a line, the state is not.
        let why = if wide { why(&phase, found, waiting) } else { String::new() };
        format!("{} {}{why}", phase.mark(style).0, phase.label())
    };
    let mut columns = vec![
        left("NAMESPACE", |found: &OrderedDeployment| found.namespace().unwrap_or_default()),
        left("NAME", ResourceExt::name_any),
        left("DESIRED", |found: &OrderedDeployment| found.spec.replicas.to_string()),
        left("UPDATED", count(|status| status.updated_replicas)),
        left("AVAILABLE", count(|status| status.available_replicas)),
        left("AGE", |found: &OrderedDeployment| {
            age(found.metadata.creation_timestamp.as_ref().map(|time| time.0), now)
        }),
        left("STATE", state),
        left("IMAGES", |found: &OrderedDeployment| images(&found.spec.template.value()).join(",")),
    ];
    columns.retain(|(heading, ..)| match *heading {
        "NAMESPACE" => namespaces,
        "IMAGES" => wide,
        _ => true,
    });
    let mut found: Vec<&OrderedDeployment> = found.iter().collect();
    found.sort_by_key(|deployment| (deployment.namespace(), deployment.name_any()));
    let table = Table::of(&columns, found.iter().copied()).fit(width, &DROPPED);
    let mut lines = vec![style.paint(Paint::Dim, &table.headings())];
    lines.extend(table.rows().zip(found).map(|(line, found)| {
        let phase = Phase::of(found);
        let why = if wide { String::new() } else { why(&phase, found, waiting) };
        let room = width.map_or(usize::MAX, |width| width.max(line.chars().count()));
        let line = shortened(format!("{line}{}", escaped(&why)), room, style);
        match phase.mark(style) {
            (mark, paint @ (Paint::Good | Paint::Title)) => line.replacen(mark, &style.paint(paint, mark), 1),
            (_, paint) => style.paint(paint, &line),
        }
    }));
    text_of(&lines)
}

/// Why the object is in this state, if it is not as it should be.
fn why(phase: &Phase, deployment: &OrderedDeployment, waiting: &Waiting) -> String {
    let key = (deployment.namespace().unwrap_or_default(), deployment.name_any());
    match (phase, waiting.get(&key)) {
        (Phase::Stalled(message) | Phase::DeadlineExceeded(message), _) => format!(": {message}"),
        (Phase::Rolling | Phase::Held(_) | Phase::Aborted(_), Some(why)) => format!(" ({why})"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
