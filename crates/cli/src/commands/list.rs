//! `list`: one line per OrderedDeployment. Read-only.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use ordereddeployment_api::names::label::POD_TEMPLATE_HASH;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_wire::Family;

use crate::age::age;
use crate::client::ConnectArgs;
use crate::escape::{escaped, print, print_data, print_stderr};
use crate::exit::Exit;
use crate::explain::explain;
use crate::observe::Scope;
use crate::output::{self, Output};
use crate::phase::Phase;
use crate::pod::ObservedPod;
use crate::style::{Paint, Style, width_of_stdout};
use crate::table::{Align, Column, Dropped, REASON, Widths, chosen, fitting, shortened};

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

STATE is Complete, Rolling, Suspended, `Paused at` with the pod of the pause point, Paused (spec.paused), Failed, Adopting, \
Handing back, or `Waiting for controller` until the controller has observed the spec."
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
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let connection = args.connect.connect().await?;
    let namespace = (!args.all_namespaces).then_some(connection.namespace.as_str());
    if let Some(output @ (Output::Json | Output::Yaml | Output::Name)) = args.output {
        let found =
            output::read(&output::raw(&connection.client, namespace), None, args.selector.as_deref()).await?;
        print_data(&output::text(&found, output)?)?;
        return Ok(Exit::Success);
    }
    let scope = Scope { family: Family::Ordered, namespace, name: None, selector: args.selector.as_deref() };
    let api: Api<OrderedDeployment> = scope.api(&connection.client);
    let found = api.list(&output::selected(scope.selector)).await;
    let place = scope.place();
    let found = found
        .map_err(|error| explain(error, &format!("cannot list the OrderedDeployments of {place}")))?
        .items;
    if found.is_empty() {
        print_stderr(format_args!("No OrderedDeployments in {place}."));
        return Ok(Exit::Success);
    }
    let options = Options {
        namespaces: args.all_namespaces,
        wide: args.output == Some(Output::Wide),
        style: Style::of_stdout(),
        width: width_of_stdout(),
    };
    let waiting = waiting(&scope.api(&connection.client)).await;
    let text = table(&found, &waiting, Timestamp::now(), options);
    print(text)?;
    Ok(Exit::Success)
}

/// Reads why pods are pending. Users who may not read pods see no reasons.
pub(crate) async fn waiting(pods: &Api<ObservedPod>) -> Waiting {
    let pending = ListParams::default().fields("status.phase=Pending");
    let pods = pods.list(&pending).await.map(|found| found.items).unwrap_or_default();
    pods.iter().filter_map(reason).collect()
}

/// The object of a pod, and why the pod does not run.
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

/// How the table is drawn.
#[derive(Clone, Copy)]
struct Options {
    namespaces: bool,
    wide: bool,
    style: Style,
    width: Option<usize>,
}

/// The table, sorted by namespace and name.
fn table(found: &[OrderedDeployment], waiting: &Waiting, now: Timestamp, options: Options) -> String {
    let Options { namespaces, wide, style, width } = options;
    let column = |heading, align| Column { heading, align };
    let mut columns = vec![
        column("NAMESPACE", Align::Left),
        column("NAME", Align::Left),
        column("DESIRED", Align::Left),
        column("UPDATED", Align::Left),
        column("AVAILABLE", Align::Left),
        column("AGE", Align::Left),
        column("STATE", Align::Left),
        column("IMAGES", Align::Left),
    ];
    let shown = |index: usize| (index > 0 || namespaces) && (index < 7 || wide);
    let keep = |cells: Vec<String>| -> Vec<String> {
        let cells = cells.into_iter().enumerate();
        cells.filter(|(index, _)| shown(*index)).map(|(_, cell)| cell).collect()
    };
    columns = columns.into_iter().enumerate().filter(|(i, _)| shown(*i)).map(|(_, column)| column).collect();
    let mut found: Vec<&OrderedDeployment> = found.iter().collect();
    found.sort_by_key(|deployment| (deployment.namespace(), deployment.name_any()));
    let rows: Vec<(Phase, String, Vec<String>)> = found
        .into_iter()
        .map(|deployment| {
            let status = deployment.status.clone().unwrap_or_default();
            let count = |count: Option<i32>| count.unwrap_or(0).to_string();
            let state = Phase::of(deployment);
            let why = why(&state, deployment, waiting);
            let label = format!("{} {}", state.mark(style).0, state.label());
            // The reason is cut at the end of a line, the state is not.
            let (label, why) = if wide { (format!("{label}{why}"), String::new()) } else { (label, why) };
            let cells = vec![
                deployment.namespace().unwrap_or_default(),
                deployment.name_any(),
                deployment.spec.replicas.to_string(),
                count(status.updated_replicas),
                count(status.available_replicas),
                age(deployment.metadata.creation_timestamp.as_ref().map(|time| time.0), now),
                label,
                crate::overview::images(&deployment.spec.template.value()).join(","),
            ];
            (state, why, keep(cells))
        })
        .collect();
    let all: Vec<Vec<String>> = rows.iter().map(|(_, _, cells)| cells.clone()).collect();
    let kept = match width.filter(|_| !wide) {
        Some(width) => fitting(&columns, &all, width, &DROPPED),
        None => (0..columns.len()).collect(),
    };
    let columns: Vec<Column> = kept.iter().map(|index| columns[*index]).collect();
    let all: Vec<Vec<String>> = all.iter().map(|cells| chosen(cells, &kept)).collect();
    let widths = Widths::of(&columns, all.iter().map(Vec::as_slice));
    let mut lines = vec![style.paint(Paint::Dim, &widths.headings())];
    lines.extend(rows.iter().zip(&all).map(|((state, why, _), cells)| {
        let state_line = widths.row(cells);
        let room = state_line.chars().count();
        let line = format!("{state_line}{}", escaped(why));
        let line = match width.filter(|_| !wide) {
            Some(width) => shortened(line, width.max(room), style),
            None => line,
        };
        match state.mark(style) {
            (mark, paint @ (Paint::Good | Paint::Title)) => line.replacen(mark, &style.paint(paint, mark), 1),
            (_, paint) => style.paint(paint, &line),
        }
    }));
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
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
#[path = "list/tests.rs"]
mod tests;
