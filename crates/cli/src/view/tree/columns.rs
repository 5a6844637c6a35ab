//! The columns of a pod in the tree. Pure functions.

use std::collections::BTreeMap;

use crate::terminal::style::{Style, width_of_stdout};
use crate::terminal::table::{Column, Dropped, REASON, Table, left, right};
use crate::view::age::age;
use crate::view::overview::{Overview, PodRow};

/// The columns that are left out if lines are too wide, in this order. Names, order and reasons are never
/// left out. The reason begins with the priority.
const DROPPED: [Dropped; 6] = [
    ("AGE", usize::MAX),
    ("PRIO", REASON),
    ("READY", REASON),
    ("POOL", REASON),
    ("RESTARTS", REASON),
    ("NODE", REASON),
];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawing<'a> {
    pub(crate) style: Style,
    /// Flags to repeat in the printed commands.
    pub(crate) flags: &'a str,
    /// The width of the terminal: columns that do not fit are left out. `None` on a pipe.
    pub(crate) width: Option<usize>,
    pub(crate) wide: bool,
    pub(crate) fold: Fold<'a>,
}

impl<'a> Drawing<'a> {
    pub(crate) fn of_stdout(flags: &'a str) -> Self {
        let style = Style::of_stdout();
        Self { style, flags, width: width_of_stdout(), wide: false, fold: Fold::default() }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fold<'a> {
    pub(crate) all: bool,
    /// Show only pods with this text in their name, node, pool or status, and all of them.
    pub(crate) filter: Option<&'a str>,
    /// Whether a key shows all pods, and not the flag of a command.
    pub(crate) on_screen: bool,
}

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

/// The headings, and the lines of each pod by its UID.
pub(super) fn laid_out<'a>(
    overview: &'a Overview,
    drawing: Drawing<'_>,
    room: Option<usize>,
) -> (String, BTreeMap<&'a str, Vec<String>>) {
    let status = |pod: &&PodRow| format!("{} {}", Health::of(pod).mark(drawing.style), pod.status);
    let mut columns = pod_columns(["#", "PRIO"]);
    columns.insert(2, left("READY", |pod: &&PodRow| pod.containers.clone()));
    columns.insert(3, left("STATUS", status));
    if drawing.wide || overview.pods().any(|pod| pod.restarts > 0) {
        columns.insert(4, right("RESTARTS", |pod: &&PodRow| pod.restarts.to_string()));
    }
    // Not on a pipe: with `--watch` the tree is printed again whenever it differs, and ages always do.
    if drawing.wide || drawing.width.is_some() {
        let node = columns.iter().position(|(heading, ..)| *heading == "NODE").unwrap_or_default();
        columns.insert(node, left("AGE", |pod: &&PodRow| age(pod.created, overview.now)));
    }
    pod_lines(overview, &overview.pods().collect::<Vec<_>>(), columns, room, &DROPPED, drawing.style)
}

/// The columns that every list of pods in order has. The headings are those of the place and the priority.
pub(crate) fn pod_columns<'a>([place, priority]: [&'static str; 2]) -> Vec<Column<'a, &'a PodRow>> {
    fn or_dash(text: Option<String>) -> String {
        text.unwrap_or_else(|| "-".to_owned())
    }
    vec![
        right(place, |pod: &&PodRow| or_dash(pod.place.map(|place| place.to_string()))),
        left("POD", |pod: &&PodRow| pod.name.clone()),
        left("NODE", |pod: &&PodRow| or_dash(pod.node.clone())),
        left("POOL", |pod: &&PodRow| or_dash(pod.pool.clone())),
        right(priority, |pod: &&PodRow| pod.priority.to_string()),
        left("WHY", |pod: &&PodRow| pod.why.clone().unwrap_or_default()),
    ]
}

/// The headings of the columns that fit, and the lines of each of these pods by its UID.
pub(crate) fn pod_lines<'a>(
    overview: &Overview,
    pods: &[&'a PodRow],
    mut columns: Vec<Column<'_, &'a PodRow>>,
    room: Option<usize>,
    dropped: &[Dropped],
    style: Style,
) -> (String, BTreeMap<&'a str, Vec<String>>) {
    columns.retain(|(heading, ..)| overview.has_pools || *heading != "POOL");
    let table = Table::of(&columns, pods).fit(room, dropped);
    let lines = pods.iter().map(|pod| &*pod.uid).zip(table.with_reasons(room, style));
    (table.headings(), lines.collect())
}
