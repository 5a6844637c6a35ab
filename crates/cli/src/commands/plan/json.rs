//! A plan as JSON: its steps for programs, and its timeline for the dashboard. Pure functions.

use ordereddeployment_api::HeldPoint;
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{EventType, Purpose};
use ordereddeployment_preview::{Action, Counts, End, Step};
use serde_json::{Value, json};

use super::forecast::{GUARANTEE, Plan};
use super::text::{assumptions, ends, length, outcome, place, summary};

/// The number of steps of the curve; neighboring deletions of a larger rollout are one step.
const STEPS: usize = 200;

pub(super) fn json(plan: &Plan) -> Value {
    let steps: Vec<Value> = plan.preview.steps.iter().filter_map(|step| json_step(plan, step)).collect();
    let outcome = match &plan.preview.end {
        End::Complete => json!({"result": "Complete"}),
        End::RolledBack { revision, to } => json!({"result": "RolledBack", "aborted": revision, "to": to}),
        End::Paused => json!({"result": "Paused"}),
        End::Stalled { reason, message } => json!({"result": "Stuck", "reason": reason, "message": message}),
        End::LimitReached => json!({"result": "Unending"}),
    };
    json!({
        "name": plan.name,
        "namespace": plan.namespace,
        "at": plan.preview.start,
        "steps": steps,
        "outcome": outcome,
        "seconds": plan.preview.after(plan.preview.ended).as_secs_f64(),
        "promised": GUARANTEE,
        "assumed": {
            "readyAfterSeconds": plan.assumptions.ready_after.as_secs_f64(),
            "goneAfterSeconds": plan.assumptions.gone_after.as_secs_f64(),
            "resumedAfterSeconds": plan.assumptions.resumed_after.as_secs_f64(),
        },
        "notes": plan.notes,
    })
}

fn json_step(plan: &Plan, step: &Step) -> Option<Value> {
    let mut value = match &step.action {
        Action::Event(event) => {
            let warns = event.type_ == EventType::Warning;
            (warns || event.reason == reason::ROLLOUT_STARTED)
                .then(|| json!({"step": "Event", "reason": event.reason, "message": event.message}))?
        }
        Action::Create { set, revision, count } => {
            json!({"step": "Create", "set": set, "revision": revision, "count": count})
        }
        Action::Delete { purpose, pods } => {
            let pods: Vec<Value> = pods
                .iter()
                .map(|pod| {
                    json!({
                        "name": (!pod.is_simulated).then_some(&pod.name),
                        "node": pod.node,
                        "priority": pod.priority,
                        "available": pod.available,
                        "why": pod.why.to_string(),
                    })
                })
                .collect();
            let purpose = match purpose {
                Purpose::Rollout => "Rollout",
                Purpose::Scale => "Scale",
            };
            json!({"step": "Delete", "for": purpose, "pods": pods})
        }
        Action::Held { hold, counts } => json!({
            "step": "Hold", "id": hold.id, "pod": hold.pod, "point": hold.point,
            "declared": hold.declared.as_ref().map(HeldPoint::label), "until": hold.until,
            "desired": counts.desired, "updated": counts.updated, "available": counts.available,
        }),
        Action::Resumed { id, assumed } => json!({"step": "Resume", "id": id, "assumed": assumed}),
    };
    value["seconds"] = json!(plan.preview.after(step.at).as_secs_f64());
    Some(value)
}

/// A plan as a timeline. Times are seconds from its begin.
pub(super) fn timeline(plan: &Plan) -> Value {
    // The number of pods that are deleted by a time, and the pauses.
    let (mut curve, mut pauses): (Vec<(f64, usize)>, Vec<Value>) = (Vec::new(), Vec::new());
    let mut deleted = 0;
    for step in &plan.preview.steps {
        let after = plan.preview.after(step.at);
        let seconds = after.as_secs_f64();
        match &step.action {
            Action::Delete { pods, .. } => {
                deleted += pods.len();
                curve.push((seconds, deleted));
            }
            // Without `until` the plan ends first.
            Action::Held { hold, counts: Counts { desired, updated, available, .. } } => pauses.push(json!({
                "id": hold.id, "seconds": seconds, "after": length(after), "until": null,
                "place": place(hold, plan), "ends": ends(hold),
                "desired": desired, "updated": updated, "available": available, "deleted": deleted,
            })),
            Action::Resumed { id, .. } => {
                if let Some(pause) = pauses.iter_mut().rfind(|pause| pause["id"] == id.as_str()) {
                    pause["until"] = json!(seconds);
                }
            }
            Action::Event(_) | Action::Create { .. } => {}
        }
    }
    let every = curve.len().div_ceil(STEPS).max(1);
    let last = curve.len().saturating_sub(1);
    let kept = curve.iter().enumerate().filter(|(index, _)| index % every == 0 || *index == last);
    json!({
        "summary": summary(plan), "outcome": outcome(plan), "completes": plan.preview.end == End::Complete,
        "seconds": plan.preview.after(plan.preview.ended).as_secs_f64(), "deletions": deleted,
        "curve": kept.map(|(_, step)| step).collect::<Vec<_>>(), "pauses": pauses, "notes": plan.notes,
        "guaranteed": GUARANTEE, "assumptions": assumptions(plan),
    })
}
