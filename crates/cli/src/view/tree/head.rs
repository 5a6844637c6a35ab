//! The lines above the sets: state, counts, and the next command; and the summary of a rollout, which has no
//! line for each pod. Pure functions.

use ordereddeployment_api::{Aborted, Hold};
use ordereddeployment_wire::Family;

use super::Drawing;
use crate::terminal::style::{Paint, Style};
use crate::terminal::table::wrapped;
use crate::view::age::span;
use crate::view::overview::{Lifecycle, Overview, PodRow};
use crate::view::pause_points::left;
use crate::view::phase::{Phase, rolled_back, side, suspended};
use crate::view::pod::pods_in_words;

const NAMED: usize = 3;
const BAR: usize = 30;

/// The mark of the phase, its name in words, and its colour.
pub(crate) fn headline(overview: &Overview, style: Style) -> (&'static str, String, Paint) {
    let revision = overview.revision;
    let (mark, paint) = overview.phase.mark(style);
    let state = match &overview.phase {
        Phase::Unobserved => "waiting for the controller".to_owned(),
        Phase::Complete => format!("complete at revision {revision}"),
        Phase::Rolling => format!("rolling out revision {revision}"),
        Phase::Suspended(revision) => format!("rollout to revision {revision} suspended at 0 replicas"),
        Phase::Held(hold) => format!("paused at a pause point of revision {}", hold.revision),
        Phase::Aborted(aborted) => {
            let is_done = !overview.is_rolling() && overview.available >= overview.desired;
            format!("aborted: {}", rolled_back(aborted, is_done))
        }
        Phase::Paused => "paused (spec.paused)".to_owned(),
        Phase::Migrating(migration) => migration.label().to_lowercase(),
        Phase::Stalled(_) => "stalled: the spec or the cluster must be changed".to_owned(),
        Phase::DeadlineExceeded(_) => "failed: progress deadline exceeded".to_owned(),
    };
    (mark, state, paint)
}

pub(crate) fn detail(overview: &Overview) -> Option<String> {
    match &overview.phase {
        Phase::Held(hold) => Some(paused_at(hold, overview)),
        Phase::Stalled(message) | Phase::DeadlineExceeded(message) => Some(message.clone()),
        Phase::Migrating(migration) => Some(migration.message.clone()),
        Phase::Aborted(aborted) => Some(progress_back(aborted, overview)),
        Phase::Suspended(revision) => Some(suspended(*revision)),
        Phase::Paused | Phase::Complete | Phase::Rolling | Phase::Unobserved => None,
    }
}

/// The next commands, each with what it does.
pub(crate) fn commands(overview: &Overview, flags: &str) -> Vec<(&'static str, String)> {
    let (name, object) = (&overview.name, overview.reference());
    let ordered = |what, verb: &str| vec![(what, format!("kubectl ordered {verb} {object}{flags}"))];
    // What kubectl does with a plain Deployment.
    let rollout = |what, verb: &str, plain: &str| match overview.family {
        Family::Ordered => ordered(what, verb),
        Family::Plain => vec![(what, format!("kubectl rollout {plain} {object}{flags}"))],
    };
    let resume =
        |hold: &Hold| ("resume with", format!("kubectl ordered resume {object} {}{flags}", hold.label()));
    match &overview.phase {
        Phase::Held(hold) => vec![resume(hold)],
        Phase::Stalled(_) | Phase::DeadlineExceeded(_) => {
            let kind = if overview.family == Family::Plain { "deployment" } else { "od" };
            let mut commands = vec![("events", format!("kubectl describe {kind} {name}{flags}"))];
            commands.extend(overview.hold.as_ref().map(resume));
            if overview.is_rolling() {
                commands.extend(rollout("roll back with", "undo", "undo"));
            }
            commands
        }
        Phase::Migrating(migration) => vec![("finish with", migration.command(name, flags))],
        Phase::Aborted(_) => ordered("start again with", "retry"),
        Phase::Paused => rollout("continue with", "unpause", "resume"),
        Phase::Complete | Phase::Rolling | Phase::Suspended(_) | Phase::Unobserved => Vec::new(),
    }
}

pub(crate) fn head(overview: &Overview, drawing: Drawing<'_>) -> Vec<String> {
    let style = drawing.style;
    let (mark, state, paint) = headline(overview, style);
    let mut lines = vec![format!(
        "{}{}  {}",
        style.paint(Paint::Title, &overview.reference()),
        style.paint(Paint::Dim, &format!(" in {}", overview.namespace)),
        style.paint(paint, &format!("{mark} {state}")),
    )];
    lines.extend(counts(overview, drawing));
    if let Some(detail) = detail(overview) {
        lines.extend(wrapped(&format!("  {detail}"), drawing.width, "  "));
    }
    let command = |what: &str, command: &str| format!("  {what}: {}", style.paint(Paint::Title, command));
    lines.extend(commands(overview, drawing.flags).iter().map(|(what, next)| command(what, next)));
    let left = left(&overview.points_left);
    for note in overview.notes.iter().chain(&left) {
        let mut note = wrapped(&format!("  note: {note}"), drawing.width, "  ");
        if let Some(first) = note.first_mut() {
            *first = first.replacen("note:", &style.paint(Paint::Warn, "note:"), 1);
        }
        lines.extend(note);
    }
    if left.is_some() {
        let unmark = format!("kubectl ordered unmark --all {}{}", overview.reference(), drawing.flags);
        lines.push(command("remove all marks with", &unmark));
    }
    lines
}

pub(crate) fn counted(overview: &Overview) -> String {
    let others = [
        (Lifecycle::Pending, "pending"),
        (Lifecycle::Terminating, "terminating"),
        (Lifecycle::Finished, "finished"),
    ];
    let others = others.map(|(lifecycle, what)| match overview.count(lifecycle) {
        0 => String::new(),
        number => format!(", {number} {what}"),
    });
    let others = others.concat();
    format!(
        "{} desired, {} running{others}: {} updated, {} ready, {} available",
        overview.desired,
        overview.count(Lifecycle::Running),
        overview.updated,
        overview.ready(),
        overview.available,
    )
}

fn counts(overview: &Overview, drawing: Drawing<'_>) -> Vec<String> {
    let counts = format!("  {}", counted(overview));
    let strategy = drawing.style.paint(Paint::Dim, &overview.strategy);
    let both = counts.chars().count() + 2 + overview.strategy.chars().count();
    if drawing.width.is_none_or(|width| both <= width) {
        return vec![format!("{counts}  {strategy}")];
    }
    let mut lines = wrapped(&counts, drawing.width, "  ");
    lines.push(format!("  {strategy}"));
    lines
}

fn progress_back(aborted: &Aborted, overview: &Overview) -> String {
    let pods = |revision: i64| {
        let sets = overview.sets.iter().filter(move |set| set.revision == revision);
        sets.flat_map(|set| &set.pods).filter(|pod| pod.is_active())
    };
    let ready = pods(aborted.to).filter(|pod| pod.ready).count();
    let (left, desired) = (pods(aborted.revision).count(), overview.desired);
    format!(
        "{ready} of {desired} pods of revision {} are ready, {} of revision {} left",
        aborted.to,
        pods_in_words(left),
        aborted.revision
    )
}

fn paused_at(hold: &Hold, overview: &Overview) -> String {
    let node = hold.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    let until = match &hold.until {
        Some(until) => format!("resumes in {}", span(overview.now, until.0)),
        None => "until resumed".to_owned(),
    };
    let since = span(hold.since.0, overview.now);
    let Some(barrier) = overview.barrier.as_ref().filter(|barrier| barrier.declared.is_some()) else {
        return format!(
            "paused at pause point {} ({}){node} for {since}, {until}",
            hold.pod,
            side(hold.point)
        );
    };
    format!("paused at pause point {} for {since}, {until}; next is pod {}{node}", barrier.place(), hold.pod)
}

/// The head, the progress, and what goes next.
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
