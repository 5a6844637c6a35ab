//! The pause point at which a rollout pauses.

use std::sync::Arc;

use ordereddeployment_api::{HeldPoint, OrderedDeploymentSpec, OrderedDeploymentStatus, PausePoint};
use ordereddeployment_planner::{BarrierPlace, RolloutOrder};

use crate::view::declared;
use crate::view::phase::side;

/// The pause point at which the rollout pauses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Barrier {
    pub(crate) uid: Arc<str>,
    pub(crate) pod: String,
    pub(crate) side: PausePoint,
    /// The name of a declared pause point.
    pub(crate) declared: Option<String>,
    /// What a declared pause point waits for: `3 of 12 updated`.
    pub(crate) waits_for: Option<String>,
    /// Whether the rollout is paused there.
    pub(crate) reached: bool,
    /// Whether a rollout is in progress; otherwise the next one pauses there.
    pub(crate) rolling: bool,
}

impl Barrier {
    /// `web-1 (before)`, or `canary (3 of 12 updated)` for a declared pause point.
    pub(crate) fn place(&self) -> String {
        match (&self.declared, &self.waits_for) {
            (None, _) => format!("{} ({})", self.pod, side(self.side)),
            (Some(name), Some(waits_for)) => format!("{name} ({waits_for})"),
            (Some(name), None) => name.clone(),
        }
    }
}

pub(super) fn barrier(
    status: &OrderedDeploymentStatus,
    lined_up: &RolloutOrder,
    spec: &OrderedDeploymentSpec,
) -> Option<Barrier> {
    if let Some(hold) = &status.hold {
        return Some(Barrier {
            uid: hold.pod_uid.as_str().into(),
            pod: hold.pod.clone(),
            side: hold.point,
            declared: hold.declared.as_ref().map(HeldPoint::label),
            waits_for: declared::of_hold(hold, spec),
            reached: true,
            rolling: true,
        });
    }
    let BarrierPlace { at, side, declared } = lined_up.points.first().cloned()?;
    let place = lined_up.places.get(at)?;
    Some(Barrier {
        uid: Arc::clone(&place.uid),
        pod: place.name.clone(),
        side,
        waits_for: declared.as_ref().and_then(|label| declared::label_waits_for(spec, label)),
        declared,
        reached: false,
        rolling: lined_up.rolls,
    })
}
