//! The phase: what becomes of the object now, named once. Whatever is decided, done and reported matches on it.

use ordereddeployment_api::{Violation, validate};

use crate::barrier::{self, Divided, held};
use crate::census::Census;
use crate::kept;
use crate::migration::{self, Migration};
use crate::sizes::Sizes;

/// The first of these that applies.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The spec breaks rules that the API server did not check. Nothing is done.
    Invalid(Vec<Violation>),
    /// Pods move between a Deployment and this object. Nothing is done.
    Migrating(Migration),
    /// The rollout is paused at a pause point. The sets keep these sizes.
    Held(Sizes),
    /// `spec.paused` is set. The sets keep these sizes.
    Paused(Sizes),
    /// `replicas: 0`: every pod goes.
    ScaledToZero,
    /// Old pods go first, then updated ones come.
    Recreating,
    /// Updated pods replace old ones, a few at a time.
    Rolling,
    /// No old pod is left. Pods come and go by the number of replicas alone.
    Steady,
}

/// What was observed, counted, with what follows from it: computed once for each decision.
#[derive(Debug)]
pub(crate) struct State<'c, 'a> {
    pub(crate) census: &'c Census<'a>,
    pub(crate) phase: Phase,
    /// The old pods ahead of the barrier, and those behind it.
    pub(crate) divided: Divided<'c, 'a>,
    /// Whether every pod is of the current template and available, and none is left over.
    pub(crate) is_complete: bool,
}

impl<'c, 'a> State<'c, 'a> {
    pub(crate) fn of(census: &'c Census<'a>) -> Self {
        Self {
            census,
            phase: phase(census),
            divided: barrier::divide(census),
            is_complete: is_complete(census),
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

fn phase(census: &Census<'_>) -> Phase {
    let violations = validate(census.spec);
    if !violations.is_empty() {
        return Phase::Invalid(violations);
    }
    if let Some(migration) = migration::step(census.observed) {
        return Phase::Migrating(migration);
    }
    match kept::kept_sizes(census) {
        Some(sizes) if held(&census.status).is_some() => Phase::Held(sizes),
        Some(sizes) => Phase::Paused(sizes),
        None if census.bounds.desired == 0 => Phase::ScaledToZero,
        None if census.old_count() == 0 => Phase::Steady,
        None if census.recreate() => Phase::Recreating,
        None => Phase::Rolling,
    }
}

fn is_complete(census: &Census<'_>) -> bool {
    let desired = census.bounds.desired;
    !census.revision.is_uncompared()
        && census.old_count() == 0
        && !kept::keeps_old(census)
        && census.status.hold.is_none()
        && census.updated_count() == desired
        && census.updated_available() == desired
}
