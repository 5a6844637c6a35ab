//! The sizes of the sets that a hold or a pause stores and keeps.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ordereddeployment_api::{Pause, limits};

use crate::barrier::held;
use crate::believed;
use crate::declared;
use crate::inventory::{Bounds, Inventory, RankedPod, count};
use crate::sizes::{self, Sizes, Stored};

/// The sizes that a hold stores, and the number of replicas that they are for. If a hold or a pause exists already, they are
/// its stored sizes. A hold without a duration keeps no surge, except under Recreate, which has none.
pub(crate) fn sizes_to_keep(
    inventory: &Inventory<'_>,
    leaving: Option<&RankedPod<'_>>,
    timed: bool,
) -> (BTreeMap<String, i32>, i32) {
    let stored = stored(inventory);
    let is_stored = stored.is_some();
    let (mut sizes, replicas) = match stored {
        Some((sizes, replicas)) => (sizes.into_owned(), replicas),
        None => (narrow(&sizes_now(inventory, leaving)), scaled_for(inventory)),
    };
    if !timed && !inventory.recreate() {
        sizes = without_surge(sizes, &inventory.hash, replicas);
    }
    let replicas = if is_stored { replicas } else { measure(inventory, &sizes) };
    (sizes, replicas)
}

/// These sizes without updated pods beyond what the old ones leave of the replicas.
pub(crate) fn without_surge(
    mut sizes: BTreeMap<String, i32>,
    current: &str,
    replicas: i32,
) -> BTreeMap<String, i32> {
    let old = sizes.iter().filter(|(hash, _)| *hash != current);
    let old = old.fold(0, |sum: i32, (_, size)| sum.saturating_add(*size));
    if let Some(size) = sizes.get_mut(current) {
        *size = (*size).min(replicas.saturating_sub(old).max(0));
    }
    sizes
}

/// The number of replicas that the sets were last scaled for: the reference of their current sizes.
fn scaled_for(inventory: &Inventory<'_>) -> i32 {
    inventory.status.rollout.as_ref().map_or(inventory.spec.replicas, |rollout| rollout.replicas)
}

/// The number of replicas that these sizes are for: the number that the sets were last scaled for; or their total, if it
/// exceeds the ceiling of that number (during scaling, or under Recreate, which does not scale a running rollout).
pub(crate) fn measure(inventory: &Inventory<'_>, sizes: &BTreeMap<String, i32>) -> i32 {
    let mut before = inventory.spec.clone();
    before.replicas = scaled_for(inventory);
    let total = sizes.values().fold(0, |sum: i32, size| sum.saturating_add(*size));
    if i64::from(total) > Bounds::of(&before).ceiling { total } else { before.replicas }
}

/// The current sizes of the sets, as a hold or a pause keeps them: the old sets have their pods without `leaving`; missing
/// pods belong to the current set, or to the largest old set if the current one does not exist.
pub(crate) fn sizes_now(inventory: &Inventory<'_>, leaving: Option<&RankedPod<'_>>) -> Sizes {
    let rollout =
        inventory.status.rollout.as_ref().filter(|_| !inventory.recreate() && inventory.old_count() > 0);
    // If scaling was interrupted, the sizes are those before it.
    let scaled_from = rollout.and_then(|rollout| rollout.scaled_from.as_ref());
    let scaled_from = scaled_from.map(|sizes| sizes::widen(&believed::sizes(inventory, sizes)));
    let mut sizes = scaled_from.unwrap_or_else(|| inventory.by_set());
    if let Some(size) = leaving.and_then(|ranked| sizes.get_mut(ranked.hash)) {
        *size -= 1;
    }
    if inventory.recreate() && inventory.old_count() > 0 {
        return sizes;
    }
    let total: i64 = sizes.values().sum();
    let missing = (i64::from(scaled_for(inventory)) - total).max(0);
    *sizes.entry(fallback(inventory)).or_default() += missing;
    let updated = inventory.updated_count();
    limit_updated(inventory, sizes, declared::most_updated(inventory).map(|most| most.max(updated)))
}

/// These sizes with at most so many updated pods. An old set gets the others: the one with the most available pods; if no
/// old set can get pods, nothing changes.
pub(crate) fn limit_updated(inventory: &Inventory<'_>, mut sizes: Sizes, most: Option<i64>) -> Sizes {
    let updated = sizes.get(&inventory.hash).copied().unwrap_or(0);
    let excess = most.map_or(0, |most| updated - most);
    if excess > 0
        && let Some(old) = old_set(inventory, &sizes)
    {
        *sizes.entry(old).or_default() += excess;
        sizes.insert(inventory.hash.clone(), updated - excess);
    }
    sizes
}

/// The old set that gets pods: the one with the most available pods, else the largest in these sizes, else the set of the last
/// complete revision.
pub(crate) fn old_set(inventory: &Inventory<'_>, sizes: &Sizes) -> Option<String> {
    let size = |hash: &str| sizes.get(hash).copied().unwrap_or(0);
    let old = inventory.old_sets().filter(|set| !set.terminating && set.hash != inventory.hash);
    let is_back = |set: &crate::Set| inventory.back.is_some_and(|back| back.uid == set.uid);
    let candidates =
        old.filter(|set| (size(&set.hash) > 0 && inventory.takes_part(&set.hash)) || is_back(set));
    let rank = |set: &&crate::Set| (inventory.old_available(&set.hash), size(&set.hash), set.revision);
    candidates.max_by_key(rank).map(|set| set.hash.clone())
}

/// The set that gets what no other rule assigns: the current set, or the largest old one if the current one does not exist.
pub(crate) fn fallback(inventory: &Inventory<'_>) -> String {
    if inventory.current.is_some() || !(inventory.spec.paused || inventory.aborts()) {
        return inventory.hash.clone();
    }
    let sizes = inventory.by_set();
    let newest = inventory.usable_sets().max_by_key(|set| (sizes.get(&set.hash).copied(), set.revision));
    newest.map_or_else(|| inventory.hash.clone(), |set| set.hash.clone())
}

/// The stored sizes of a hold, a pause or a suspended rollout, and the number of replicas that they are for; `None`: the
/// rollout runs.
fn stored<'c>(inventory: &'c Inventory<'_>) -> Option<(Cow<'c, BTreeMap<String, i32>>, i32)> {
    let (sizes, replicas) = match (held(inventory.status), &inventory.status.pause) {
        (Some(hold), _) => (&hold.sizes, hold.replicas),
        (None, Some(pause)) if inventory.spec.paused => (&pause.sizes, pause.replicas),
        _ => {
            let suspended = inventory.status.rollout.as_ref()?.suspended.as_ref()?;
            (&suspended.sizes, suspended.replicas)
        }
    };
    Some((believed::sizes(inventory, sizes), replicas))
}

/// Whether a hold or a pause stored pods of an old set, which are created again when D grows.
pub(crate) fn keeps_old(inventory: &Inventory<'_>) -> bool {
    let Some((sizes, _)) = stored(inventory) else { return false };
    let has_share = |hash: &str| sizes.get(hash).is_some_and(|size| *size > 0) && inventory.takes_part(hash);
    inventory.old_sets().any(|set| !set.terminating && has_share(&set.hash))
}

/// The sizes that a hold or a pause keeps now; `None`: the rollout runs.
pub(crate) fn kept_sizes(inventory: &Inventory<'_>) -> Option<Sizes> {
    let mut sizes = sizes_for(inventory, &inventory.hash)?;
    // Surplus updated pods are deleted, held or not.
    if let Some(size) = sizes.get_mut(&inventory.hash) {
        *size = (*size).min(inventory.bounds.desired);
    }
    Some(sizes)
}

/// A new template while `spec.paused` is set: the pause continues with the kept sizes of the sets. The new template changes
/// which pods are old, and that must move no pod: if D has changed since, the current sizes are stored.
pub(crate) fn pause_of_the_rollout_before(inventory: &Inventory<'_>) -> Option<Pause> {
    let (sizes, replicas) = stored(inventory)?;
    let desired = inventory.spec.replicas;
    let before = inventory.status.rollout.as_ref().filter(|_| desired > 0 && desired != replicas);
    let now = before.and_then(|before| sizes_for(inventory, &before.template_hash));
    Some(match now {
        Some(now) => Pause { replicas: desired, sizes: narrow(&now) },
        None => Pause { replicas, sizes: sizes.into_owned() },
    })
}

/// The stored sizes, for the current D, if all sets except `current` are old.
fn sizes_for(inventory: &Inventory<'_>, current: &str) -> Option<Sizes> {
    let (sizes, replicas) = stored(inventory)?;
    let hold = held(inventory.status);
    let usable = inventory.usable_sets().map(|set| set.hash.as_str());
    let mut usable: Vec<&str> = usable.filter(|hash| inventory.takes_part(hash)).collect();
    if !inventory.spec.paused {
        // The current set is created if it is missing.
        usable.push(&inventory.hash);
    }
    let fallback = if current != inventory.hash && usable.contains(&current) {
        current.to_owned()
    } else {
        fallback(inventory)
    };
    let held_set = hold.and_then(|hold| {
        let pod = inventory.ranked_pods().iter().find(|ranked| **ranked.uid() == *hold.pod_uid);
        pod.map(|ranked| ranked.hash)
    });
    // An old set with more pods than stored for it got them while `spec.paused` left no other set to fill: the end of the
    // pause moves none of them.
    let present = inventory.by_set();
    let beyond = |hash: &str| {
        present.get(hash).copied().unwrap_or(0) - i64::from(sizes.get(hash).copied().unwrap_or(0))
    };
    let old = usable.iter().copied().filter(|hash| *hash != current && beyond(hash) > 0);
    let successor = old.max_by_key(|hash| beyond(hash));
    let stored =
        Stored { sizes: &sizes, replicas, usable, fallback: &fallback, successor, current, held: held_set };
    let sizes = stored.for_replicas(inventory.bounds.desired, &inventory.spec.strategy);
    if current != inventory.hash {
        return Some(sizes);
    }
    let most = declared::most_updated(inventory);
    if inventory.bounds.desired == i64::from(replicas) {
        let updated = inventory.updated_count();
        return Some(limit_updated(inventory, sizes, most.map(|most| most.max(updated))));
    }
    // At a point with `afterUpdated` there are D pods, so many of them updated; elsewhere at most so many.
    let point = hold.and_then(|hold| hold.declared.as_ref());
    let updated = point.and_then(|point| declared::held_number(inventory, point));
    Some(match (updated, old_set(inventory, &sizes)) {
        (Some(updated), Some(old)) if inventory.bounds.desired > 0 => {
            let total: i64 = sizes.values().sum();
            let mut sizes = sizes;
            let now = sizes.insert(inventory.hash.clone(), updated).unwrap_or(0);
            let old = sizes.entry(old).or_default();
            *old = (*old + now - updated).max(0).min(total);
            sizes
        }
        _ => limit_updated(inventory, sizes, most),
    })
}

pub(crate) fn narrow(sizes: &Sizes) -> BTreeMap<String, i32> {
    // A set without pods needs no size.
    let needed = sizes.iter().filter(|(_, size)| sizes.len() <= limits::SIZES || **size > 0);
    let narrow = |size: i64| i32::try_from(size.max(0)).unwrap_or(i32::MAX);
    needed.take(limits::SIZES).map(|(hash, size)| (hash.clone(), narrow(*size))).collect()
}

/// Whether these sizes are reached, as far as the ceiling allows.
pub(crate) fn is_reached(inventory: &Inventory<'_>, wanted: &Sizes) -> bool {
    wanted.values().sum::<i64>().min(inventory.bounds.ceiling) <= alive(inventory)
}

/// The number of active pods, without those that the garbage collector deletes.
pub(crate) fn alive(inventory: &Inventory<'_>) -> i64 {
    count(inventory.ranked_pods().iter().filter(|ranked| !ranked.collected))
}
