//! The phase: one name for the current state of the object. The decision, the act and the report match on it.

use ordereddeployment_api::{Violation, validate};

use crate::inventory::Inventory;
use crate::migration::{self, Migration};
use crate::points::Points;

/// The first phase that applies.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The spec violates rules that the API server did not check. Nothing is done.
    Invalid(Vec<Violation>),
    /// Pods migrate between a Deployment and this object. Nothing is done.
    Migrating(Migration),
    /// `replicas: 0`: every pod is deleted.
    ScaledToZero,
    /// Updated pods replace old ones, or a pause point is ahead.
    Rolling,
    /// There is no rollout. Pods are created and deleted by the number of replicas alone.
    Steady,
}

/// The inventory and what follows from it, computed once per decision.
#[derive(Debug)]
pub(crate) struct State<'c, 'a> {
    pub(crate) inventory: &'c Inventory<'a>,
    pub(crate) phase: Phase,
    /// The pause points ahead.
    pub(crate) points: Points<'c>,
    /// Whether the rollout is held at a pause point, or by `spec.paused`: it deletes no pod.
    pub(crate) is_held: bool,
    /// Whether every pod is of the current template and available, none is surplus, and no point is ahead.
    pub(crate) is_whole: bool,
    /// Whether the current template serves: no point is ahead, no old pod is left, enough are available.
    pub(crate) serves: bool,
}

impl<'c, 'a> State<'c, 'a> {
    pub(crate) fn of(inventory: &'c Inventory<'a>) -> Self {
        let points = Points::of(inventory);
        let is_alone = !inventory.revision.needs_comparison()
            && !inventory.aborts()
            && inventory.old_count() == 0
            && points.is_empty();
        let (desired, available) = (inventory.bounds.desired, inventory.updated_available);
        let serves = is_alone && desired > 0 && available >= inventory.bounds.floor.max(1);
        let is_all = inventory.updated_count() == desired && available == desired;
        let is_whole = is_alone && is_all;
        let is_paused = inventory.status.rollout.as_ref().is_some_and(|rollout| rollout.pause.is_some());
        let is_held = !inventory.aborts() && (inventory.status.hold.is_some() || is_paused);
        let phase = phase(inventory, &points);
        Self { inventory, phase, points, is_held, is_whole, serves }
    }

    /// Whether every pod is of the current template and available, and the set says that it serves. Otherwise
    /// a change of the template right after the report would go back to a revision before this one.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_whole && (!self.serves || self.inventory.has_served())
    }
}

fn phase(inventory: &Inventory<'_>, points: &Points<'_>) -> Phase {
    let violations: Vec<_> =
        validate(inventory.spec).into_iter().filter(|violation| !violation.is_of_points()).collect();
    if !violations.is_empty() {
        return Phase::Invalid(violations);
    }
    if let Some(migration) = migration::step(inventory.snapshot) {
        return Phase::Migrating(migration);
    }
    match inventory.bounds.desired {
        0 => Phase::ScaledToZero,
        _ if inventory.old_count() == 0 && points.is_empty() => Phase::Steady,
        _ => Phase::Rolling,
    }
}
