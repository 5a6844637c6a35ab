//! A plan as text: a table of steps, with a line for each pause and the command that resumes it.

use std::time::Duration;

use jiff::SignedDuration;
use ordereddeployment_api::Hold;
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{EventType, Purpose};
use ordereddeployment_preview::{Action, Counts, Deleted, End, Step};

use super::forecast::{GUARANTEE, Plan};
use crate::client::quoted;
use crate::terminal::escape::escaped;
use crate::terminal::style::Paint;
use crate::terminal::table::{Align, Dropped, REASON, Table, shortened, text_of, wrapped};
use crate::view::declared;
use crate::view::phase::side;
use crate::view::pod::pods_in_words;
use crate::view::tree::Drawing;

const INDENT: &str = "  ";
const COLUMNS: [(&str, Align); 6] = [
    ("TIME", Align::Left),
    ("STEP", Align::Left),
    ("POD", Align::Left),
    ("NODE", Align::Left),
    ("PRIO", Align::Right),
    ("WHY", Align::Left),
];
/// The columns that are left out if lines are too wide, in this order.
const DROPPED: [Dropped; 2] = [("PRIO", REASON), ("NODE", REASON)];

/// The steps of a folded run that are shown at its start and at its end, and how many it hides at least.
const FIRST: usize = 12;
const LAST: usize = 4;
const MANY: usize = 20;

/// A line of the table.
#[derive(Clone)]
enum Row {
    /// A deleted pod: its cells, without the time.
    Pod(Vec<String>),
    /// Another step.
    Step(String, Option<Paint>),
    /// A line across the columns, without a time.
    Across(String, Paint),
}

pub(super) fn text(plan: &Plan, drawing: Drawing<'_>) -> String {
    let style = drawing.style;
    let mut lines = headline(plan, drawing);
    for note in &plan.notes {
        let note = wrapped(&format!("note: {note}"), drawing.width, INDENT);
        lines.extend(note.iter().map(|line| style.paint(Paint::Warn, line)));
    }
    let rows = if drawing.fold.all { rows(plan, drawing) } else { folded(&rows(plan, drawing)) };
    lines.extend(table(&rows, drawing));
    lines.extend(wrapped(&outcome(plan), drawing.width, "").into_iter().map(|line| {
        let paint = if plan.preview.end == End::Complete { Paint::Good } else { Paint::Warn };
        style.paint(paint, &line)
    }));
    if plan.is_rest && plan.preview.steps.is_empty() && plan.preview.end == End::Complete {
        lines.extend(examples(plan, drawing));
    }
    if !rows.is_empty() {
        lines.push(String::new());
        let guaranteed = wrapped(&format!("Guaranteed: {GUARANTEE}."), drawing.width, INDENT);
        lines.extend(guaranteed.iter().map(|line| style.paint(Paint::Dim, line)));
        lines.push(style.paint(Paint::Dim, "Assumptions:"));
        for assumption in assumptions(plan) {
            let bullet = wrapped(&format!("{INDENT}- {assumption}"), drawing.width, "    ");
            lines.extend(bullet.iter().map(|line| style.paint(Paint::Dim, line)));
        }
        if let Some(next) = &plan.next {
            lines.push(format!("Apply with: {}", style.paint(Paint::Title, next)));
        }
    }
    text_of(&lines)
}

/// What to do next without a rollout: the commands that preview a change.
fn examples(plan: &Plan, drawing: Drawing<'_>) -> Vec<String> {
    let (name, flags) = (&plan.name, drawing.flags);
    let template = plan.spec.template.value();
    let container = template.pointer("/spec/containers/0/name").and_then(serde_json::Value::as_str);
    let container = container.unwrap_or("*");
    let image = quoted(&format!("{container}=IMAGE"));
    let commands = [format!("--image {image}"), "--replicas N".to_owned(), "-f FILE".to_owned()];
    let mut lines = wrapped("No rollout is running. Preview a change with:", drawing.width, "");
    for change in commands {
        let command = format!("{INDENT}kubectl ordered plan {name} {change}{flags}");
        lines.push(drawing.style.paint(Paint::Title, &escaped(&command)));
    }
    lines
}

fn headline(plan: &Plan, drawing: Drawing<'_>) -> Vec<String> {
    let style = drawing.style;
    let name = format!(
        "{}{}",
        style.paint(Paint::Title, &plan.name),
        style.paint(Paint::Dim, &format!(" in {}", plan.namespace))
    );
    let summary = summary(plan);
    let both = plan.name.chars().count() + plan.namespace.chars().count() + 6 + summary.chars().count();
    if drawing.width.is_none_or(|width| both <= width) {
        return vec![format!("{name}: {summary}")];
    }
    let mut lines = vec![format!("{name}:")];
    lines.extend(wrapped(&format!("{INDENT}{summary}"), drawing.width, INDENT));
    lines
}

/// Folds long runs of deletes and creates without a pause, a warning or a resume between them.
fn folded(rows: &[(String, Row)]) -> Vec<(String, Row)> {
    let is_plain = |(_, row): &(String, Row)| matches!(row, Row::Pod(_) | Row::Step(_, None));
    let mut kept = Vec::new();
    for run in rows.chunk_by(|one, next| is_plain(one) == is_plain(next)) {
        let hidden = run.len().saturating_sub(FIRST + LAST);
        if hidden < MANY || !run.first().is_some_and(is_plain) {
            kept.extend_from_slice(run);
            continue;
        }
        kept.extend_from_slice(&run[..FIRST]);
        let pods = run[FIRST..FIRST + hidden].iter().filter(|(_, row)| matches!(row, Row::Pod(_))).count();
        let text = format!("... {pods} more deletes in this order (--all shows them)");
        kept.push((String::new(), Row::Step(text, Some(Paint::Dim))));
        kept.extend_from_slice(&run[FIRST + hidden..]);
    }
    kept
}

/// What the plan does, in one line.
pub(super) fn summary(plan: &Plan) -> String {
    let deleted = plan.preview.deleted().count();
    let created = plan.preview.created();
    if deleted == 0 && created == 0 {
        return "no pod would be created or deleted".to_owned();
    }
    let pauses = match plan.preview.holds().count() {
        0 => "no pause".to_owned(),
        1 => "pausing at 1 pause point".to_owned(),
        more => format!("pausing at {more} pause points"),
    };
    format!("{} would be deleted, {created} created, {pauses}", pods_in_words(deleted))
}

/// The lines with their times. A time is printed once.
fn rows(plan: &Plan, drawing: Drawing<'_>) -> Vec<(String, Row)> {
    let (mut rows, mut deletions, mut last) = (Vec::new(), 0, String::new());
    let all = plan.preview.deleted().count();
    for step in &plan.preview.steps {
        let time = length(plan.preview.after(step.at));
        for row in step_rows(plan, step, (&mut deletions, all), drawing) {
            let is_shown = time != last && !matches!(row, Row::Across(..));
            rows.push((if is_shown { time.clone() } else { String::new() }, row));
            if is_shown {
                last.clone_from(&time);
            }
        }
    }
    rows
}

fn step_rows(
    plan: &Plan,
    step: &Step,
    (deletions, all): (&mut usize, usize),
    drawing: Drawing<'_>,
) -> Vec<Row> {
    match &step.action {
        Action::Event(event) if event.reason == reason::ROLLOUT_STARTED => {
            vec![Row::Step(event.message.clone(), Some(Paint::Title))]
        }
        Action::Event(event)
            if event.type_ == EventType::Warning && event.reason != reason::PAUSE_POINT_REACHED =>
        {
            vec![Row::Step(format!("warning: {}", event.message), Some(Paint::Warn))]
        }
        Action::Event(_) => Vec::new(),
        Action::Create { set, revision, count } => {
            let created = format!("create {} of revision {revision} ({set})", pods_in_words(*count));
            vec![Row::Step(created, None)]
        }
        Action::Delete { purpose, pods } => pods
            .iter()
            .map(|pod| {
                *deletions += 1;
                Row::Pod(deletion((*deletions, all), pod, *purpose))
            })
            .collect(),
        Action::Held { hold, counts } => {
            let line = drawing.style.pick("━━", "==");
            let so_far = match (*deletions, plan.preview.after(step.at).is_zero()) {
                (0, true) => format!("{} left to delete", pods_in_words(all)),
                (deleted, _) => format!("{} deleted so far", pods_in_words(deleted)),
            };
            let Counts { desired, updated, available } = counts;
            let so_far = format!(
                "paused at {}: {updated} of {desired} updated, {available} available; {so_far}",
                place(hold, plan)
            );
            vec![
                Row::Across(format!("{line} {so_far}"), Paint::Warn),
                Row::Across(format!("   {}", resume_hint(plan, hold, drawing.flags)), Paint::Title),
            ]
        }
        Action::Resumed { id, assumed } => {
            let by = if *assumed { "assumed" } else { "pause-duration elapsed" };
            vec![Row::Step(format!("resumed {id} ({by})"), Some(Paint::Good))]
        }
    }
}

fn deletion((number, all): (usize, usize), pod: &Deleted, purpose: Purpose) -> Vec<String> {
    let name = if pod.is_simulated { "a new pod" } else { &pod.name };
    let why = match purpose {
        Purpose::Rollout => pod.why.to_string(),
        Purpose::Scale => format!("scaling down; {}", pod.why),
    };
    vec![
        format!("delete {number:>width$}.", width = all.to_string().len()),
        name.to_owned(),
        pod.node.as_deref().unwrap_or("-").to_owned(),
        pod.priority.to_string(),
        why,
    ]
}

pub(super) fn place(hold: &Hold, plan: &Plan) -> String {
    if let Some(declared) = &hold.declared {
        // The number of updated pods is beside it.
        let waits_for = declared::of_hold(hold, &plan.spec).filter(|_| {
            let mut points = plan.spec.strategy.points();
            points.any(|point| point.name == declared.name && point.after_updated.is_none())
        });
        let waits_for = waits_for.map(|waits_for| format!(" ({waits_for})")).unwrap_or_default();
        return format!("pause point {}{waits_for}", declared.label());
    }
    let node = hold.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    format!("pause point {} ({}){node}", hold.pod, side(hold.point))
}

fn resume_hint(plan: &Plan, hold: &Hold, flags: &str) -> String {
    let command = format!("kubectl ordered resume {} {}{flags}", plan.name, hold.label());
    match hold.until {
        Some(_) => format!("{}, or with: {command}", ends(hold)),
        None => format!("{}; resume with: {command}", ends(hold)),
    }
}

pub(super) fn ends(hold: &Hold) -> String {
    match &hold.until {
        Some(until) => format!("resumes after {}", length(until.0.duration_since(hold.since.0))),
        None => "until resumed".to_owned(),
    }
}

fn table(rows: &[(String, Row)], drawing: Drawing<'_>) -> Vec<String> {
    let style = drawing.style;
    let cells = rows.iter().map(|(time, row)| {
        let pod = if let Row::Pod(cells) = row { cells.as_slice() } else { &[] };
        std::iter::once(time).chain(pod).cloned().collect()
    });
    let room = drawing.width.map(|width| width.saturating_sub(INDENT.len()));
    let table = Table::new(COLUMNS.to_vec(), cells.collect()).fit(room, &DROPPED);
    // The start of the second column.
    let beside = table.line(&[String::new(), "x".to_owned()]).chars().count() - 1;
    let mut lines = Vec::new();
    if rows.iter().any(|(_, row)| matches!(row, Row::Pod(_))) {
        lines.push(style.paint(Paint::Dim, &format!("{INDENT}{}", table.headings())));
    }
    for ((time, row), line) in rows.iter().zip(table.rows()) {
        match row {
            Row::Pod(_) => {
                lines.push(format!("{INDENT}{}", shortened(line, room.unwrap_or(usize::MAX), style)));
            }
            Row::Across(text, paint) => {
                let text = wrapped(&format!("{INDENT}{text}"), drawing.width, "     ");
                lines.extend(text.iter().map(|line| style.paint(*paint, line)));
            }
            Row::Step(text, paint) => {
                let room = room.map(|room| room.saturating_sub(beside));
                for (index, part) in wrapped(text, room, "").into_iter().enumerate() {
                    let time = if index == 0 { time.clone() } else { String::new() };
                    let time = table.line(&[time, "x".to_owned()]);
                    let time = time.strip_suffix('x').unwrap_or_default();
                    let part = paint.map_or_else(|| part.clone(), |paint| style.paint(paint, &part));
                    lines.push(format!("{INDENT}{time}{part}"));
                }
            }
        }
    }
    lines
}

pub(super) fn outcome(plan: &Plan) -> String {
    let after = length(plan.preview.after(plan.preview.ended));
    match &plan.preview.end {
        End::Complete if plan.preview.steps.is_empty() => "Complete.".to_owned(),
        End::Complete => format!("Complete after {after}."),
        End::RolledBack { revision, to } => format!(
            "Rolled back to revision {to} after {after}: revision {revision} is aborted, and starts again \
             with kubectl ordered retry {}.",
            plan.name
        ),
        End::Paused => "The rollout does not continue while spec.paused is set.".to_owned(),
        End::Stalled { reason, message } => format!("No progress after {after}. {reason}: {message}"),
        End::LimitReached => format!("Not complete after {after}; later steps are not shown."),
    }
}

pub(super) fn assumptions(plan: &Plan) -> Vec<String> {
    let learned = if plan.ready_after_learned { ", like the current pods" } else { "" };
    let mut all = vec![
        format!(
            "new pods are ready {} after they are scheduled{learned} (--ready-after)",
            short(plan.assumptions.ready_after)
        ),
        format!("deleted pods are removed after {} (--gone-after)", short(plan.assumptions.gone_after)),
        "new pods are scheduled to the matching node with the fewest pods (labels, taints, cordons)"
            .to_owned(),
        "the current pods do not change".to_owned(),
    ];
    if plan.preview.holds().next().is_some() {
        all.insert(
            2,
            format!(
                "each pause is resumed after {} (--resumed-after)",
                short(plan.assumptions.resumed_after)
            ),
        );
    }
    all
}

fn short(duration: Duration) -> String {
    length(SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX))
}

/// Hours, minutes and seconds, without parts that are zero.
pub(super) fn length(duration: SignedDuration) -> String {
    let total = duration.as_secs();
    let parts = [(total / 3600, "h"), (total / 60 % 60, "m"), (total % 60, "s")];
    let shown: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if shown.is_empty() { "0s".to_owned() } else { shown.concat() }
}
