//! The columns of a pod in the tree. Pure functions.

use std::collections::BTreeMap;

use super::drawing::Drawing;
use crate::age::age;
use crate::overview::{Overview, PodRow};
use crate::style::Style;
use crate::table::{Align, Column, Dropped, REASON, chosen, fitting};

/// The columns that are left out if lines are too wide, in this order. Names, order and reasons are never left out. The reason
/// begins with the priority.
const DROPPED: [Dropped; 6] = [
    ("AGE", usize::MAX),
    ("PRIO", REASON),
    ("READY", REASON),
    ("POOL", REASON),
    ("RESTARTS", REASON),
    ("NODE", REASON),
];

/// The health of a pod, shown as a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Ready,
    /// Not ready, without an error.
    Starting,
    Failing,
    /// Terminating or finished.
    Inactive,
}

impl Health {
    pub(crate) fn of(pod: &PodRow) -> Self {
        let failing = ["BackOff", "Err", "Error", "InvalidImageName"];
        match pod.is_active() {
            false => Self::Inactive,
            true if pod.ready => Self::Ready,
            true if failing.iter().any(|word| pod.status.contains(word)) => Self::Failing,
            true => Self::Starting,
        }
    }

    pub(super) fn mark(self, style: Style) -> &'static str {
        match self {
            Self::Ready => style.pick("✔", "*"),
            Self::Starting => style.pick("◌", "~"),
            Self::Failing => style.pick("✖", "!"),
            Self::Inactive => style.pick("⊘", "-"),
        }
    }
}

/// A column and its value for a pod.
type Cell = (Column, fn(&PodRow, &Overview, Style) -> String);

fn columns(overview: &Overview, drawing: Drawing<'_>) -> Vec<Cell> {
    use Align::{Left, Right};
    let column = |heading, align| Column { heading, align };
    let place: fn(&PodRow, &Overview, Style) -> String =
        |pod, _, _| pod.place.map_or_else(|| "-".to_owned(), |place| place.to_string());
    let all: [Cell; 10] = [
        (column("#", Right), place),
        (column("POD", Left), |pod, _, _| pod.name.clone()),
        (column("READY", Left), |pod, _, _| pod.containers.clone()),
        (column("STATUS", Left), |pod, _, style| format!("{} {}", Health::of(pod).mark(style), pod.status)),
        (column("RESTARTS", Right), |pod, _, _| pod.restarts.to_string()),
        (column("AGE", Left), |pod, overview, _| age(pod.created, overview.now)),
        (column("NODE", Left), |pod, _, _| pod.node.clone().unwrap_or_else(|| "-".to_owned())),
        (column("POOL", Left), |pod, _, _| pod.pool.clone().unwrap_or_else(|| "-".to_owned())),
        (column("PRIO", Right), |pod, _, _| pod.priority.to_string()),
        (column("WHY", Left), |pod, _, _| pod.why.clone().unwrap_or_default()),
    ];
    // Not on a pipe: with `--watch` the tree is printed again whenever it differs, and ages always do.
    let ages = drawing.wide || drawing.width.is_some();
    let restarted = overview.pods().any(|pod| pod.restarts > 0);
    all.into_iter()
        .filter(|(column, _)| match column.heading {
            "POOL" => overview.has_pools,
            "AGE" => ages,
            "RESTARTS" => drawing.wide || restarted,
            _ => true,
        })
        .collect()
}

/// The columns that fit, and the cells of each pod by its UID.
pub(super) fn laid_out<'a>(
    overview: &'a Overview,
    drawing: Drawing<'_>,
    room: Option<usize>,
) -> (Vec<Column>, BTreeMap<&'a str, Vec<String>>) {
    let columns = columns(overview, drawing);
    let cells = |pod: &PodRow| -> Vec<String> {
        columns.iter().map(|(_, cell)| cell(pod, overview, drawing.style)).collect()
    };
    let mut rows: BTreeMap<&str, Vec<String>> = overview.pods().map(|pod| (&*pod.uid, cells(pod))).collect();
    let heads: Vec<Column> = columns.iter().map(|(column, _)| *column).collect();
    let Some(room) = room else { return (heads, rows) };
    let all: Vec<Vec<String>> = rows.values().cloned().collect();
    let kept = fitting(&heads, &all, room, &DROPPED);
    for row in rows.values_mut() {
        *row = chosen(row, &kept);
    }
    (kept.iter().map(|index| heads[*index]).collect(), rows)
}
