//! A plan as text and as JSON. It adds nothing to what was previewed.

use std::time::Duration;

use anyhow::Result;
use jiff::SignedDuration;
use ordereddeployment_api::names::reason;
use ordereddeployment_api::{Hold, HoldReason, PausePoint};
use ordereddeployment_planner::{EventType, Purpose};
use ordereddeployment_preview::{Deleted, End, Step, What};
use serde_json::{Value, json};

use super::Plan;
use crate::style::{Paint, Style};

const PROMISE: &str =
    "the sequence of priorities and the pause points; within one priority the order is as of now";

pub(super) fn text(plan: &Plan, style: Style) -> String {
    let mut lines = vec![headline(plan, style)];
    lines.extend(plan.notes.iter().map(|note| format!("{} {note}", style.paint(Paint::Warn, "note:"))));
    let mut times: Vec<String> = Vec::new();
    let mut told: Vec<String> = Vec::new();
    let mut deletions = 0;
    for step in &plan.preview.steps {
        for line in step_lines(plan, step, &mut deletions, style) {
            times.push(length(plan.preview.after(step.at)));
            told.push(line);
        }
    }
    let width = times.iter().map(String::len).max().unwrap_or(0);
    let mut last = "";
    for (time, line) in times.iter().zip(&told) {
        let shown = if time == last { "" } else { time.as_str() };
        let blanks = " ".repeat(width - shown.len());
        lines.push(format!("  {blanks}{}  {line}", style.paint(Paint::Dim, shown)));
        last = time;
    }
    lines.push(outcome(plan, style));
    if !told.is_empty() {
        lines.push(format!("{} {PROMISE}.", style.paint(Paint::Dim, "promised:")));
        lines.push(format!("{} {}.", style.paint(Paint::Dim, "assumed:"), assumed(plan)));
    }
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

fn headline(plan: &Plan, style: Style) -> String {
    let name = style.paint(Paint::Title, &plan.name);
    let deleted = pods(plan.preview.deleted().count());
    let halts = plan.preview.holds().count();
    let halts = match halts {
        0 => "no halt".to_owned(),
        1 => "one halt".to_owned(),
        more => format!("{more} halts"),
    };
    let created = plan.preview.created();
    if plan.preview.deleted().next().is_none() && created == 0 {
        return format!("{name}: no pod would come or go");
    }
    format!("{name}: {deleted} would be deleted, {created} created, with {halts}")
}

fn step_lines(plan: &Plan, step: &Step, deletions: &mut usize, style: Style) -> Vec<String> {
    match &step.what {
        What::Told(event) if event.reason == reason::ROLLOUT_STARTED => vec![event.message.clone()],
        What::Told(event)
            if event.type_ == EventType::Warning && event.reason != reason::PAUSE_POINT_REACHED =>
        {
            vec![format!("{} {}", style.paint(Paint::Warn, "warning:"), event.message)]
        }
        What::Told(_) => Vec::new(),
        What::Create { set, revision, count } => {
            vec![format!("create {} of {set}, revision {revision}", pods(*count))]
        }
        What::Delete { purpose, pods } => pods
            .iter()
            .map(|pod| {
                *deletions += 1;
                deletion(*deletions, pod, *purpose)
            })
            .collect(),
        What::Held(hold) => vec![style.paint(Paint::Warn, &halt(plan, hold, style))],
        What::Resumed { id, assumed } => {
            let by = if *assumed { "as is assumed" } else { "its time is over" };
            vec![style.paint(Paint::Good, &format!("resumed {id} ({by})"))]
        }
    }
}

fn deletion(number: usize, pod: &Deleted, purpose: Purpose) -> String {
    let name = if pod.made_up { "a pod created meanwhile" } else { &pod.name };
    let node = pod.node.as_ref().map_or_else(|| " (on no node)".to_owned(), |node| format!(" on {node}"));
    let why = pod.why.as_ref().map_or_else(|| "the last one".to_owned(), ToString::to_string);
    let what = match purpose {
        Purpose::Rollout => "",
        Purpose::Scale => ", scaling down",
    };
    format!("delete {number:>2}. {name}{node}{what}: {why}")
}

fn halt(plan: &Plan, hold: &Hold, style: Style) -> String {
    let line = style.pick("──", "--");
    let side = match hold.point {
        PausePoint::Before => "before",
        PausePoint::After => "after",
    };
    let blocked = match hold.reason {
        HoldReason::Blocked => ", blocked: too few pods are available to go on",
        HoldReason::PausePoint => "",
    };
    let ends = match &hold.until {
        Some(until) => format!("ends by itself after {}", length(until.0.duration_since(hold.since.0))),
        None => format!("goes on with `kubectl ordered resume {}`", plan.name),
    };
    format!("{line} halts {side} {}{blocked}; {ends} {line}", hold.pod)
}

fn outcome(plan: &Plan, style: Style) -> String {
    let after = length(plan.preview.after(plan.preview.ended));
    match &plan.preview.end {
        End::Complete => {
            let text = if plan.preview.steps.is_empty() {
                "It is complete.".to_owned()
            } else {
                format!("Complete after {after}.")
            };
            style.paint(Paint::Good, &text)
        }
        End::Paused => style.paint(Paint::Warn, "It goes no further while spec.paused is set."),
        End::Stuck { reason, message } => {
            style.paint(Paint::Warn, &format!("After {after} it goes no further. {reason}: {message}"))
        }
        End::Unending => {
            style.paint(Paint::Warn, &format!("After {after} it still goes on; no more is shown."))
        }
    }
}

fn assumed(plan: &Plan) -> String {
    let learned = if plan.ready_after_learned { ", as the present ones were" } else { "" };
    let mut all = vec![
        format!("new pods are ready {} after they have a node{learned}", short(plan.ready_after)),
        format!("deleted ones are gone after {}", short(plan.gone_after)),
        "new pods go to the node with the fewest pods that takes them by labels, taints and cordons"
            .to_owned(),
        "the present ones stay as they are".to_owned(),
    ];
    if plan.preview.holds().next().is_some() {
        all.insert(2, format!("halts are resumed after {}", short(plan.resumed_after)));
    }
    all.join("; ")
}

pub(super) fn json(plan: &Plan) -> Result<String> {
    let steps: Vec<Value> = plan.preview.steps.iter().filter_map(|step| json_step(plan, step)).collect();
    let outcome = match &plan.preview.end {
        End::Complete => json!({"result": "Complete"}),
        End::Paused => json!({"result": "Paused"}),
        End::Stuck { reason, message } => json!({"result": "Stuck", "reason": reason, "message": message}),
        End::Unending => json!({"result": "Unending"}),
    };
    let all = json!({
        "name": plan.name,
        "namespace": plan.namespace,
        "at": plan.preview.start,
        "steps": steps,
        "outcome": outcome,
        "seconds": seconds(plan.preview.after(plan.preview.ended)),
        "promised": PROMISE,
        "assumed": {
            "readyAfterSeconds": plan.ready_after.as_secs_f64(),
            "goneAfterSeconds": plan.gone_after.as_secs_f64(),
            "resumedAfterSeconds": plan.resumed_after.as_secs_f64(),
        },
        "notes": plan.notes,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&all)?))
}

fn json_step(plan: &Plan, step: &Step) -> Option<Value> {
    let mut value = match &step.what {
        What::Told(event) => {
            let warns = event.type_ == EventType::Warning;
            (warns || event.reason == reason::ROLLOUT_STARTED)
                .then(|| json!({"step": "Event", "reason": event.reason, "message": event.message}))?
        }
        What::Create { set, revision, count } => {
            json!({"step": "Create", "set": set, "revision": revision, "count": count})
        }
        What::Delete { purpose, pods } => {
            let pods: Vec<Value> = pods
                .iter()
                .map(|pod| {
                    json!({
                        "name": (!pod.made_up).then_some(&pod.name),
                        "node": pod.node,
                        "priority": pod.priority,
                        "available": pod.available,
                        "why": pod.why.as_ref().map(ToString::to_string),
                    })
                })
                .collect();
            let purpose = match purpose {
                Purpose::Rollout => "Rollout",
                Purpose::Scale => "Scale",
            };
            json!({"step": "Delete", "for": purpose, "pods": pods})
        }
        What::Held(hold) => json!({
            "step": "Hold", "id": hold.id, "pod": hold.pod, "point": hold.point, "reason": hold.reason,
            "until": hold.until,
        }),
        What::Resumed { id, assumed } => json!({"step": "Resume", "id": id, "assumed": assumed}),
    };
    value["seconds"] = json!(seconds(plan.preview.after(step.at)));
    Some(value)
}

fn seconds(duration: SignedDuration) -> f64 {
    duration.as_secs_f64()
}

fn pods(count: usize) -> String {
    format!("{count} pod{}", if count == 1 { "" } else { "s" })
}

fn short(duration: Duration) -> String {
    length(SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX))
}

/// Hours, minutes and seconds; what is zero is left out.
fn length(duration: SignedDuration) -> String {
    let total = duration.as_secs();
    let parts = [(total / 3600, "h"), (total / 60 % 60, "m"), (total % 60, "s")];
    let shown: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if shown.is_empty() { "0s".to_owned() } else { shown.concat() }
}
