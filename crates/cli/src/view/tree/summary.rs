//! The summary of a rollout: its head, its progress, and what goes next. Pure functions.

use super::drawing::Drawing;
use super::head::head;
use crate::terminal::style::Paint;
use crate::terminal::table::wrapped;
use crate::view::overview::{Overview, PodRow};

/// The number of pods that are named.
const NAMED: usize = 3;
/// The width of the bar.
const BAR: usize = 30;

/// The summary. It has no line for each pod.
pub(crate) fn summary(overview: &Overview, drawing: Drawing<'_>) -> Vec<String> {
    let mut lines = head(overview, drawing);
    lines.extend(progress(overview, drawing));
    lines.extend(next(overview, drawing));
    lines
}

/// How many pods are old and new, with a bar; `None` if nothing is replaced.
fn progress(overview: &Overview, drawing: Drawing<'_>) -> Option<String> {
    if !overview.is_rolling() {
        return None;
    }
    let active = |current: bool| {
        let sets = overview.sets.iter().filter(move |set| set.current == current);
        sets.flat_map(|set| &set.pods).filter(|pod| pod.is_active()).count()
    };
    let (old, new) = (active(false), active(true));
    let filled = BAR * new / (old + new).max(1);
    let style = drawing.style;
    let bar = format!("{}{}", style.pick("█", "#").repeat(filled), style.pick("░", ".").repeat(BAR - filled));
    Some(format!("  {} {old} old, {new} new", style.paint(Paint::Good, &bar)))
}

/// The pods that are deleted next, and the next pause point.
fn next(overview: &Overview, drawing: Drawing<'_>) -> Vec<String> {
    let rows = overview.in_order();
    if !overview.is_rolling() || rows.is_empty() {
        return Vec::new();
    }
    let held = overview.hold.is_some();
    let named: Vec<String> = rows.iter().take(NAMED).map(|row| described(row)).collect();
    let more = match rows.len().saturating_sub(NAMED) {
        0 => String::new(),
        others => format!(", and {others} more"),
    };
    let when = if held { "next after the pause" } else { "next" };
    let mut lines = wrapped(&format!("  {when}: {}{more}", named.join(", ")), drawing.width, "    ");
    if let Some(barrier) = overview.barrier.as_ref().filter(|barrier| !barrier.reached) {
        let place = rows.iter().find(|row| row.uid == barrier.uid).and_then(|row| row.place);
        let place = place.map(|place| format!(", at place {place}")).unwrap_or_default();
        let line = format!("  next pause point: {}{place}", barrier.place());
        let lines_of = wrapped(&line, drawing.width, "    ");
        lines.extend(lines_of.iter().map(|line| drawing.style.paint(Paint::Warn, line)));
    }
    lines
}

fn described(row: &PodRow) -> String {
    let why = row.why.as_deref().unwrap_or_default();
    if why.is_empty() { row.name.clone() } else { format!("{} ({why})", row.name) }
}
