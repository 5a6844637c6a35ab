//! The status as far as it can be the controller's own. Whoever may patch the status can write anything:
//! whatever the controller cannot have written is replaced, in one write, before anything else is done. All
//! other modules read the result.
//!
//! It bounds numbers, lists and texts, and compares with the sets what they record. It decides about no pod.

use ordereddeployment_api::names::{ALL_POINTS, reason};
use ordereddeployment_api::{CompleteRevision, OrderedDeploymentStatus};

use crate::history::{complete_revision, possible_revisions};
use crate::ids::Id;
use crate::inventory::Inventory;
use crate::phase::State;
use crate::served::is_unrecorded;
use crate::{Decision, FailureKind, Read, Record, conditions, events};

/// The status to store first, if the stored one is not the controller's own.
pub(crate) fn corrected(state: &State<'_, '_>) -> Option<Decision> {
    let inventory = state.inventory;
    if inventory.snapshot.failure.as_ref().is_some_and(|failure| failure.what == FailureKind::Claim) {
        // Not all sets are known.
        return None;
    }
    let mut status = inventory.status.clone();
    let mut named = Vec::new();
    if status.limit() {
        named.push("lists and texts that are too long");
    }
    named.extend(numbers(&mut status));
    named.extend(revisions(inventory, &mut status));
    named.extend(served(state, &mut status));
    let asks = inventory.status.resume_requested.is_some()
        || inventory.status.abort_requested.is_some()
        || inventory.status.retry_requested.is_some();
    if status == *inventory.status || (named.is_empty() && asks) {
        return None;
    }
    if !inventory.snapshot.live {
        // A set that the cache does not show yet would make the status wrong.
        return Some(Decision::Read(Read::Live));
    }
    let message = format!("Corrected the status, which somebody else has changed: {}", named.join(", "));
    let event = (!named.is_empty()).then(|| events::warning(reason::STATUS_CORRECTED, message));
    Some(Decision::Record(Record { status, events: event.into_iter().collect() }))
}

/// No number of pods is negative, and no point is of another revision.
fn numbers(status: &mut OrderedDeploymentStatus) -> Option<&'static str> {
    let mut is_changed = false;
    let mut bound = |number: &mut i32| {
        is_changed |= *number < 0;
        *number = (*number).max(0);
    };
    if let Some(rollout) = &mut status.rollout {
        bound(&mut rollout.replicas);
        let points = rollout.points.iter_mut().flatten().filter_map(|point| point.share.as_mut());
        for share in points.chain(&mut rollout.pause) {
            bound(&mut share.limit);
            bound(&mut share.replicas);
        }
        if let Some(from) = &mut rollout.from {
            bound(&mut from.replicas);
            bound(&mut from.max_unavailable);
        }
        if let Some(scaling) = &mut rollout.scaling {
            bound(&mut scaling.reached);
            if let Some(to) = &mut scaling.to {
                [&mut to.replicas, &mut to.updated, &mut to.old].into_iter().for_each(&mut bound);
            }
        }
    }
    if let Some(hold) = &mut status.hold {
        bound(&mut hold.replicas);
        hold.limit.iter_mut().for_each(&mut bound);
    }
    is_changed.then_some("negative numbers")
}

/// The revision of the rollout follows those of the sets, and that of an abort is the one that served last.
fn revisions(inventory: &Inventory<'_>, status: &mut OrderedDeploymentStatus) -> Vec<&'static str> {
    let mut named = Vec::new();
    let Some(rollout) = &mut status.rollout else { return named };
    let possible = possible_revisions(inventory);
    let before = rollout.revision;
    if !possible.contains(&before) {
        let own = inventory.revision.current.filter(|set| set.hash == rollout.template_hash);
        let own = own.map(|set| set.revision).filter(|revision| revision == possible.start());
        rollout.revision = own.unwrap_or_else(|| possible.start().saturating_add(1).min(*possible.end()));
        named.push("rollout.revision");
    }
    let revision = rollout.revision;
    if revision != before {
        // The same points, of the revision that is possible.
        let points = rollout.points.iter_mut().flatten().map(|point| &mut point.id);
        let passed = status.passed.iter_mut().flatten().map(|passed| &mut passed.id);
        let hold = status.hold.iter_mut().map(|hold| &mut hold.id);
        let blocked = status.blocked.iter_mut().map(|blocked| &mut blocked.id);
        for id in points.chain(passed).chain(hold).chain(blocked) {
            let of_it = Id::parse(id).filter(|of| of.revision == before);
            let renamed = of_it.map(|of| Id { revision, ..of }.to_string());
            *id = renamed.unwrap_or_else(|| std::mem::take(id));
        }
    }
    let is_own = |id: &str| Id::parse(id).is_some_and(|id| id.revision == revision);
    if let Some(points) = &mut rollout.points
        && points.iter().any(|point| !is_own(&point.id))
    {
        points.retain(|point| is_own(&point.id));
        named.push("rollout.points");
    }
    if let Some(passed) = &mut status.passed
        && passed.iter().any(|passed| passed.id != ALL_POINTS && !is_own(&passed.id))
    {
        passed.retain(|passed| passed.id == ALL_POINTS || is_own(&passed.id));
        status.passed = status.passed.take().filter(|passed| !passed.is_empty());
        named.push("passed");
    }
    if let Some(hold) = status.hold.as_mut().filter(|hold| hold.revision != revision) {
        hold.revision = revision;
        named.push("hold.revision");
    }
    if let Some(aborted) = status.aborted.as_mut().filter(|aborted| aborted.revision == before) {
        aborted.revision = revision;
    }
    named
}

/// What the status says about revisions that served is what the sets say.
fn served(state: &State<'_, '_>, status: &mut OrderedDeploymentStatus) -> Vec<&'static str> {
    let inventory = state.inventory;
    let mut named = Vec::new();
    let same = status.rollout.as_mut().filter(|rollout| rollout.template_hash == inventory.revision.hash);
    let Some(rollout) = same else { return named };
    let own = inventory.revision.current.filter(|set| !set.terminating);
    let has_served = own.is_some_and(|set| set.served == Some(rollout.revision));
    let is_recorded = own.is_some() && !is_unrecorded(&inventory.snapshot.sets);
    let is_over = inventory.old_count() == 0 && state.points.is_empty();
    if rollout.completed && is_recorded && inventory.bounds.desired > 0 {
        // It can have been complete without pods.
        rollout.completed = has_served || is_over;
    }
    let exists = |hash: &str| inventory.is_kept(hash);
    let back = inventory.back.map(|set| CompleteRevision {
        replicas: rollout.from.as_ref().map_or(0, |from| from.replicas),
        max_unavailable: rollout.from.as_ref().map_or(0, |from| from.max_unavailable),
        ..complete_revision(set)
    });
    // The set of the own template is another one, if that of the revision before is gone.
    let is_own = |from: &CompleteRevision| from.template_hash == rollout.template_hash;
    let is_there = rollout.from.as_ref().is_some_and(|from| !is_own(from) && exists(&from.template_hash));
    if rollout.from != back && (is_there || rollout.from.is_none()) {
        // A set that is gone needs no correction: nothing rolls back to it.
        rollout.from.clone_from(&back);
        named.extend(is_there.then_some("rollout.from"));
    }
    let Some(aborted) = &mut status.aborted else { return named };
    let is_there = exists(&aborted.template_hash);
    let to = back.map(|back| (back.revision, back.template_hash));
    let is_own = !is_there || to.as_ref() == Some(&(aborted.to, aborted.template_hash.clone()));
    let is_of_rollout = aborted.revision == rollout.revision && !(rollout.completed && has_served);
    match to {
        // Without its set, an abort moves no pod.
        _ if is_of_rollout && is_own => {}
        Some((to, hash)) if is_of_rollout => {
            (aborted.to, aborted.template_hash) = (to, hash);
            named.push("aborted");
        }
        _ => {
            status.aborted = None;
            named.push("aborted");
        }
    }
    if status.aborted.is_some() && status.hold.take().is_some() {
        // No hold stops an abort.
        conditions::not_held(status, inventory.snapshot.now);
        named.push("hold");
    }
    named
}
