//! The tree of `get`: text from an overview. Pure: it reads no server, no clock and no terminal.

use ordereddeployment_api::{HoldReason, PausePoint};

use crate::overview::{Barrier, Overview, Phase, PodRow, SetRow};
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Widths};

/// How a tree is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawing<'a> {
    pub(crate) style: Style,
    /// Flags that commands to copy must repeat.
    pub(crate) flags: &'a str,
}

/// The whole tree, every line ended.
pub(crate) fn render(overview: &Overview, drawing: Drawing<'_>) -> String {
    let style = drawing.style;
    let mut lines = head(overview, drawing);
    let columns = columns(overview);
    let rows: Vec<Vec<String>> = overview.pods().map(|pod| cells(pod, overview)).collect();
    let widths = Widths::of(&columns, rows.iter().map(Vec::as_slice));
    if !rows.is_empty() {
        lines.push(style.paint(Paint::Dim, &format!("    {}", widths.headings())));
    }
    let last_set = overview.sets.len().saturating_sub(1);
    for (index, set) in overview.sets.iter().enumerate() {
        let is_last = index == last_set && overview.empty_sets == 0;
        let branch = if is_last { style.pick("└─ ", "`- ") } else { style.pick("├─ ", "|- ") };
        lines.push(format!("{}{}", style.paint(Paint::Dim, branch), set_line(set, style)));
        let trunk = if is_last { "  " } else { style.pick("│ ", "| ") };
        pods(set, trunk, overview, &widths, style, &mut lines);
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
                Some(until) => format!("until {}", until.0),
                None => "until resumed".to_owned(),
            };
            let since = hold.since.0;
            lines.push(format!("  held {} {}{node}, since {since}, {until}", side(hold.point), hold.pod));
            if hold.reason == HoldReason::Blocked {
                lines.push("  it could only go on with unavailable pods at or behind this point".to_owned());
            }
            let command = format!("kubectl ordered resume {}{}", overview.name, drawing.flags);
            lines.push(format!("  resume with: {}", style.paint(Paint::Title, &command)));
        }
        Phase::Stalled(message) => lines.push(format!("  {message}")),
        Phase::Complete | Phase::Rolling | Phase::Paused => {}
    }
    lines.extend(overview.notes.iter().map(|note| format!("  {} {note}", style.paint(Paint::Warn, "note:"))));
    lines
}

fn set_line(set: &SetRow, style: Style) -> String {
    let active = set.pods.iter().filter(|pod| pod.status != "Terminating").count();
    let size = usize::try_from(set.size).unwrap_or(0);
    let plural = if active == 1 { "" } else { "s" };
    let of = if active == size { String::new() } else { format!(", size {size}") };
    let current = if set.current { ", current" } else { "" };
    format!(
        "{}  {}, {active} pod{plural}{of}{current}",
        style.paint(Paint::Title, &format!("revision {}", set.revision)),
        set.name
    )
}

fn pods(
    set: &SetRow,
    trunk: &str,
    overview: &Overview,
    widths: &Widths<'_>,
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
        let branch = if index == last { style.pick("└ ", "` ") } else { style.pick("├ ", "|-") };
        let row = widths.row(&cells(pod, overview));
        let row = match pod.place {
            _ if !pod.ready && pod.status != "Terminating" => style.paint(Paint::Warn, &row),
            None if pod.status == "Terminating" => style.paint(Paint::Dim, &row),
            _ => row,
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

fn columns(overview: &Overview) -> Vec<Column> {
    let all = [
        Column { heading: "#", align: Align::Right },
        Column { heading: "POD", align: Align::Left },
        Column { heading: "STATUS", align: Align::Left },
        Column { heading: "READY", align: Align::Left },
        Column { heading: "NODE", align: Align::Left },
        Column { heading: "POOL", align: Align::Left },
        Column { heading: "PRIO", align: Align::Right },
        Column { heading: "WHY", align: Align::Left },
    ];
    all.into_iter().filter(|column| overview.has_pools || column.heading != "POOL").collect()
}

fn cells(pod: &PodRow, overview: &Overview) -> Vec<String> {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let mut cells = vec![
        pod.place.map_or_else(|| "-".to_owned(), |place| place.to_string()),
        pod.name.clone(),
        pod.status.clone(),
        if pod.ready { "yes" } else { "no" }.to_owned(),
        or_dash(&pod.node),
    ];
    if overview.has_pools {
        cells.push(or_dash(&pod.pool));
    }
    cells.push(pod.priority.to_string());
    cells.push(pod.why.clone().unwrap_or_default());
    cells
}

#[cfg(test)]
#[path = "tree/tests.rs"]
mod tests;
