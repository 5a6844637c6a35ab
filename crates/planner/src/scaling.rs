//! Pods to create and delete because of the number of replicas, not of a template: D = 0, surplus, a smaller
//! D in a rollout.
//!
//! Scaling never gets a release further: in each part of a rollout the pods with a pause point ahead go last.

use std::collections::BTreeSet;

use ordereddeployment_api::{Scaling, Sizes};

use crate::ids::Id;
use crate::inventory::{Inventory, RankedPod, count, narrow};
use crate::phase::State;
use crate::pod_changes::{Budget, PodChanges, create, groups, recreate_waits};
use crate::{Decision, Purpose, Record};

/// D = 0: all pods are deleted.
pub(crate) fn scale_to_zero(inventory: &Inventory<'_>) -> PodChanges {
    let mut all: Vec<_> = inventory.ranked_pods.iter().collect();
    all.sort_unstable_by_key(|ranked| ranked.place);
    PodChanges {
        deletes: groups(inventory, all, Purpose::Scale),
        scaling: Some(Scaling::default()),
        ..PodChanges::default()
    }
}

/// There is no rollout: the first pods of the order are deleted, or missing ones are created.
pub(crate) fn steady(inventory: &Inventory<'_>) -> PodChanges {
    let desired = inventory.bounds.desired;
    let surplus = first(inventory.updated(), inventory.updated_count() - desired);
    let mut changes = PodChanges {
        deletes: groups(inventory, surplus, Purpose::Scale),
        scaling: Some(reached(inventory)),
        ..PodChanges::default()
    };
    if !recreate_waits(inventory) {
        let missing = desired - inventory.updated_count();
        let room = inventory.room_below(inventory.bounds.ceiling);
        create(inventory, &mut changes, &inventory.hash, missing.min(room));
    }
    changes
}

/// The sizes for the present D are reached.
pub(crate) fn reached(inventory: &Inventory<'_>) -> Scaling {
    Scaling { reached: inventory.spec.replicas.max(0), to: None }
}

/// Updated pods beyond D: the first of the order, and unavailable ones first.
pub(crate) fn surplus<'c, 'a>(inventory: &'c Inventory<'a>, budget: &mut Budget) -> Vec<&'c RankedPod<'a>> {
    let excess = usize::try_from(inventory.updated_count() - inventory.bounds.desired).unwrap_or(0);
    if excess == 0 {
        return Vec::new();
    }
    let mut all: Vec<_> = inventory.updated().iter().filter(|ranked| !ranked.collected).collect();
    all.sort_by_key(|ranked| (ranked.available, ranked.place));
    all.into_iter().filter(|ranked| budget.take_available(ranked)).take(excess).collect()
}

/// The pods that a smaller D takes from a rollout, or that its sizes are reached. The sizes to reach are
/// stored first.
pub(crate) fn scale_down(state: &State<'_, '_>) -> Result<(PodChanges, Scaling), Box<Decision>> {
    let (inventory, points) = (state.inventory, &state.points);
    let desired = inventory.bounds.desired;
    let Some(rollout) = &inventory.status.rollout else {
        return Ok((PodChanges::default(), reached(inventory)));
    };
    let stored = rollout.scaling.unwrap_or_default();
    if desired == i64::from(stored.reached) {
        return Ok((PodChanges::default(), reached(inventory)));
    }
    if desired > i64::from(stored.reached) {
        // Stored before a pod is created for it: a smaller D can follow at once.
        return Err(store(inventory, reached(inventory)));
    }
    let (updated, old) = (inventory.updated_count(), inventory.old_count());
    let mut scaling = Scaling { to: None, ..stored };
    let mut sizes = (points.limit, points.keep);
    if !state.is_held {
        let known = stored.to.filter(|to| i64::from(to.replicas) == desired);
        let to = known.unwrap_or_else(|| {
            let (updated, old) = in_proportion(inventory);
            Sizes { replicas: narrow(desired), updated: narrow(updated), old: narrow(old) }
        });
        scaling.to = Some(to);
        sizes = (i64::from(to.updated.max(0)), i64::from(to.old.max(0)));
        if desired == 1 && !points.is_empty() && old > 0 {
            // While a point is ahead, an old pod stays.
            sizes = (0, 1);
        }
    }
    // Sizes that do not fit the pods take no more than there are too many.
    let most = count(inventory.ranked_pods.iter().filter(|ranked| !ranked.collected)) - desired;
    let mut most = usize::try_from(most).unwrap_or(0);
    let mut budget = Budget::of(inventory);
    let mut chosen: Vec<&RankedPod<'_>> = Vec::new();
    for (part, excess, is_old) in
        [(inventory.updated(), updated - sizes.0, false), (inventory.old(), old - sizes.1, true)]
    {
        let excess = usize::try_from(excess).unwrap_or(0).min(most);
        let candidates = victims(inventory, part).into_iter();
        let taken = candidates.filter(|ranked| budget.take_of(ranked, is_old)).take(excess);
        let before = chosen.len();
        chosen.extend(taken);
        most -= chosen.len() - before;
    }
    if chosen.is_empty() {
        // In a hold, what the floor keeps goes later.
        let waits = state.is_held && (updated > sizes.0 || old > sizes.1) && most > 0;
        // From here on the rollout makes pods again, which are not too many.
        return if waits {
            Ok((PodChanges::default(), scaling))
        } else {
            Err(store(inventory, reached(inventory)))
        };
    }
    if stored != scaling {
        return Err(store(inventory, scaling));
    }
    chosen.sort_by_key(|ranked| ranked.place);
    let deletes = groups(inventory, chosen, Purpose::Scale);
    Ok((PodChanges { deletes, ..PodChanges::default() }, scaling))
}

fn store(inventory: &Inventory<'_>, scaling: Scaling) -> Box<Decision> {
    let mut status = inventory.status.clone();
    if let Some(rollout) = &mut status.rollout {
        rollout.scaling = Some(scaling);
        rollout.replicas = scaling.reached;
    }
    Box::new(Decision::Record(Record { status, events: Vec::new() }))
}

/// The sizes of both parts that a smaller D leaves: in proportion, and at least one of each where one was.
fn in_proportion(inventory: &Inventory<'_>) -> (i64, i64) {
    let (updated, old, desired) =
        (inventory.updated_count(), inventory.old_count(), inventory.bounds.desired);
    let all = updated + old;
    if all <= desired {
        return (updated, old);
    }
    let mut share = (2 * updated * desired + all) / (2 * all);
    if desired >= 2 {
        share = share.max(updated.min(1)).min(desired - old.min(1));
    }
    (share, desired - share)
}

/// These pods as scaling takes them: in order, those with a point ahead behind others, the held one last.
fn victims<'c, 'a>(inventory: &Inventory<'_>, part: &'c [RankedPod<'a>]) -> Vec<&'c RankedPod<'a>> {
    let stored = inventory.status.points();
    let marks = stored.filter(|point| point.side.is_some()).filter_map(|point| Id::parse(&point.id));
    let marked: BTreeSet<&str> = marks.map(|id| id.name).collect();
    let held = inventory.status.hold.as_ref().filter(|hold| hold.declared.is_none());
    let mut pods: Vec<_> = part.iter().filter(|ranked| !ranked.collected).collect();
    pods.sort_by_key(|ranked| {
        let name = ranked.pod.name.as_str();
        let is_held = held.is_some_and(|hold| hold.pod == name);
        (is_held, !ranked.updated && marked.contains(name))
    });
    pods
}

/// The first of these pods that can be deleted.
fn first<'c, 'a: 'c>(ranked_pods: &'c [RankedPod<'a>], number: i64) -> Vec<&'c RankedPod<'a>> {
    ranked_pods.iter().filter(|ranked| !ranked.collected).take(usize::try_from(number).unwrap_or(0)).collect()
}
