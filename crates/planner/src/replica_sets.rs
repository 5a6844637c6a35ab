//! The decision about the ReplicaSets of a plain Deployment, or about one ReplicaSet without a Deployment.
//!
//! The sizes of the sets are in their specs: the Deployment controller, or a user, decides them. This module decides which pods of a
//! set go, in which order, and where the rollout of a Deployment pauses. It never changes the size of a set.
//!
//! A set of another template than the Deployment's is *old*. Its pods go in one order with those of all old sets; pause points bind
//! only them.

mod pause;
mod surplus;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use ordereddeployment_api::OrderedDeploymentStatus;

use crate::barrier::held;
use crate::decide::{lost, points};
use crate::inventory::{Inventory, count};
use crate::pod_changes::{PodChanges, create_failed, creates, groups};
use crate::replica_sets::pause::{Pausing, kept_back};
use crate::replica_sets::surplus::{first_of_each, size, unavailable_at_the_floor};
use crate::{Act, Decision, Failure, FailureKind, Purpose, Read, Snapshot};

/// Decides the next step for these sets. A pure function: equal snapshots give equal decisions.
///
/// The snapshot's object is the Deployment: its template says which set is the newest, its status contains the hold and the passed
/// pause points. For a set without a Deployment it is the set itself, so that no set is old. Each set has its name as its hash.
#[must_use]
pub fn decide_sets(snapshot: &Snapshot) -> Decision {
    let inventory = Inventory::of(snapshot);
    if !inventory.missing_nodes.is_empty() {
        return Decision::Read(Read::Nodes(inventory.missing_nodes.clone()));
    }
    // The garbage collector deletes the Deployment: there is no rollout to pause, but its sets keep their sizes until they go too.
    let is_ending = snapshot.deployment.metadata.deletion_timestamp.is_some();
    if !is_ending && let Some(first) = pause::transition(&inventory) {
        return first;
    }
    let mut changes = PodChanges::default();
    let mut pausing = Pausing::default();
    // Pods could not be adopted or released: which pods belong to the sets is not known.
    if snapshot.failure.as_ref().is_none_or(|failure| failure.what != FailureKind::Claim) {
        match pod_changes(&inventory, is_ending) {
            Ok((found, waits)) => (changes, pausing) = (found, waits),
            Err(first) => return *first,
        }
    }
    let points = points(&inventory, &changes);
    Decision::Act(Act {
        creates: creates(&inventory, &changes),
        events: lost(&inventory, &points),
        deletes: changes.deletes,
        status: inventory.status.clone(),
        requeue: requeue(&inventory),
        held_back: pausing.held_back,
        points,
        ..Act::default()
    })
}

/// The value of the Deployment's `spec.paused` that is stored together with this status, if it changes.
#[must_use]
pub fn pauses(before: &OrderedDeploymentStatus, after: &OrderedDeploymentStatus) -> Option<bool> {
    (before.hold.is_some() != after.hold.is_some()).then(|| after.hold.is_some())
}

/// The pods to create and to delete, and the pods that wait for a pause point.
fn pod_changes(inventory: &Inventory<'_>, is_ending: bool) -> Result<(PodChanges, Pausing), Box<Decision>> {
    let active = inventory.by_set();
    let mut surplus = BTreeMap::new();
    let mut changes = PodChanges::default();
    for set in inventory.usable_sets() {
        let more = active.get(&set.hash).copied().unwrap_or(0) - size(set);
        match more {
            1.. => _ = surplus.insert(&*set.uid, more),
            // As in the ReplicaSet controller: replacements of failed pods do not wait.
            ..=-1 => _ = changes.creates.insert(set.hash.clone(), -more),
            0 => {}
        }
    }
    let of_newest = first_of_each(inventory.updated(), &surplus);
    let of_old = unavailable_at_the_floor(inventory, &surplus);
    let is_held = !is_ending && held(inventory.status).is_some();
    let (of_old, purpose, pausing) = if is_held {
        let (of_old, pausing) = kept_back(inventory, &surplus);
        (of_old, Purpose::Scale, pausing)
    } else if is_ending
        || (inventory.current.is_none() && !inventory.recreate())
        || inventory.bounds.desired == 0
    {
        // Without a set of the Deployment's template its rolling update has not begun. Without replicas no pod may wait.
        (of_old, Purpose::Scale, Pausing::default())
    } else {
        let (of_old, pausing) = pause::ahead(inventory, of_old)?;
        (of_old, Purpose::Rollout, pausing)
    };
    changes.deletes = groups(inventory, of_newest, Purpose::Scale);
    changes.deletes.extend(groups(inventory, of_old, purpose));
    changes
        .deletes
        .sort_by_key(|group| std::cmp::Reverse(group.targets.first().map(|target| target.priority)));
    wait_for_room(inventory, &mut changes);
    Ok((changes, pausing))
}

/// Leaves creates to the next act for which only deletes of this act make room: with them there would be more pods than the sets want
/// together. If a delete has failed, they do not wait for it, as in the ReplicaSet controller, which knows only one set.
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
    let until = held(inventory.status).and_then(|hold| hold.until.as_ref()).map(|until| until.0);
    let now = inventory.snapshot.now;
    let wait = |time: Timestamp| Duration::try_from(time.duration_since(now)).unwrap_or_default();
    [inventory.next_available, until].into_iter().flatten().filter(|time| *time > now).map(wait).min()
}
