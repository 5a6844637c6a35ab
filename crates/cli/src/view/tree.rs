//! The tree of `get`: renders an overview as text. Pure function: no server, clock or terminal.

mod columns;
mod head;

use std::collections::BTreeMap;

use ordereddeployment_api::PausePoint;

use crate::terminal::escape::escaped;
use crate::terminal::style::{Paint, Style};
use crate::terminal::table::{shortened, text_of};
use crate::view::age::age;
use crate::view::overview::{Overview, PodRow, SetRow};
use crate::view::pause_points::Barrier;
use crate::view::phase::{Phase, side};
use crate::view::pod::pods_in_words;
use columns::laid_out;
pub(crate) use columns::{Drawing, Fold, Health, pod_columns, pod_lines};
pub(crate) use head::{commands, counted, detail, head, headline, summary};

/// The width of the tree lines before the cells of a pod.
const INDENT: usize = 4;
/// Trees with more pods are folded.
const MANY: usize = 50;
const SHOWN: usize = 15;

/// The whole tree. Every line ends with a line break.
pub(crate) fn render(overview: &Overview, drawing: Drawing<'_>) -> String {
    let mut lines = head(overview, drawing);
    lines.extend(body(overview, drawing));
    text_of(&lines)
}

pub(crate) fn body(overview: &Overview, drawing: Drawing<'_>) -> Vec<String> {
    let style = drawing.style;
    let mut lines = Vec::new();
    let room = drawing.width.filter(|_| !drawing.wide).map(|width| width.saturating_sub(INDENT));
    let (headings, rows) = laid_out(overview, drawing, room);
    if !rows.is_empty() {
        lines.push(style.paint(Paint::Dim, &format!("{}{headings}", " ".repeat(INDENT))));
    }
    let last_set = overview.sets.len().saturating_sub(1);
    for (index, set) in overview.sets.iter().enumerate() {
        let is_last = index == last_set && overview.empty_sets == 0;
        let branch = if is_last { style.pick("└─ ", "`- ") } else { style.pick("├─ ", "|- ") };
        lines.push(format!("{}{}", style.paint(Paint::Dim, branch), set_line(set, overview, drawing)));
        let trunk = if is_last { "  " } else { style.pick("│ ", "| ") };
        let room = drawing.width.map(|width| width.saturating_sub(trunk.chars().count()));
        let trunk = style.paint(Paint::Dim, trunk);
        let pods = set_pods(set, overview, &rows, drawing, room);
        lines.extend(pods.iter().map(|line| format!("{trunk}{line}")));
    }
    if overview.empty_sets > 0 {
        let plural = if overview.empty_sets == 1 { "" } else { "s" };
        let text = format!("{} older revision{plural} without pods", overview.empty_sets);
        lines.push(style.paint(Paint::Dim, &format!("{}{text}", style.pick("└─ ", "`- "))));
    }
    lines
}

fn set_line(set: &SetRow, overview: &Overview, drawing: Drawing<'_>) -> String {
    let style = drawing.style;
    let active = set.pods.iter().filter(|pod| pod.is_active()).count();
    let ready = set.pods.iter().filter(|pod| pod.is_active() && pod.ready).count();
    let size = usize::try_from(set.size).unwrap_or(0);
    // During a rollout `spec.replicas` of a set lags behind its pods.
    let differs = active != size && overview.phase != Phase::Rolling;
    let of = if differs { format!(" ({size} desired)") } else { String::new() };
    let unready = if ready == active { String::new() } else { format!(", {ready} ready") };
    let current = if set.current { " (current)" } else { "" };
    let age = if drawing.wide { format!(", {} old", age(set.created, overview.now)) } else { String::new() };
    let head = format!("revision {}", set.revision);
    let rest = format!("{current}  {}  {}{of}{unready}{age}", set.name, pods_in_words(active));
    let images = escaped(&set.images.join(", ")).into_owned();
    // Images are shortened first. Names stay whole, so that they can be copied.
    let taken = INDENT + head.chars().count() + rest.chars().count() + 2;
    let images = match drawing.width.filter(|_| !drawing.wide) {
        Some(width) if taken + images.chars().count() > width => {
            shortened(images, width.saturating_sub(taken), style)
        }
        _ => images,
    };
    let line = format!("{}{rest}  {}", style.paint(Paint::Title, &head), style.paint(Paint::Dim, &images));
    line.trim_end().to_owned()
}

fn set_pods(
    set: &SetRow,
    overview: &Overview,
    rows: &BTreeMap<&str, Vec<String>>,
    drawing: Drawing<'_>,
    room: Option<usize>,
) -> Vec<String> {
    let style = drawing.style;
    let (pods, hidden) = shown(set, overview, drawing.fold);
    let mut lines = Vec::new();
    for (index, pod) in pods.iter().enumerate() {
        let is_last = hidden == 0 && index + 1 == pods.len();
        let branch = if is_last { style.pick("└ ", "` ") } else { style.pick("├ ", "+ ") };
        let below = if is_last { "  " } else { style.pick("│ ", "| ") };
        let drawn = rows.get(&*pod.uid).into_iter().flatten().enumerate().map(|(index, row)| {
            let branch = if index == 0 { branch } else { below };
            format!("{}{}", style.paint(Paint::Dim, branch), painted(row, pod, style))
        });
        let is_barrier = overview.barrier_side(pod).is_some()
            && overview.barrier.as_ref().is_some_and(|barrier| barrier.declared.is_none());
        let later = |side: PausePoint| {
            let point = pod.point.filter(|point| *point == side && !is_barrier && pod.place.is_some());
            point.map(|point| later_line(point, pod, style, room))
        };
        let drawn = later(PausePoint::Before).into_iter().chain(drawn).collect();
        lines.extend(with_barrier(drawn, pod, overview, style, room));
        lines.extend(later(PausePoint::After));
    }
    if hidden > 0 {
        let plural = if hidden == 1 { "" } else { "s" };
        let more = if pods.is_empty() { "" } else { "more " };
        let all = if drawing.fold.on_screen { "the key a" } else { "--all" };
        let text = format!("{}{hidden} {more}pod{plural} ({all} shows them)", style.pick("└ ", "` "));
        lines.push(style.paint(Paint::Dim, &text));
    }
    lines
}

fn shown<'o>(set: &'o SetRow, overview: &Overview, fold: Fold<'_>) -> (Vec<&'o PodRow>, usize) {
    let total = set.pods.len();
    let kept: Vec<&PodRow> = if let Some(text) = fold.filter {
        set.pods.iter().filter(|pod| has(pod, text)).collect()
    } else if fold.all || overview.pods().count() <= MANY {
        set.pods.iter().collect()
    } else {
        folded(set, overview)
    };
    let hidden = total - kept.len();
    (kept, hidden)
}

/// The first pods of the order, the one of the pause point, and those that need attention. In a rollout, the
/// pods of the current revision have no place, so only the last are shown.
fn folded<'o>(set: &'o SetRow, overview: &Overview) -> Vec<&'o PodRow> {
    let is_barrier = |pod: &PodRow| overview.barrier.as_ref().is_some_and(|barrier| barrier.uid == pod.uid);
    let (mut ordered, mut others) = (0, 0);
    set.pods
        .iter()
        .filter(|pod| {
            let attention = !pod.ready || pod.point.is_some();
            if pod.place.is_some() && ordered < SHOWN {
                ordered += 1;
                return true;
            }
            if attention && others < SHOWN {
                others += 1;
                return true;
            }
            is_barrier(pod)
        })
        .collect()
}

fn has(pod: &PodRow, text: &str) -> bool {
    let optional = [&pod.node, &pod.pool].into_iter().flatten();
    [&pod.name, &pod.status].into_iter().chain(optional).any(|value| value.contains(text))
}

pub(crate) fn with_barrier(
    mut lines: Vec<String>,
    pod: &PodRow,
    overview: &Overview,
    style: Style,
    room: Option<usize>,
) -> Vec<String> {
    if let (Some(side), Some(barrier)) = (overview.barrier_side(pod), &overview.barrier) {
        let at = if side == PausePoint::Before { 0 } else { lines.len() };
        lines.insert(at, barrier_line(barrier, style, room));
    }
    lines
}

/// Only the mark of a ready pod is coloured; other pods are coloured as a whole line.
fn painted(row: &str, pod: &PodRow, style: Style) -> String {
    match Health::of(pod) {
        Health::Ready => {
            let mark = Health::Ready.mark(style);
            row.replacen(mark, &style.paint(Paint::Good, mark), 1)
        }
        Health::Starting => style.paint(Paint::Warn, row),
        Health::Failing => style.paint(Paint::Bad, row),
        Health::Inactive => style.paint(Paint::Dim, row),
    }
}

fn later_line(point: PausePoint, pod: &PodRow, style: Style, room: Option<usize>) -> String {
    let line = style.pick("┄┄", "--");
    let text = format!("{line} later pause point {} ({}) {line}", pod.name, side(point));
    if room.is_none_or(|room| text.chars().count() <= room) {
        return style.paint(Paint::Dim, &text);
    }
    style.paint(Paint::Dim, &format!("{line} later: {} ({}) {line}", pod.name, side(point)))
}

/// The line of the barrier, in a short form if the long one does not fit.
fn barrier_line(barrier: &Barrier, style: Style, room: Option<usize>) -> String {
    let place = escaped(&barrier.place()).into_owned();
    let (line, long, short) = if barrier.reached {
        let long = format!("paused at pause point {place}: pods below wait");
        (style.pick("━━", "=="), long, format!("paused at {place}"))
    } else {
        let which = if barrier.rolling { "the rollout" } else { "the next rollout" };
        let point = format!("pause point {place}");
        (style.pick("┄┄", "--"), format!("{point}: {which} pauses here"), point)
    };
    let fits = |text: &String| room.is_none_or(|room| text.chars().count() + 6 <= room);
    let text = Some(long).filter(fits).unwrap_or(short);
    let text = match room {
        Some(room) => shortened(text, room.saturating_sub(6), style),
        None => text,
    };
    style.paint(Paint::Warn, &format!("{line} {text} {line}"))
}

#[cfg(test)]
mod tests;
