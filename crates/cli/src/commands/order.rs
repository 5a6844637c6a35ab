//! `order`: shows the order of the pods, and which of them a scale-down would delete. Read-only.

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::client::output::{self, Output};
use crate::client::{ConnectArgs, OfEither, of_either};
use crate::terminal::escape::{escaped, print, print_data};
use crate::terminal::style::Paint;
use crate::terminal::table::{Dropped, REASON, text_of, wrapped};
use crate::view::overview::{Overview, PodRow};
use crate::view::phase::side;
use crate::view::pod::pods_in_words;
use crate::view::state::ObservedState;
use crate::view::tree::{Drawing, pod_columns, pod_lines, with_barrier};
use ordereddeployment_preview::{scale_down, scale_down_plain};
use ordereddeployment_wire::Family;

/// The columns that are left out if lines are too wide, in this order. The reason begins with the priority.
const DROPPED: [Dropped; 3] = [("PRIORITY", REASON), ("POOL", REASON), ("NODE", REASON)];

/// Show the order in which pods are deleted, with the reason for each place
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered order web                 the current order
  kubectl ordered order web --replicas 8    the pods that a scale-down to 8 would delete
  kubectl ordered order deployment/web      the order of a plain Deployment

Within one priority the order is the current one: it depends on ages and on the number of pods per node, \
which change.
deployment/web is a plain Deployment whose ReplicaSets ordered-controller-manager reconciles. Rules by node \
of the controller's configuration are not known here.")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment, or deployment/NAME
    #[arg(value_parser = of_either)]
    name: OfEither,
    /// Show the pods that a scale-down to this many replicas would delete
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(0..))]
    replicas: Option<i32>,
    /// The node label for the pool of a node
    #[arg(long, value_name = "LABEL", default_value = "node.usage")]
    pool_label: String,
    /// The output format; `wide` shows all columns, `name` prints the pods in order
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "replicas")]
    output: Option<Output>,
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?;
    let OfEither { family, name } = &args.name;
    let state = connection.state(*family, name).await?;
    let overview = Overview::of(&state, &args.pool_label);
    if let Some(output) = output::for_programs(args.output) {
        let rows = overview.in_order();
        let pods = ("pod", rows.iter().map(|row| row.name.as_str()));
        return Ok(print_data(&output::data(&json(&overview), output, pods)?)?);
    }
    let mut drawing = Drawing::of_stdout(&connection.flags);
    // What is left is `wide`.
    drawing.width = drawing.width.filter(|_| args.output.is_none());
    let text = match args.replicas {
        None => order(&overview, drawing),
        Some(replicas) => preview(&state, &overview, replicas, drawing)?,
    };
    Ok(print(text)?)
}

fn json(overview: &Overview) -> Value {
    let pods = overview.in_order().into_iter().map(|row| {
        json!({
            "place": row.place, "name": row.name, "uid": row.uid, "node": row.node, "pool": row.pool,
            "priority": row.priority, "ready": row.ready, "why": row.why,
        })
    });
    let barrier = overview.barrier.as_ref().map(|barrier| {
        json!({
            "name": barrier.declared, "pod": barrier.pod, "side": side(barrier.side), "held": barrier.reached,
        })
    });
    json!({
        "name": overview.name, "namespace": overview.namespace, "rolling": overview.is_rolling(),
        "pods": pods.collect::<Vec<_>>(), "pausePoint": barrier, "notes": overview.notes,
    })
}

pub(crate) fn order(overview: &Overview, drawing: Drawing<'_>) -> String {
    let style = drawing.style;
    let rows = overview.in_order();
    if rows.is_empty() {
        return format!("{} has no active pods.\n", overview.reference());
    }
    let which = if overview.is_rolling() {
        format!("{} of older revisions, which the rollout replaces", pods_in_words(rows.len()))
    } else {
        pods_in_words(rows.len())
    };
    let mut lines =
        vec![format!("{}: {which}, in deletion order", style.paint(Paint::Title, &overview.reference()))];
    lines.extend(notes(overview, drawing));
    let (headings, mut pods) = columns(overview, &rows, drawing);
    lines.push(style.paint(Paint::Dim, &headings));
    for row in &rows {
        let pod = pods.remove(&*row.uid).unwrap_or_default();
        lines.extend(with_barrier(pod, row, overview, style, drawing.width));
    }
    lines.extend(movable(&rows).into_iter().flat_map(|note| {
        let note =
            format!("note: {note}; `kubectl ordered mark POD --priority N{}` fixes a place", drawing.flags);
        wrapped(&note, drawing.width, "  ")
    }));
    text_of(&lines)
}

fn notes(overview: &Overview, drawing: Drawing<'_>) -> impl Iterator<Item = String> {
    let what = drawing.style.paint(Paint::Warn, "note:");
    overview.notes.iter().map(move |note| format!("{what} {}", escaped(note)))
}

/// The places whose pods share a priority: only the order of priorities stays as it is.
fn movable(rows: &[&PodRow]) -> Option<String> {
    let groups = rows.chunk_by(|one, next| one.priority == next.priority).filter(|group| group.len() > 1);
    let places: Vec<String> = groups
        .filter_map(|group| Some((group.first()?.place?, group.last()?.place?)))
        .map(|(first, last)| format!("{first} {} {last}", if first + 1 == last { "and" } else { "to" }))
        .collect();
    let text = places.join(", ");
    (!text.is_empty()).then(|| {
        format!(
            "the pods at places {text} have equal priorities, and can change places until they are deleted"
        )
    })
}

pub(crate) fn preview(
    state: &ObservedState,
    overview: &Overview,
    replicas: i32,
    drawing: Drawing<'_>,
) -> Result<String> {
    let style = drawing.style;
    let name = style.paint(Paint::Title, &overview.reference());
    let deleted = match state.family {
        Family::Ordered => scale_down(&state.observed(), replicas),
        Family::Plain => scale_down_plain(&state.observed(), replicas).ok_or_else(|| {
            anyhow!(
                "{} is in a rollout: the Deployment controller decides how many pods of each ReplicaSet a \
                 scale-down deletes\nhint: try again when its rollout is complete",
                overview.reference()
            )
        })?,
    };
    let active: Vec<&PodRow> = overview.pods().filter(|row| row.is_active()).collect();
    let by_uid: BTreeMap<&str, &PodRow> = active.iter().map(|row| (&*row.uid, *row)).collect();
    let going: Vec<&PodRow> = deleted.iter().filter_map(|uid| by_uid.get(&**uid).copied()).collect();
    let mut staying: Vec<&PodRow> =
        active.iter().copied().filter(|row| !deleted.contains(&row.uid)).collect();
    staying.sort_by(|first, second| (first.place, &first.name).cmp(&(second.place, &second.name)));
    let from = overview.desired;
    if going.is_empty() {
        let why = if replicas >= from { "not a scale-down" } else { "no pod can be deleted" };
        return Ok(format!("{name}: scaling from {from} to {replicas} would delete no pod: {why}.\n"));
    }
    let mut lines = vec![format!(
        "{name}: scaling from {from} to {replicas} would delete {}",
        pods_in_words(going.len())
    )];
    lines.extend(notes(overview, drawing));
    let (headings, mut pods) = columns(overview, &active, drawing);
    lines.push(style.paint(Paint::Dim, &headings));
    lines.extend(going.iter().filter_map(|row| pods.remove(&*row.uid)).flatten());
    lines.push(format!("{} would stay", pods_in_words(staying.len())));
    lines.extend(staying.iter().filter_map(|row| pods.remove(&*row.uid)).flatten());
    Ok(text_of(&lines))
}

/// The headings, and each pod's lines by its UID.
fn columns<'a>(
    overview: &Overview,
    rows: &[&'a PodRow],
    drawing: Drawing<'_>,
) -> (String, BTreeMap<&'a str, Vec<String>>) {
    let columns = pod_columns(["PLACE", "PRIORITY"]);
    pod_lines(overview, rows, columns, drawing.width, &DROPPED, drawing.style)
}

#[cfg(test)]
mod tests;
