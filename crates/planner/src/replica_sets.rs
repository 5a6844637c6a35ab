//! The decision about the ReplicaSets of a plain Deployment, or about one ReplicaSet without a Deployment.
//!
//! The sizes of the sets are in their specs: the Deployment controller, or a user, decides them. This module
//! decides which pods of a set go, in which order, and where the rollout of a Deployment pauses. It never
//! changes the size of a set.
//!
//! A set of another template than the Deployment's is *old*. Its pods go in one order with those of all old
//! sets; pause points bind only them.

mod pause;
mod surplus;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use ordereddeployment_api::OrderedDeploymentStatus;

use crate::decide::{lost, points};
use crate::inventory::{Inventory, RankedPod, count};
use crate::pod_changes::{PodChanges, create_failed, creates, groups, old_terminating};
use crate::replica_sets::pause::{HeldBack, kept_back};
use crate::replica_sets::surplus::{first_of_each, size, unavailable_at_the_floor};
use crate::{Act, Decision, DeleteGroup, Failure, FailureKind, Purpose, Read, Set, Snapshot};

/// Decides the next step for these sets. A pure function: equal snapshots give equal decisions.
///
/// The snapshot's object is the Deployment: its template says which set is the newest, its status contains
/// the hold and the passed pause points. For a set without a Deployment it is the set itself, so that no set
/// is old. Each set has its name as its hash.
#[must_use]
pub fn decide_sets(snapshot: &Snapshot) -> Decision {
    let mut inventory = Inventory::of(snapshot);
    inventory.invalid_points.extend(pause::invalid(snapshot));
    if !inventory.missing_nodes.is_empty() {
        return Decision::Read(Read::Nodes(inventory.missing_nodes.clone()));
    }
    // A Deployment that is being deleted has no rollout to pause. Its sets keep their sizes until they go.
    let is_ending = snapshot.deployment.metadata.deletion_timestamp.is_some();
    let mut first = if is_ending { None } else { pause::transition(&inventory) };
    let mut changes = PodChanges::default();
    let mut held_back = HeldBack::new();
    changes.creates = missing(&inventory);
    if first.is_none() {
        match deletes(&inventory, is_ending) {
            Ok((found, waits)) => (changes.deletes, held_back) = (found, waits),
            Err(record) => first = Some(*record),
        }
    }
    wait_for_room(&inventory, &mut changes);
    // No create waits for what is stored in the Deployment: if that is refused, lost pods are still replaced.
    // But a lost last old pod ends the hold.
    let loses_last = inventory.status.hold.is_some() && inventory.old_count() == 0;
    let creates_first = matches!(first, Some(Decision::Record(_)))
        && !changes.creates.is_empty()
        && !loses_last
        && !create_failed(&inventory);
    if let Some(first) = first.filter(|_| !creates_first) {
        return first;
    }
    let points = points(&inventory, &changes);
    Decision::Act(Act {
        creates: creates(&inventory, &changes),
        events: lost(&inventory, &points),
        deletes: changes.deletes,
        status: inventory.status.clone(),
        requeue: requeue(&inventory),
        held_back,
        points,
        ..Act::default()
    })
}

/// The value of the Deployment's `spec.paused` that is stored together with this status, if it changes.
#[must_use]
pub fn pauses(before: &OrderedDeploymentStatus, after: &OrderedDeploymentStatus) -> Option<bool> {
    (before.hold.is_some() != after.hold.is_some()).then(|| after.hold.is_some())
}

/// The sets whose pods are known: a pod that cannot be adopted or released stops only its set.
fn reconciled<'a>(inventory: &Inventory<'a>) -> impl Iterator<Item = &'a Set> {
    let unclaimed = &inventory.snapshot.unclaimed;
    inventory.usable_sets().filter(|set| !unclaimed.contains(&set.uid))
}

/// The pods that the sets miss.
fn missing(inventory: &Inventory<'_>) -> BTreeMap<String, i64> {
    let active = inventory.by_set();
    let pods = |set: &Set| active.get(&set.hash).copied().unwrap_or(0);
    let old_ones_go = inventory.old_sets().any(|set| pods(set) > size(set)) || old_terminating(inventory);
    let wanted = |set: &Set| {
        if !inventory.recreate() {
            size(set)
        } else if !inventory.is_current_set(&set.uid) {
            pause::wanted_of_old_set(inventory, set)
        } else if pods(set) == 0
            && (old_ones_go || inventory.status.hold.is_some() && inventory.old_count() > 0)
        {
            // No new pod beside old ones: the Deployment controller fills a paused Deployment up.
            0
        } else {
            size(set)
        }
    };
    // As in the ReplicaSet controller: replacements of failed pods do not wait.
    let missing = reconciled(inventory).map(|set| (set.hash.clone(), wanted(set) - pods(set)));
    missing.filter(|(_, missing)| *missing > 0).collect()
}

/// The pods that the sets have too many and that go now, and those that wait for a pause point.
fn deletes(
    inventory: &Inventory<'_>,
    is_ending: bool,
) -> Result<(Vec<DeleteGroup>, HeldBack), Box<Decision>> {
    let active = inventory.by_set();
    let more = |set: &Set| active.get(&set.hash).copied().unwrap_or(0) - size(set);
    let surplus: BTreeMap<&str, i64> =
        reconciled(inventory).map(|set| (&*set.uid, more(set))).filter(|(_, more)| *more > 0).collect();
    let of_newest = first_of_each(inventory.updated(), &surplus);
    let of_old = unavailable_at_the_floor(inventory, &surplus);
    let is_held = !is_ending && inventory.status.hold.is_some();
    let mut deletes = groups(inventory, of_newest, Purpose::Scale);
    let held_back = if is_held {
        let (of_old, held_back) = kept_back(inventory, &surplus);
        deletes.extend(groups(inventory, of_old, Purpose::Scale));
        held_back
    } else if is_ending || inventory.bounds.desired == 0 {
        // Without replicas no pod may wait.
        deletes.extend(groups(inventory, of_old, Purpose::Scale));
        HeldBack::new()
    } else {
        // Without a set of the Deployment's template, only scaling makes the newest set smaller.
        let scaled = if inventory.recreate() { None } else { newest_without_current(inventory) };
        let is_scaled = |ranked: &&RankedPod<'_>| scaled.is_some_and(|set| set.uid == ranked.pod.set);
        let (of_scaled, of_rollout): (Vec<_>, Vec<_>) = of_old.into_iter().partition(is_scaled);
        let (of_rollout, held_back) = pause::ahead(inventory, of_rollout)?;
        deletes.extend(groups(inventory, of_scaled, Purpose::Scale));
        deletes.extend(groups(inventory, of_rollout, Purpose::Rollout));
        held_back
    };
    deletes.sort_by_key(|group| std::cmp::Reverse(group.targets.first().map(|target| target.priority)));
    Ok((deletes, held_back))
}

/// The set with the largest revision, if none has the template of the Deployment.
fn newest_without_current<'a>(inventory: &Inventory<'a>) -> Option<&'a Set> {
    let newest = inventory.old_sets().max_by_key(|set| set.revision);
    // If a newer one existed, this one is rolled out.
    let is_newest =
        |set: &&Set| inventory.status.rollout.as_ref().is_none_or(|rollout| rollout.revision <= set.revision);
    newest.filter(|_| inventory.current.is_none()).filter(is_newest)
}

/// Leaves creates to the next act for which only deletes of this act make room: with them there would be more
/// pods than the sets want together. If a delete has failed, they do not wait for it, as in the ReplicaSet
/// controller, which knows only one set.
fn wait_for_room(inventory: &Inventory<'_>, changes: &mut PodChanges) {
    let mut waiting = count(changes.deletes.iter().flat_map(|group| &group.targets));
    if waiting > 0 && create_failed(inventory) {
        // With an exhausted quota only deletes make room.
        changes.creates.clear();
    }
    let delete_failed = |failure: &Failure| failure.what == FailureKind::Delete;
    if inventory.snapshot.failure.as_ref().is_some_and(delete_failed) {
        return;
    }
    let (newest, others): (Vec<_>, Vec<_>) =
        changes.creates.iter_mut().partition(|(hash, _)| **hash == inventory.hash);
    for (_, missing) in others.into_iter().chain(newest) {
        let fewer = waiting.min(*missing);
        *missing -= fewer;
        waiting -= fewer;
    }
    changes.creates.retain(|_, missing| *missing > 0);
}

/// When time alone changes the decision or the status of a set.
fn requeue(inventory: &Inventory<'_>) -> Option<Duration> {
    let until = inventory.status.hold.as_ref().and_then(|hold| hold.until.as_ref()).map(|until| until.0);
    let now = inventory.snapshot.now;
    let wait = |time: Timestamp| Duration::try_from(time.duration_since(now)).unwrap_or_default();
    [inventory.next_available, until].into_iter().flatten().filter(|time| *time > now).map(wait).min()
}
