//! A plan as JSON, for programs.

use ordereddeployment_api::HeldPoint;
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{EventType, Purpose};
use ordereddeployment_preview::{Action, End, Step};
use serde_json::{Value, json};

use super::forecast::{GUARANTEE, Plan};

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
            "readyAfterSeconds": plan.ready_after.as_secs_f64(),
            "goneAfterSeconds": plan.gone_after.as_secs_f64(),
            "resumedAfterSeconds": plan.resumed_after.as_secs_f64(),
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
