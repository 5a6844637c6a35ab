//! The lines above the sets: state, counts, and the next command. Pure functions.

use ordereddeployment_api::{Aborted, Hold};

use super::drawing::Drawing;
use crate::age::span;
use crate::overview::{Overview, Phase};
use crate::pause_points::left;
use crate::state::{rolled_back, side, suspended};
use crate::style::Paint;
use crate::table::wrapped;

/// The lines above the sets.
pub(crate) fn head(overview: &Overview, drawing: Drawing<'_>) -> Vec<String> {
    let style = drawing.style;
    let revision = overview.revision;
    let (mark, state, paint) = match &overview.phase {
        Phase::Unobserved => (style.pick("◌", "~"), "waiting for the controller".to_owned(), Paint::Warn),
        Phase::Complete => (style.pick("✔", "*"), format!("complete at revision {revision}"), Paint::Good),
        Phase::Rolling => (style.pick("↻", "~"), format!("rolling out revision {revision}"), Paint::Title),
        Phase::Suspended(revision) => {
            let state = format!("rollout to revision {revision} suspended at 0 replicas");
            (style.pick("‖", "="), state, Paint::Warn)
        }
        Phase::Held(hold) => {
            let state = format!("paused at a pause point of revision {}", hold.revision);
            (style.pick("‖", "="), state, Paint::Warn)
        }
        Phase::Aborted(aborted) => {
            let is_done = !overview.is_rolling() && overview.available >= overview.desired;
            (style.pick("✖", "!"), format!("aborted: {}", rolled_back(aborted, is_done)), Paint::Bad)
        }
        Phase::Paused => (style.pick("‖", "="), "paused (spec.paused)".to_owned(), Paint::Warn),
        Phase::Migrating(migration) => (style.pick("↻", "~"), migration.label().to_lowercase(), Paint::Warn),
        Phase::Stalled(_) => {
            (style.pick("✖", "!"), "stalled: the spec or the cluster must be changed".to_owned(), Paint::Bad)
        }
        Phase::DeadlineExceeded(_) => {
            (style.pick("✖", "!"), "failed: progress deadline exceeded".to_owned(), Paint::Bad)
        }
    };
    let mut lines = vec![format!(
        "{}{}  {}",
        style.paint(Paint::Title, &overview.name),
        style.paint(Paint::Dim, &format!(" in {}", overview.namespace)),
        style.paint(paint, &format!("{mark} {state}")),
    )];
    lines.extend(counts(overview, drawing));
    let indented = |text: &str| wrapped(&format!("  {text}"), drawing.width, "  ");
    match &overview.phase {
        Phase::Held(hold) => {
            lines.extend(indented(&paused_at(hold, overview)));
            lines.push(command("resume with", "resume", overview, drawing));
        }
        Phase::Stalled(message) | Phase::DeadlineExceeded(message) => {
            lines.extend(indented(message));
            let describe = format!("kubectl describe od {}{}", overview.name, drawing.flags);
            lines.push(format!("  events: {}", style.paint(Paint::Title, &describe)));
            if overview.is_rolling() {
                lines.push(command("roll back with", "undo", overview, drawing));
            }
        }
        Phase::Migrating(migration) => {
            lines.extend(indented(&migration.message));
            let command = migration.command(&overview.name, drawing.flags);
            lines.push(format!("  finish with: {}", style.paint(Paint::Title, &command)));
        }
        Phase::Aborted(aborted) => {
            lines.extend(indented(&progress_back(aborted, overview)));
            lines.push(command("start again with", "retry", overview, drawing));
        }
        Phase::Suspended(revision) => lines.extend(indented(&suspended(*revision))),
        Phase::Paused => lines.push(command("continue with", "unpause", overview, drawing)),
        Phase::Complete | Phase::Rolling | Phase::Unobserved => {}
    }
    let left = left(&overview.points_left);
    for note in overview.notes.iter().chain(&left) {
        let mut note = wrapped(&format!("  note: {note}"), drawing.width, "  ");
        if let Some(first) = note.first_mut() {
            *first = first.replacen("note:", &style.paint(Paint::Warn, "note:"), 1);
        }
        lines.extend(note);
    }
    if left.is_some() {
        lines.push(command("remove all marks with", "unmark --all", overview, drawing));
    }
    lines
}

/// The pod counts and the strategy.
fn counts(overview: &Overview, drawing: Drawing<'_>) -> Vec<String> {
    let counted = |number: usize, what: &str| (number > 0).then(|| format!(", {number} {what}"));
    let others = [
        counted(overview.pending(), "pending"),
        counted(overview.terminating(), "terminating"),
        counted(overview.finished(), "finished"),
    ];
    let others: String = others.into_iter().flatten().collect();
    let counts = format!(
        "  {} desired, {} running{others}: {} updated, {} ready, {} available",
        overview.desired,
        overview.running(),
        overview.updated,
        overview.ready(),
        overview.available,
    );
    let strategy = drawing.style.paint(Paint::Dim, &overview.strategy);
    let both = counts.chars().count() + 2 + overview.strategy.chars().count();
    if drawing.width.is_none_or(|width| both <= width) {
        return vec![format!("{counts}  {strategy}")];
    }
    let mut lines = wrapped(&counts, drawing.width, "  ");
    lines.push(format!("  {strategy}"));
    lines
}

/// How far the rollback is.
fn progress_back(aborted: &Aborted, overview: &Overview) -> String {
    let pods = |revision: i64| {
        let sets = overview.sets.iter().filter(move |set| set.revision == revision);
        sets.flat_map(|set| &set.pods).filter(|pod| pod.is_active())
    };
    let ready = pods(aborted.to).filter(|pod| pod.ready).count();
    let (left, desired) = (pods(aborted.revision).count(), overview.desired);
    let plural = if left == 1 { "" } else { "s" };
    format!(
        "{ready} of {desired} pods of revision {} are ready, {left} pod{plural} of revision {} left",
        aborted.to, aborted.revision
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

fn command(what: &str, verb: &str, overview: &Overview, drawing: Drawing<'_>) -> String {
    let command = format!("kubectl ordered {verb} {}{}", overview.name, drawing.flags);
    format!("  {what}: {}", drawing.style.paint(Paint::Title, &command))
}
