//! The tree of `get`: text from an overview. Pure: it reads no server, no clock and no terminal.

use ordereddeployment_api::{HoldReason, PausePoint};

use crate::age::{age, span};
use crate::overview::{Barrier, Overview, Phase, PodRow, SetRow};
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Widths};

/// How a tree is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawing<'a> {
    pub(crate) style: Style,
    /// Flags that commands to copy must repeat.
    pub(crate) flags: &'a str,
    /// Columns that would make lines wider than this are left out; none on a pipe.
    pub(crate) width: Option<usize>,
    /// All columns there are, whatever the width.
    pub(crate) wide: bool,
}

impl<'a> Drawing<'a> {
    /// As the standard output asks for.
    pub(crate) fn of_stdout(flags: &'a str) -> Self {
        let style = Style::of_stdout();
        Self { style, flags, width: crate::style::width_of_stdout(), wide: false }
    }
}

/// What stands before the cells of a pod: trunk and branch.
const INDENT: usize = 4;
/// What is left out first where the lines get too wide: names, order and reasons stay to the last.
const DROPPED: [&str; 3] = ["READY", "POOL", "NODE"];
/// So much of a reason still says something; what is beyond it may be cut.
const REASON: usize = 24;

/// The whole tree, every line ended.
pub(crate) fn render(overview: &Overview, drawing: Drawing<'_>) -> String {
    let style = drawing.style;
    let mut lines = head(overview, drawing);
    let columns = fitting(overview, drawing);
    let rows: Vec<Vec<String>> = overview.pods().map(|pod| cells(&columns, pod, overview)).collect();
    let heads: Vec<Column> = columns.iter().map(|(column, _)| *column).collect();
    let widths = Widths::of(&heads, rows.iter().map(Vec::as_slice));
    if !rows.is_empty() {
        lines.push(style.paint(Paint::Dim, &format!("{}{}", " ".repeat(INDENT), widths.headings())));
    }
    let last_set = overview.sets.len().saturating_sub(1);
    for (index, set) in overview.sets.iter().enumerate() {
        let is_last = index == last_set && overview.empty_sets == 0;
        let branch = if is_last { style.pick("└─ ", "`- ") } else { style.pick("├─ ", "|- ") };
        lines.push(format!("{}{}", style.paint(Paint::Dim, branch), set_line(set, overview, drawing)));
        let trunk = if is_last { "  " } else { style.pick("│ ", "| ") };
        let lay = |pod: &PodRow| {
            let row = widths.row(&cells(&columns, pod, overview));
            match drawing.width.filter(|_| !drawing.wide) {
                Some(width) => shortened(row, width.saturating_sub(INDENT), style),
                None => row,
            }
        };
        pods(set, trunk, overview, lay, style, &mut lines);
    }
    if overview.empty_sets > 0 {
        let plural = if overview.empty_sets == 1 { "" } else { "s" };
        let text = format!("{} older revision{plural} without pods", overview.empty_sets);
        lines.push(style.paint(Paint::Dim, &format!("{}{text}", style.pick("└─ ", "`- "))));
    }
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// The lines above the sets: counts, state, and what to do.
pub(crate) fn head(overview: &Overview, drawing: Drawing<'_>) -> Vec<String> {
    let style = drawing.style;
    let (state, paint) = match &overview.phase {
        Phase::Complete => (format!("complete at revision {}", overview.revision), Paint::Good),
        Phase::Rolling => (format!("rolling out revision {}", overview.revision), Paint::Title),
        Phase::Held(hold) => (format!("held on the way to revision {}", hold.revision), Paint::Warn),
        Phase::Paused => ("paused as a whole (spec.paused)".to_owned(), Paint::Warn),
        Phase::Stalled(_) => ("stalled".to_owned(), Paint::Warn),
    };
    let mut lines = vec![format!(
        "{}  {} desired, {} updated, {} available  {}",
        style.paint(Paint::Title, &overview.name),
        overview.desired,
        overview.updated,
        overview.available,
        style.paint(paint, &state),
    )];
    match &overview.phase {
        Phase::Held(hold) => {
            let node = hold.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
            let until = match &hold.until {
                Some(until) => format!("goes on by itself in {}", span(overview.now, until.0)),
                None => "until resumed".to_owned(),
            };
            let since = span(hold.since.0, overview.now);
            lines.push(format!("  held {} {}{node} for {since} so far, {until}", side(hold.point), hold.pod));
            if hold.reason == HoldReason::Blocked {
                lines.push("  it could only go on with unavailable pods at or behind this point".to_owned());
            }
            let command = format!("kubectl ordered resume {}{}", overview.name, drawing.flags);
            lines.push(format!("  resume with: {}", style.paint(Paint::Title, &command)));
        }
        Phase::Stalled(message) => lines.push(format!("  {message}")),
        Phase::Paused => {
            let command = format!("kubectl ordered unpause {}{}", overview.name, drawing.flags);
            lines.push(format!("  go on with: {}", style.paint(Paint::Title, &command)));
        }
        Phase::Complete | Phase::Rolling => {}
    }
    lines.extend(overview.notes.iter().map(|note| format!("  {} {note}", style.paint(Paint::Warn, "note:"))));
    lines
}

fn set_line(set: &SetRow, overview: &Overview, drawing: Drawing<'_>) -> String {
    let style = drawing.style;
    let active = set.pods.iter().filter(|pod| pod.active).count();
    let ready = set.pods.iter().filter(|pod| pod.active && pod.ready).count();
    let size = usize::try_from(set.size).unwrap_or(0);
    let plural = if active == 1 { "" } else { "s" };
    let of = if active == size { String::new() } else { format!(", size {size}") };
    let unready = if ready == active { String::new() } else { format!(", {ready} ready") };
    let current = if set.current { " (current)" } else { "" };
    let age = if drawing.wide { format!(", {} old", age(set.created, overview.now)) } else { String::new() };
    format!(
        "{}{current}  {}  {active} pod{plural}{of}{unready}{age}  {}",
        style.paint(Paint::Title, &format!("revision {}", set.revision)),
        set.name,
        style.paint(Paint::Dim, &set.images.join(", "))
    )
    .trim_end()
    .to_owned()
}

fn pods(
    set: &SetRow,
    trunk: &str,
    overview: &Overview,
    lay: impl Fn(&PodRow) -> String,
    style: Style,
    lines: &mut Vec<String>,
) {
    let last = set.pods.len().saturating_sub(1);
    let trunk = style.paint(Paint::Dim, trunk);
    for (index, pod) in set.pods.iter().enumerate() {
        let mark = |lines: &mut Vec<String>| {
            if let Some(barrier) = &overview.barrier {
                lines.push(format!("{trunk}{}", barrier_line(barrier, style)));
            }
        };
        let at = stands_at(pod, overview);
        let later = pod.point.filter(|_| at.is_none() && pod.place.is_some());
        let later_line = |point: PausePoint| format!("{trunk}{}", later_line(point, pod, style));
        if at == Some(PausePoint::Before) {
            mark(lines);
        }
        lines.extend(later.filter(|point| *point == PausePoint::Before).map(later_line));
        let branch = if index == last { style.pick("└ ", "` ") } else { style.pick("├ ", "+ ") };
        let row = lay(pod);
        let row = match pod.active {
            true if !pod.ready => style.paint(Paint::Warn, &row),
            true => row,
            false => style.paint(Paint::Dim, &row),
        };
        lines.push(format!("{trunk}{}{row}", style.paint(Paint::Dim, branch)));
        if at == Some(PausePoint::After) {
            mark(lines);
        }
        lines.extend(later.filter(|point| *point == PausePoint::After).map(later_line));
    }
}

/// A pause point behind the barrier.
fn later_line(point: PausePoint, pod: &PodRow, style: Style) -> String {
    let line = style.pick("┄┄", "--");
    style.paint(Paint::Dim, &format!("{line} later pause point: {} {} {line}", side(point), pod.name))
}

/// On which side of this pod the barrier is drawn.
fn stands_at(pod: &PodRow, overview: &Overview) -> Option<PausePoint> {
    let barrier = overview.barrier.as_ref()?;
    let there = overview.pods().any(|other| other.uid == barrier.uid && other.place.is_some());
    if there {
        return (pod.uid == barrier.uid).then_some(barrier.side);
    }
    // Its pod is gone: all that is left of the old ones is behind it.
    (barrier.held && overview.is_rolling() && pod.place == Some(1)).then_some(PausePoint::Before)
}

/// The line that a rollout does not cross.
pub(crate) fn barrier_line(barrier: &Barrier, style: Style) -> String {
    let side = side(barrier.side);
    if barrier.held {
        let line = style.pick("━━", "==");
        let text = format!("{line} held {side} {}: nothing below goes {line}", barrier.pod);
        return style.paint(Paint::Warn, &text);
    }
    let line = style.pick("┄┄", "--");
    let which = if barrier.rolling { "the rollout" } else { "the next rollout" };
    style.paint(Paint::Warn, &format!("{line} pause point: {which} halts {side} {} {line}", barrier.pod))
}

pub(crate) fn side(point: PausePoint) -> &'static str {
    match point {
        PausePoint::Before => "before",
        PausePoint::After => "after",
    }
}

/// A column, and what it says of a pod.
type Cell = (Column, fn(&PodRow, &Overview) -> String);

fn columns(overview: &Overview, wide: bool) -> Vec<Cell> {
    use Align::{Left, Right};
    let column = |heading, align| Column { heading, align };
    let place: fn(&PodRow, &Overview) -> String =
        |pod, _| pod.place.map_or_else(|| "-".to_owned(), |place| place.to_string());
    let all: [Cell; 10] = [
        (column("#", Right), place),
        (column("POD", Left), |pod, _| pod.name.clone()),
        (column("READY", Left), |pod, _| pod.containers.clone()),
        (column("STATUS", Left), |pod, _| pod.status.clone()),
        (column("RESTARTS", Right), |pod, _| pod.restarts.to_string()),
        (column("AGE", Left), |pod, overview| age(pod.created, overview.now)),
        (column("NODE", Left), |pod, _| pod.node.clone().unwrap_or_else(|| "-".to_owned())),
        (column("POOL", Left), |pod, _| pod.pool.clone().unwrap_or_else(|| "-".to_owned())),
        (column("PRIO", Right), |pod, _| pod.priority.to_string()),
        (column("WHY", Left), |pod, _| pod.why.clone().unwrap_or_default()),
    ];
    all.into_iter()
        .filter(|(column, _)| overview.has_pools || column.heading != "POOL")
        .filter(|(column, _)| wide || !matches!(column.heading, "RESTARTS" | "AGE"))
        .collect()
}

/// The columns, without those that there is no room for.
fn fitting(overview: &Overview, drawing: Drawing<'_>) -> Vec<Cell> {
    let mut columns = columns(overview, drawing.wide);
    let Some(width) = drawing.width.filter(|_| !drawing.wide) else { return columns };
    for dropped in DROPPED {
        let heads: Vec<Column> = columns.iter().map(|(column, _)| *column).collect();
        let mut rows: Vec<Vec<String>> = overview.pods().map(|pod| cells(&columns, pod, overview)).collect();
        for why in rows.iter_mut().filter_map(|row| row.last_mut()) {
            *why = why.chars().take(REASON).collect();
        }
        let widths = Widths::of(&heads, rows.iter().map(Vec::as_slice));
        let widest = rows.iter().map(|row| widths.row(row).chars().count()).max().unwrap_or(0);
        if widest + INDENT <= width {
            break;
        }
        columns.retain(|(column, _)| column.heading != dropped);
    }
    columns
}

/// The row, with the end of its reason cut off where there is no room for it.
fn shortened(row: String, width: usize, style: Style) -> String {
    if row.chars().count() <= width {
        return row;
    }
    let mark = style.pick("…", "...");
    let kept: String = row.chars().take(width.saturating_sub(mark.chars().count())).collect();
    format!("{}{mark}", kept.trim_end())
}

fn cells(columns: &[Cell], pod: &PodRow, overview: &Overview) -> Vec<String> {
    columns.iter().map(|(_, cell)| cell(pod, overview)).collect()
}

#[cfg(test)]
#[path = "tree/tests.rs"]
mod tests;
