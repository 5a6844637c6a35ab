//! The lines above the sets: counts, state, and what to do next. Pure.

use ordereddeployment_api::Hold;

use super::drawing::Drawing;
use crate::age::span;
use crate::overview::{Overview, Phase};
use crate::state::side;
use crate::style::Paint;
use crate::table::wrapped;

/// The lines above the sets.
pub(crate) fn head(overview: &Overview, drawing: Drawing<'_>) -> Vec<String> {
    let style = drawing.style;
    let revision = overview.revision;
    let (mark, state, paint) = match &overview.phase {
        Phase::Complete => (style.pick("✔", "*"), format!("complete at revision {revision}"), Paint::Good),
        Phase::Rolling => (style.pick("↻", "~"), format!("rolling out revision {revision}"), Paint::Title),
        Phase::Held(hold) => {
            (style.pick("‖", "="), format!("held on the way to revision {}", hold.revision), Paint::Warn)
        }
        Phase::Paused => (style.pick("‖", "="), "paused as a whole (spec.paused)".to_owned(), Paint::Warn),
        Phase::Moving(moving) => (style.pick("↻", "~"), moving.words().to_lowercase(), Paint::Warn),
        Phase::Stalled(_) => {
            (style.pick("✖", "!"), "stalled: somebody must change something".to_owned(), Paint::Bad)
        }
        Phase::Late(_) => {
            (style.pick("✖", "!"), "failed: the progress deadline has passed".to_owned(), Paint::Bad)
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
            lines.extend(indented(&where_held(hold, overview)));
            lines.push(command("resume with", "resume", overview, drawing));
        }
        Phase::Stalled(message) | Phase::Late(message) => {
            lines.extend(indented(message));
            let describe = format!("kubectl describe od {}{}", overview.name, drawing.flags);
            lines.push(format!("  its events: {}", style.paint(Paint::Title, &describe)));
            if overview.is_rolling() {
                lines.push(command("go back with", "undo", overview, drawing));
            }
        }
        Phase::Moving(moving) => {
            lines.extend(indented(&moving.message));
            let command = moving.command(&overview.name, drawing.flags);
            lines.push(format!("  finish it with: {}", style.paint(Paint::Title, &command)));
        }
        Phase::Paused => lines.push(command("go on with", "unpause", overview, drawing)),
        Phase::Complete | Phase::Rolling => {}
    }
    for note in &overview.notes {
        let mut note = wrapped(&format!("  note: {note}"), drawing.width, "  ");
        if let Some(first) = note.first_mut() {
            *first = first.replacen("note:", &style.paint(Paint::Warn, "note:"), 1);
        }
        lines.extend(note);
    }
    lines
}

/// How many pods are what, and how a rollout goes.
fn counts(overview: &Overview, drawing: Drawing<'_>) -> Vec<String> {
    let active = overview.active();
    let leaving = overview.pods().count() - active;
    let leaving = if leaving > 0 { format!(" and {leaving} leaving") } else { String::new() };
    let counts = format!(
        "  {} desired, {active} active{leaving}: {} updated, {} ready, {} available",
        overview.desired,
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

fn where_held(hold: &Hold, overview: &Overview) -> String {
    let node = hold.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    let until = match &hold.until {
        Some(until) => format!("goes on by itself in {}", span(overview.now, until.0)),
        None => "until resumed".to_owned(),
    };
    let since = span(hold.since.0, overview.now);
    format!("held {} {}{node} for {since} so far, {until}", side(hold.point), hold.pod)
}

fn command(what: &str, verb: &str, overview: &Overview, drawing: Drawing<'_>) -> String {
    let command = format!("kubectl ordered {verb} {}{}", overview.name, drawing.flags);
    format!("  {what}: {}", drawing.style.paint(Paint::Title, &command))
}
