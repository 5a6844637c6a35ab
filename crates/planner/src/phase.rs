//! The phase: one name for the current state of the object. The decision, the act and the report match on it.

use ordereddeployment_api::{Violation, validate};

use crate::barrier::{self, Divided, held};
use crate::declared;
use crate::inventory::Inventory;
use crate::kept;
use crate::migration::{self, Migration};
use crate::sizes::Sizes;

/// The first phase that applies.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The spec violates rules that the API server did not check. Nothing is done.
    Invalid(Vec<Violation>),
    /// Pods migrate between a Deployment and this object. Nothing is done.
    Migrating(Migration),
    /// The rollout is paused at a pause point. The sets keep these sizes.
    Held(Sizes),
    /// `spec.paused` is set, or the rollout was suspended at `replicas: 0`. The sets keep these sizes.
    Paused(Sizes),
    /// `replicas: 0`: every pod is deleted.
    ScaledToZero,
    /// Old pods are deleted first, then updated ones are created.
    Recreating,
    /// Updated pods replace old ones, a few at a time.
    Rolling,
    /// There are no old pods. Pods are created and deleted by the number of replicas alone.
    Steady,
}

/// The inventory and what follows from it, computed once per decision.
#[derive(Debug)]
pub(crate) struct State<'c, 'a> {
    pub(crate) inventory: &'c Inventory<'a>,
    pub(crate) phase: Phase,
    /// The old pods ahead of the barrier, and those behind it.
    pub(crate) divided: Divided<'c, 'a>,
    /// Whether every pod is of the current template and available, and none is surplus.
    pub(crate) is_complete: bool,
    /// Whether the current template serves: no point is ahead, no old pod is left, and enough pods are available.
    pub(crate) serves: bool,
}

impl<'c, 'a> State<'c, 'a> {
    pub(crate) fn of(inventory: &'c Inventory<'a>) -> Self {
        Self {
            inventory,
            phase: phase(inventory),
            divided: barrier::divide(inventory),
            is_complete: is_complete(inventory),
            serves: serves(inventory),
        }
    }

    /// The sizes that a hold or a pause keeps; `None`: the rollout runs.
    pub(crate) fn kept(&self) -> Option<&Sizes> {
        match &self.phase {
            Phase::Held(sizes) | Phase::Paused(sizes) => Some(sizes),
            _ => None,
        }
    }
}

fn phase(inventory: &Inventory<'_>) -> Phase {
    let violations = validate(inventory.spec);
    if !violations.is_empty() {
        return Phase::Invalid(violations);
    }
    if let Some(migration) = migration::step(inventory.snapshot) {
        return Phase::Migrating(migration);
    }
    match kept::kept_sizes(inventory) {
        Some(sizes) if held(inventory.status).is_some() => Phase::Held(sizes),
        Some(sizes) => Phase::Paused(sizes),
        None if inventory.bounds.desired == 0 => Phase::ScaledToZero,
        None if inventory.old_count() == 0 && !lacks_old(inventory) => Phase::Steady,
        None if inventory.recreate() => Phase::Recreating,
        None => Phase::Rolling,
    }
}

/// Whether all old pods were lost before the rollout passed a point with `afterUpdated`: they come back.
fn lacks_old(inventory: &Inventory<'_>) -> bool {
    inventory.old_count() == 0 && declared::most_updated(inventory).is_some()
}

fn is_complete(inventory: &Inventory<'_>) -> bool {
    let desired = inventory.bounds.desired;
    is_alone(inventory) && inventory.updated_count() == desired && inventory.updated_available() == desired
}

fn serves(inventory: &Inventory<'_>) -> bool {
    let least = inventory.bounds.floor.max(1);
    is_alone(inventory) && inventory.bounds.desired > 0 && inventory.updated_available() >= least
}

/// Whether the rollout has nothing left to replace, and no point to reach.
fn is_alone(inventory: &Inventory<'_>) -> bool {
    !inventory.revision.needs_comparison()
        && !inventory.aborts()
        && inventory.old_count() == 0
        && !lacks_old(inventory)
        && !kept::keeps_old(inventory)
        && inventory.status.hold.is_none()
}
