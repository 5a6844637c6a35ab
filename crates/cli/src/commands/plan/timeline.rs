//! A plan as a timeline: when pods are deleted, and the numbers at each pause point. Pure function.

use ordereddeployment_preview::{Action, Counts, End};
use serde_json::{Value, json};

use super::forecast::{GUARANTEE, Plan};
use super::text::{assumptions, ends, length, outcome, place, summary};

/// The number of steps of the curve; neighboring deletions of a larger rollout are one step.
const STEPS: usize = 200;

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
