//! A plan as a timeline: when pods are deleted, and the numbers at each pause point. Pure function.

use ordereddeployment_preview::{Action, Counts, End};
use serde::Serialize;

use super::forecast::{GUARANTEE, Plan};
use super::text::{assumptions, ends, length, outcome, place, summary};

/// The number of steps of the curve; neighboring deletions of a larger rollout are one step.
const STEPS: usize = 200;

/// A plan as a timeline. Times are seconds from its begin.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Timeline {
    summary: String,
    outcome: String,
    /// Whether the rollout completes.
    completes: bool,
    seconds: f64,
    /// The number of pods that are deleted.
    deletions: usize,
    /// The number of pods that are deleted by a time.
    curve: Vec<(f64, usize)>,
    pauses: Vec<Pause>,
    notes: Vec<String>,
    guaranteed: &'static str,
    assumptions: Vec<String>,
}

/// A pause of the rollout.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Pause {
    id: String,
    seconds: f64,
    /// The same in words.
    after: String,
    /// When it ends; `None` if the plan ends first.
    until: Option<f64>,
    place: String,
    ends: String,
    desired: i32,
    updated: i32,
    available: i32,
    /// The number of pods that are deleted before it.
    deleted: usize,
}

impl Timeline {
    pub(super) fn of(plan: &Plan) -> Self {
        let (mut curve, mut pauses): (Vec<(f64, usize)>, Vec<Pause>) = (Vec::new(), Vec::new());
        let mut deleted = 0;
        for step in &plan.preview.steps {
            let after = plan.preview.after(step.at);
            let seconds = after.as_secs_f64();
            match &step.action {
                Action::Delete { pods, .. } => {
                    deleted += pods.len();
                    curve.push((seconds, deleted));
                }
                Action::Held { hold, counts: Counts { desired, updated, available, .. } } => {
                    pauses.push(Pause {
                        id: hold.id.clone(),
                        seconds,
                        after: length(after),
                        until: None,
                        place: place(hold, plan),
                        ends: ends(hold),
                        desired: *desired,
                        updated: *updated,
                        available: *available,
                        deleted,
                    });
                }
                Action::Resumed { id, .. } => {
                    if let Some(pause) = pauses.iter_mut().rfind(|pause| pause.id == *id) {
                        pause.until = Some(seconds);
                    }
                }
                Action::Event(_) | Action::Create { .. } => {}
            }
        }
        let every = curve.len().div_ceil(STEPS).max(1);
        let last = curve.len().saturating_sub(1);
        let kept = curve.iter().enumerate().filter(|(index, _)| index % every == 0 || *index == last);
        Self {
            summary: summary(plan),
            outcome: outcome(plan),
            completes: plan.preview.end == End::Complete,
            seconds: plan.preview.after(plan.preview.ended).as_secs_f64(),
            deletions: deleted,
            curve: kept.map(|(_, step)| *step).collect(),
            pauses,
            notes: plan.notes.clone(),
            guaranteed: GUARANTEE,
            assumptions: assumptions(plan),
        }
    }
}
