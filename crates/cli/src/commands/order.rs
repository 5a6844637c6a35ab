//! `order`: who goes first, and who would go in a scale-down. It reads and shows.

use anyhow::Result;
use ordereddeployment_api::PausePoint;
use std::collections::BTreeMap;

use crate::client::{ConnectArgs, object_name};
use crate::escape::{escaped, print};
use crate::observe::{Reader, Seen};
use crate::overview::{Overview, PodRow};
use crate::style::Paint;
use crate::table::{Align, Column, Dropped, REASON, Widths, chosen, fitting, shortened};
use crate::tree::{Drawing, barrier_line};
use ordereddeployment_preview::scale_down;

/// What is left out first where the lines get too wide.
const DROPPED: [Dropped; 2] = [("POOL", REASON), ("NODE", REASON)];

/// Show the order in which pods go, with the reason for each place
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered order web                 the order as of now
  kubectl ordered order web --replicas 8    who would go if web were scaled down to 8

Ages and the number of pods on a node move by themselves: the order within one priority is as of now.")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment
    #[arg(value_parser = object_name)]
    name: String,
    /// Show who would go in a scale-down to this many replicas
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    replicas: Option<i32>,
    /// The node label that tells the pool of a node
    #[arg(long, value_name = "LABEL", default_value = "node.usage")]
    pool_label: String,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let connection = args.connect.connect().await?;
    let reader = Reader::new(&connection.client, &connection.namespace);
    let seen = reader.one(&args.name, connection.clock.now()).await?;
    let drawing = Drawing::of_stdout(&connection.flags);
    let overview = Overview::of(&seen, &args.pool_label);
    let text = match args.replicas {
        None => order(&overview, drawing),
        Some(replicas) => preview(&seen, &overview, replicas, drawing),
    };
    Ok(print(text)?)
}

/// The order as of now, with the barrier where a rollout halts.
pub(crate) fn order(overview: &Overview, drawing: Drawing<'_>) -> String {
    let style = drawing.style;
    let rows = overview.in_order();
    if rows.is_empty() {
        return format!("{} has no active pods.\n", overview.name);
    }
    let whose = if overview.is_rolling() {
        format!("{} of older revisions, which the rollout replaces", count(rows.len()))
    } else {
        count(rows.len())
    };
    let mut lines =
        vec![format!("{}: {whose}, the first to go first", style.paint(Paint::Title, &overview.name))];
    lines.extend(
        overview.notes.iter().map(|note| format!("{} {}", style.paint(Paint::Warn, "note:"), escaped(note))),
    );
    let (headings, mut cells) = columns(overview, &rows, drawing);
    lines.push(style.paint(Paint::Dim, &headings));
    let barrier = overview.barrier.as_ref();
    let gone = barrier.is_some_and(|barrier| barrier.held && rows.iter().all(|row| row.uid != barrier.uid));
    for row in &rows {
        let at = barrier.filter(|barrier| barrier.uid == row.uid);
        let first = gone && row.place == Some(1);
        if let Some(barrier) =
            barrier.filter(|barrier| first || (at.is_some() && barrier.side == PausePoint::Before))
        {
            lines.push(barrier_line(barrier, style, drawing.width));
        }
        lines.push(cells.remove(&*row.uid).unwrap_or_default());
        if let Some(barrier) = at.filter(|barrier| barrier.side == PausePoint::After) {
            lines.push(barrier_line(barrier, style, drawing.width));
        }
    }
    ended(&lines)
}

/// Who goes in a scale-down, and who stays.
pub(crate) fn preview(seen: &Seen, overview: &Overview, replicas: i32, drawing: Drawing<'_>) -> String {
    let style = drawing.style;
    let name = style.paint(Paint::Title, &overview.name);
    let gone = scale_down(&seen.observed(), replicas);
    let active: Vec<&PodRow> = overview.pods().filter(|row| row.active).collect();
    let by_uid: BTreeMap<&str, &PodRow> = active.iter().map(|row| (&*row.uid, *row)).collect();
    let going: Vec<&PodRow> = gone.iter().filter_map(|uid| by_uid.get(&**uid).copied()).collect();
    let mut staying: Vec<&PodRow> = active.iter().copied().filter(|row| !gone.contains(&row.uid)).collect();
    staying.sort_by(|first, second| (first.place, &first.name).cmp(&(second.place, &second.name)));
    let from = overview.desired;
    if going.is_empty() {
        let why = if replicas >= from { "that is no scale-down" } else { "no pod is to spare" };
        return format!("{name}: scaling from {from} to {replicas} would delete no pod: {why}.\n");
    }
    let mut lines =
        vec![format!("{name}: scaling from {from} to {replicas} would delete {}", count(going.len()))];
    lines.extend(
        overview.notes.iter().map(|note| format!("{} {}", style.paint(Paint::Warn, "note:"), escaped(note))),
    );
    let (headings, mut cells) = columns(overview, &active, drawing);
    lines.push(style.paint(Paint::Dim, &headings));
    lines.extend(going.iter().filter_map(|row| cells.remove(&*row.uid)));
    lines.push(format!("{} would stay", count(staying.len())));
    lines.extend(staying.iter().filter_map(|row| cells.remove(&*row.uid)));
    ended(&lines)
}

/// The headings, and each pod's line by its UID.
fn columns<'a>(
    overview: &Overview,
    rows: &[&'a PodRow],
    drawing: Drawing<'_>,
) -> (String, BTreeMap<&'a str, String>) {
    let all = [
        Column { heading: "PLACE", align: Align::Right },
        Column { heading: "POD", align: Align::Left },
        Column { heading: "NODE", align: Align::Left },
        Column { heading: "POOL", align: Align::Left },
        Column { heading: "PRIORITY", align: Align::Right },
        Column { heading: "WHY", align: Align::Left },
    ];
    let columns: Vec<Column> =
        all.into_iter().filter(|column| overview.has_pools || column.heading != "POOL").collect();
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let cells: Vec<(&str, Vec<String>)> = rows
        .iter()
        .map(|row| {
            let place = row.place.map_or_else(|| "-".to_owned(), |place| place.to_string());
            let mut cells = vec![place, row.name.clone(), or_dash(&row.node)];
            if overview.has_pools {
                cells.push(or_dash(&row.pool));
            }
            cells.push(row.priority.to_string());
            cells.push(row.why.clone().unwrap_or_default());
            (&*row.uid, cells)
        })
        .collect();
    let all: Vec<Vec<String>> = cells.iter().map(|(_, row)| row.clone()).collect();
    let kept = match drawing.width {
        Some(width) => fitting(&columns, &all, width, &DROPPED),
        None => (0..columns.len()).collect(),
    };
    let columns: Vec<Column> = kept.iter().map(|index| columns[*index]).collect();
    let all: Vec<Vec<String>> = all.iter().map(|row| chosen(row, &kept)).collect();
    let widths = Widths::of(&columns, all.iter().map(Vec::as_slice));
    let line = |row: &Vec<String>| match drawing.width {
        Some(width) => shortened(widths.row(row), width, drawing.style),
        None => widths.row(row),
    };
    let lines = cells.iter().zip(&all).map(|((uid, _), row)| (*uid, line(row))).collect();
    (widths.headings(), lines)
}

fn count(pods: usize) -> String {
    format!("{pods} pod{}", if pods == 1 { "" } else { "s" })
}

fn ended(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

#[cfg(test)]
#[path = "order/tests.rs"]
mod tests;
