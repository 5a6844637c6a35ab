//! Pods to create and delete because of the number of replicas, not of a template: D = 0, surplus, the kept sizes of a held
//! or paused rollout, the scaling of a running rollout.
//!
//! Scaling never advances a release: an old pod with a pause point that is not passed is deleted only if no other old pod
//! can be, and the rollout is held at such a point before the last one is deleted.

use std::collections::BTreeSet;

use ordereddeployment_api::{Pause, PausePoint, Rollout};

use crate::barrier::{self, Barrier, held};
use crate::believed;
use crate::declared;
use crate::hold;
use crate::inventory::{Inventory, RankedPod, count};
use crate::kept::{alive, keeps_old, limit_updated, measure, narrow, sizes_now};
use crate::phase::State;
use crate::pod_changes::{Budget, PodChanges, create, create_failed, groups, old_terminating};
use crate::sizes::{self, Sizes};
use crate::{Decision, Point, Purpose, Record};

/// D = 0: all pods are deleted.
pub(crate) fn scale_to_zero(inventory: &Inventory<'_>) -> Result<PodChanges, Box<Decision>> {
    let all = inventory.in_order();
    keep_last_point(inventory, &all)?;
    if inventory.old_count() > 0 && !inventory.aborts() {
        let sizes = narrow(&sizes_now(inventory, None));
        let mut status = inventory.status.clone();
        hold::suspend(inventory, &mut status, Pause { replicas: measure(inventory, &sizes), sizes });
        if status != *inventory.status {
            return Err(Box::new(Decision::Record(Record { status, events: Vec::new() })));
        }
    }
    Ok(PodChanges { deletes: groups(inventory, all, Purpose::Scale), ..PodChanges::default() })
}

/// There are no old pods: the first pods of the order are deleted, or missing ones are created.
pub(crate) fn steady(inventory: &Inventory<'_>) -> PodChanges {
    let mut changes = PodChanges {
        deletes: groups(inventory, surplus(inventory), Purpose::Scale),
        ..PodChanges::default()
    };
    let old_runs = inventory.recreate() && old_terminating(inventory);
    if !old_runs {
        let missing = inventory.bounds.desired - inventory.updated_count();
        create(
            inventory,
            &mut changes,
            &inventory.hash,
            missing.min(inventory.room_below(inventory.bounds.ceiling)),
        );
    }
    changes
}

/// Updated pods beyond D: the first of the order.
pub(crate) fn surplus<'c, 'a>(inventory: &'c Inventory<'a>) -> Vec<&'c RankedPod<'a>> {
    first(inventory.updated(), inventory.updated_count() - inventory.bounds.desired)
}

/// Held or paused: the stored sizes give the number of old and updated pods for this D. Pods are not moved between old sets
/// as long as their sum is right.
pub(crate) fn keep_sizes(inventory: &Inventory<'_>, wanted: &Sizes) -> Result<PodChanges, Box<Decision>> {
    let mut changes = PodChanges::default();
    let most = surplus_above(inventory, inventory.bounds.desired);
    let old = old_pods_to_delete(inventory, wanted, most);
    keep_last_point(inventory, &old)?;
    let size = updated_total(inventory, wanted);
    let present = inventory.by_set();
    let sizes = sizes_of_sets(inventory, wanted);
    // Whatever was stored, Recreate makes no updated pod beside an old one.
    let old_runs = inventory.recreate() && (inventory.old_count() > 0 || old_terminating(inventory));
    // Only what is missing in all is created: sizes that do not fit the pods move none of them.
    let mut room = missing(inventory, wanted).min(inventory.room_below(inventory.bounds.ceiling));
    for (hash, kept) in &sizes {
        let is_current = *hash == inventory.hash;
        let missing = if is_current {
            size - inventory.updated_count()
        } else {
            kept - present.get(hash).copied().unwrap_or(0)
        };
        if is_current && old_runs {
            continue;
        }
        let can_be_filled =
            inventory.usable_sets().any(|set| set.hash == *hash) || (is_current && !inventory.spec.paused);
        let missing = missing.min(room);
        if can_be_filled && missing > 0 {
            room -= missing;
            create(inventory, &mut changes, hash, missing);
        }
    }
    let mut to_delete = old;
    let most = most - count(to_delete.iter());
    let least = inventory.updated_count() - most;
    let updated = updated_pods_to_delete(inventory, size.max(least), &to_delete);
    to_delete.extend(updated.scaled);
    let to_delete = within_floor(inventory, to_delete);
    changes.deletes = groups(inventory, to_delete, Purpose::Scale);
    // Unavailable pods come first, whose deletion no budget can refuse.
    changes.deletes.extend(groups(inventory, updated.surge, Purpose::Scale));
    changes.kept_surge = updated.kept;
    Ok(changes)
}

/// The sizes of the sets while a hold or a pause is kept: the old sets share their sum as their pods are now.
pub(crate) fn sizes_of_sets(inventory: &Inventory<'_>, wanted: &Sizes) -> Sizes {
    let mut sizes = inventory.by_set();
    let most = surplus_above(inventory, inventory.bounds.desired);
    for deleted in old_pods_to_delete(inventory, wanted, most) {
        if let Some(size) = sizes.get_mut(deleted.hash) {
            *size -= 1;
        }
    }
    let mut missing = old_total(inventory, wanted) - old_count(inventory);
    for set in inventory.old_sets().filter(|set| !set.terminating) {
        let size = sizes.entry(set.hash.clone()).or_default();
        let more = (wanted.get(&set.hash).copied().unwrap_or(0) - *size).clamp(0, missing.max(0));
        *size += more;
        missing -= more;
    }
    // Several sets can have pods of the current template; the pods of the others are not part of the current set's size.
    let others = inventory.updated().iter().filter(|ranked| *ranked.hash != inventory.hash);
    let current = updated_total(inventory, wanted) - count(others);
    sizes.insert(inventory.hash.clone(), current.max(0));
    sizes
}

/// How many pods a hold or a pause with these sizes lacks.
fn missing(inventory: &Inventory<'_>, wanted: &Sizes) -> i64 {
    (wanted.values().sum::<i64>() - alive(inventory)).max(0)
}

/// How many pods there are beyond that number: the most that scaling deletes, whatever sizes are stored.
fn surplus_above(inventory: &Inventory<'_>, number: i64) -> i64 {
    (alive(inventory) - number).max(0)
}

/// These pods, in the order, and in a rollout without the available ones that the floor keeps.
fn within_floor<'c, 'a>(
    inventory: &Inventory<'_>,
    mut ranked_pods: Vec<&'c RankedPod<'a>>,
) -> Vec<&'c RankedPod<'a>> {
    ranked_pods.sort_unstable_by_key(|ranked| ranked.place);
    let is_rollout = inventory.old_count() > 0 || held(inventory.status).is_some() || keeps_old(inventory);
    if is_rollout {
        let mut budget = Budget::of(inventory, 0);
        ranked_pods.retain(|ranked| budget.take_available(ranked));
    }
    ranked_pods
}

/// The number of old pods, without those of terminating sets, which the garbage collector deletes.
fn old_count(inventory: &Inventory<'_>) -> i64 {
    count(inventory.old().iter().filter(|ranked| !ranked.collected))
}

/// The number of such pods in these sizes.
fn old_total(inventory: &Inventory<'_>, sizes: &Sizes) -> i64 {
    let sets = inventory.old_sets().filter(|set| !set.terminating);
    sets.map(|set| sizes.get(&set.hash).copied().unwrap_or(0)).sum()
}

/// The number of updated pods in these sizes.
fn updated_total(inventory: &Inventory<'_>, sizes: &Sizes) -> i64 {
    sizes.values().sum::<i64>() - old_total(inventory, sizes)
}

/// How strongly an old pod holds the rollout: scaling deletes the pods with the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PointKind {
    /// No pause point, or a passed one.
    None,
    /// It is behind a declared pause point.
    Behind,
    /// The rollout is held at it: the hold stays without the pod.
    Held,
    /// Its pause point has a duration.
    Timed,
    /// Its pause point waits for a resume.
    Untimed,
}

fn point_kind(inventory: &Inventory<'_>, ranked: &RankedPod<'_>) -> PointKind {
    if held(inventory.status).is_some_and(|hold| *hold.pod_uid == **ranked.uid()) {
        return PointKind::Held;
    }
    let timed = match (ranked.point, &ranked.pod.point) {
        (Some(_), Point::At { duration, .. }) => matches!(duration, Ok(Some(_))),
        _ => match barrier::begun_at(inventory, ranked) {
            Some(hold) => hold.until.is_some(),
            None => return PointKind::None,
        },
    };
    if timed { PointKind::Timed } else { PointKind::Untimed }
}

/// The old pods to delete so that the old sets have these sizes: of each set the first of the order, and those with a pause
/// point that is not passed after all others of all sets. They are at most `most`.
fn old_pods_to_delete<'c, 'a>(
    inventory: &'c Inventory<'a>,
    sizes: &Sizes,
    most: i64,
) -> Vec<&'c RankedPod<'a>> {
    let excess = (old_count(inventory) - old_total(inventory, sizes)).min(most);
    let excess = usize::try_from(excess).unwrap_or(0);
    if excess == 0 {
        return Vec::new();
    }
    let mut beyond = inventory.by_set();
    for (hash, active) in &mut beyond {
        *active -= sizes.get(hash).copied().unwrap_or(0);
    }
    let ahead = declared::nearest(inventory, inventory.old()).map_or(usize::MAX, |(at, _)| at);
    let mut ranked: Vec<_> = inventory
        .old()
        .iter()
        .enumerate()
        .filter(|(_, ranked)| !ranked.collected)
        .map(|(at, ranked)| {
            let behind = if at < ahead { PointKind::None } else { PointKind::Behind };
            let kind = point_kind(inventory, ranked).max(behind);
            let has_share = kind <= PointKind::Behind;
            let beyond = beyond.get_mut(ranked.hash).filter(|beyond| **beyond > 0 && has_share);
            let is_share = beyond.map(|beyond| *beyond -= 1).is_some();
            ((kind, !is_share), ranked)
        })
        .collect();
    // The sort is stable: equal ones stay in the order.
    ranked.sort_by_key(|(rank, _)| *rank);
    let mut to_delete: Vec<_> = ranked.into_iter().take(excess).map(|(_, ranked)| ranked).collect();
    to_delete.sort_by_key(|ranked| ranked.place);
    to_delete
}

/// The updated pods to delete.
#[derive(Default)]
struct Updated<'c, 'a> {
    /// Pods that a smaller D removes: the first of the order.
    scaled: Vec<&'c RankedPod<'a>>,
    /// Pods that a hold without a duration does not want: unavailable ones first, as far as the first floor allows.
    surge: Vec<&'c RankedPod<'a>>,
    /// How many pods stay only since the floor forbids their deletion.
    kept: i64,
}

/// The updated pods to delete so that `size` of them are left, when `others` are deleted too.
fn updated_pods_to_delete<'c, 'a>(
    inventory: &'c Inventory<'a>,
    size: i64,
    others: &[&RankedPod<'_>],
) -> Updated<'c, 'a> {
    let updated = inventory.updated_count();
    let surplus = (updated - size).max(0);
    let untimed = held(inventory.status).filter(|hold| hold.until.is_none() && !inventory.recreate());
    let Some(hold) = untimed else {
        return Updated { scaled: first(inventory.updated(), surplus), ..Updated::default() };
    };
    let stored = hold.sizes.get(&inventory.hash).map_or(0, |size| i64::from(*size));
    let scaled = (updated - inventory.bounds.desired).max(stored.min(updated) - size).clamp(0, surplus);
    let mut to_delete = Updated { scaled: first(inventory.updated(), scaled), ..Updated::default() };
    let taken: BTreeSet<usize> = to_delete.scaled.iter().map(|ranked| ranked.place).collect();
    let leaving = others.iter().chain(&to_delete.scaled).filter(|ranked| ranked.available);
    let mut budget = Budget::of(inventory, count(leaving));
    let mut rest: Vec<_> =
        inventory.updated().iter().filter(|ranked| !taken.contains(&ranked.place)).collect();
    rest.sort_by_key(|ranked| (ranked.available, ranked.place));
    to_delete.kept = surplus - scaled;
    for ranked in rest.into_iter().filter(|ranked| !ranked.collected) {
        if to_delete.kept == 0 || !budget.take_available(ranked) {
            break;
        }
        to_delete.kept -= 1;
        to_delete.surge.push(ranked);
    }
    to_delete
}

/// The first of these pods that can be deleted.
fn first<'c, 'a: 'c>(ranked_pods: &'c [RankedPod<'a>], number: i64) -> Vec<&'c RankedPod<'a>> {
    ranked_pods.iter().filter(|ranked| !ranked.collected).take(usize::try_from(number).unwrap_or(0)).collect()
}

/// Holds the rollout before old pods are deleted that include the last pause point, as if that point were reached. A hold
/// that waits for a resume stays without its pod. Neither a timed hold nor a timed point can replace a point that waits for
/// a resume. Scaling does not delete pods of a terminating set.
fn keep_last_point(inventory: &Inventory<'_>, to_delete: &[&RankedPod<'_>]) -> Result<(), Box<Decision>> {
    let kinds: &[PointKind] = match held(inventory.status) {
        // A timed point cannot replace one that waits for a resume.
        None => &[PointKind::Untimed, PointKind::Timed],
        Some(hold) if hold.until.is_some() => &[PointKind::Untimed],
        Some(_) => return Ok(()),
    };
    if to_delete.iter().all(|ranked| ranked.updated) {
        return Ok(());
    }
    let leaving: BTreeSet<usize> = to_delete.iter().map(|ranked| ranked.place).collect();
    let old: Vec<_> = inventory.old().iter().filter(|ranked| !ranked.collected).collect();
    let left: Vec<_> = old.iter().copied().filter(|ranked| !leaving.contains(&ranked.place)).collect();
    if left.len() == old.len() {
        return Ok(());
    }
    let mut lost = kinds.iter().filter(|least| points_of_kind(inventory, &left, **least).is_empty());
    let first = lost.find_map(|least| points_of_kind(inventory, &old, *least).into_iter().next());
    first.map_or(Ok(()), |barrier| Err(Box::new(hold::hold_early(inventory, &barrier))))
}

/// The pause points of at least that kind at which a rollout of these pods would be held. An `after` point without a pod
/// behind it holds nothing.
fn points_of_kind<'c, 'a>(
    inventory: &Inventory<'_>,
    ranked_pods: &[&'c RankedPod<'a>],
    least: PointKind,
) -> Vec<Barrier<'c, 'a>> {
    let behind = |at: usize| at + 1 < ranked_pods.len();
    let some = ranked_pods.iter().enumerate().filter(|(_, ranked)| point_kind(inventory, ranked) >= least);
    let barriers = some.map(|(at, ranked)| {
        let side = ranked.point.unwrap_or(PausePoint::After);
        (at, Barrier { ranked, side, declared: None })
    });
    let holding = barriers.filter(|(at, barrier)| barrier.side == PausePoint::Before || behind(*at));
    holding.map(|(_, barrier)| barrier).collect()
}

/// Whether a running rollout was being scaled at the last decision.
pub(crate) fn is_being_scaled(inventory: &Inventory<'_>) -> bool {
    inventory.status.rollout.as_ref().is_some_and(|rollout| rollout.scaled_from.is_some())
}

/// D has changed in the running rollout: first of all the sets are scaled in proportion. The sizes before are stored first,
/// so that an interruption, or another change of D meanwhile, leads to the same split.
pub(crate) fn scale(state: &State<'_, '_>) -> Result<Option<PodChanges>, Box<Decision>> {
    let inventory = state.inventory;
    let Some(rollout) = inventory.status.rollout.as_ref().filter(|_| !inventory.aborts()) else {
        return Ok(None);
    };
    if rollout.replicas == inventory.spec.replicas && !is_being_scaled(inventory) {
        return Ok(None);
    }
    let now = inventory.by_set();
    let target = limit_updated(inventory, scaled(inventory, rollout, &now), most_updated(inventory));
    let mut changes = PodChanges::default();
    // A smaller D never creates a pod.
    if inventory.spec.replicas >= rollout.replicas && !create_failed(inventory) {
        let behind = count(state.divided.behind.iter());
        let mut room = inventory.room_below(inventory.bounds.ceiling);
        for (hash, size) in &target {
            let mut missing = size - now.get(hash).copied().unwrap_or(0);
            if *hash == inventory.hash {
                missing = missing.min((inventory.bounds.desired - behind).max(0) - inventory.updated_count());
            }
            let usable = inventory.usable_sets().any(|set| set.hash == *hash) || *hash == inventory.hash;
            let missing = missing.min(room);
            if usable && missing > 0 {
                room -= missing;
                create(inventory, &mut changes, hash, missing);
            }
        }
    }
    let most = surplus_above(inventory, inventory.bounds.ceiling);
    let mut to_delete = old_pods_to_delete(inventory, &target, most);
    keep_last_point(inventory, &to_delete)?;
    let updated = inventory.updated_count() - updated_total(inventory, &target);
    to_delete.extend(first(inventory.updated(), updated.min(most - count(to_delete.iter()))));
    let to_delete = within_floor(inventory, to_delete);
    changes.deletes = groups(inventory, to_delete, Purpose::Scale);
    let is_done = changes.creates.is_empty() && changes.deletes.is_empty();
    if !is_done && rollout.scaled_from.is_some() {
        return Ok(Some(changes));
    }
    let mut status = inventory.status.clone();
    if let Some(rollout) = &mut status.rollout {
        if is_done {
            rollout.replicas = inventory.spec.replicas;
        }
        rollout.scaled_from = (!is_done).then(|| narrow(&now));
    }
    Err(Box::new(Decision::Record(Record { status, events: Vec::new() })))
}

/// The most updated pods after scaling, so that declared points stay ahead: those that they let exist, and an old pod is left.
fn most_updated(inventory: &Inventory<'_>) -> Option<i64> {
    let desired = inventory.bounds.desired;
    let has_place = declared::nearest(inventory, inventory.old()).is_some();
    declared::most_updated(inventory).or_else(|| has_place.then_some(desired - 1))
}

/// The sizes of the sets after scaling: a pure function of the sizes before and of D.
fn scaled(inventory: &Inventory<'_>, rollout: &Rollout, now: &Sizes) -> Sizes {
    let stored = rollout.scaled_from.as_ref();
    let stored = stored.map(|sizes| sizes::widen(&believed::sizes(inventory, sizes)));
    let base = stored.unwrap_or_else(|| now.clone());
    if rollout.replicas == inventory.spec.replicas {
        return base;
    }
    let mut before = inventory.spec.clone();
    before.replicas = rollout.replicas;
    let before = i64::from(rollout.replicas.max(0)) + before.max_surge();
    sizes::proportional(&base, before, inventory.bounds.ceiling)
}
