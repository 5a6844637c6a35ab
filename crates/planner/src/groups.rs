//! The group of nodes before which a rollout does not pause, because it begins there: at most one until a
//! revision serves.
//!
//! It changes what the status says of it, and decides about no pod.

use ordereddeployment_api::{Aborted, AheadPoint, NodeGroups, Rollout};

use crate::ids::Id;
use crate::inventory::{Inventory, narrow};
use crate::pod_changes::PodChanges;
use crate::points::{self, Place, number_of};
use crate::sizes;
use crate::{Decision, Purpose, Record, served};

/// When a rollout is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// When it begins.
    First,
    Later,
    /// A rollout of a plain Deployment.
    Plain,
}

/// What a rollout that begins now keeps: the group of the rollout before, unless a revision serves, or its
/// abort is carried out.
pub(crate) fn kept(inventory: &Inventory<'_>) -> Option<NodeGroups> {
    let rollout = inventory.status.rollout.as_ref()?;
    if is_settled(inventory) {
        return None;
    }
    let known = rollout.node_groups.clone().map(|groups| NodeGroups {
        // Pods without the label have the id of the point for groups that no pod shows.
        open: groups.open && groups.group.is_some(),
        ..groups
    });
    // The rollout before can have replaced pods of any group.
    let label = inventory.spec.strategy.node_group_label().filter(|_| inventory.back.is_some());
    known.or_else(|| label.map(closed))
}

/// Whether the last rollout is over: its revision has served, or its abort is carried out.
pub(crate) fn is_settled(inventory: &Inventory<'_>) -> bool {
    let Some(rollout) = &inventory.status.rollout else { return true };
    let serves = if served::is_unrecorded(&inventory.snapshot.sets) {
        rollout.completed
    } else {
        let set = inventory.usable_sets().find(|set| set.hash == rollout.template_hash);
        set.is_some_and(|set| set.served == Some(rollout.revision))
    };
    let is_undone = |aborted: &Aborted| {
        let there = inventory.by_set().get(&aborted.template_hash).copied().unwrap_or(0);
        let wanted = inventory.bounds.desired.max(sizes::last_replicas(rollout).into());
        there > 0 && there == inventory.active() && there >= wanted
    };
    serves || inventory.status.aborted.as_ref().is_some_and(is_undone)
}

/// No group is open.
fn closed(label: &str) -> NodeGroups {
    NodeGroups { label: label.to_owned(), ..NodeGroups::default() }
}

/// Before the rollout deletes its first pod: what to store.
pub(crate) fn begin(inventory: &Inventory<'_>, changes: &PodChanges) -> Option<Decision> {
    let groups = inventory.status.rollout.as_ref()?.node_groups.as_ref()?;
    let deletes = || {
        let mut groups = changes.deletes.iter().filter(|group| group.purpose == Purpose::Rollout);
        groups.any(|group| !group.targets.is_empty())
    };
    if groups.pods.is_none() || !deletes() {
        return None;
    }
    let mut status = inventory.status.clone();
    if let Some(groups) = status.rollout.as_mut().and_then(|rollout| rollout.node_groups.as_mut()) {
        groups.pods = None;
    }
    Some(Decision::Record(Record { status, events: Vec::new() }))
}

/// Until the rollout deletes an old pod, or one is missing, the group that comes first is open: pods that
/// have no node yet can form another one.
pub(crate) fn see(inventory: &Inventory<'_>, rollout: &mut Rollout, sight: Sight) {
    let mut declared = inventory.spec.strategy.points();
    let point = declared.find_map(|point| Some((point, point.between_node_groups.as_ref()?)));
    let Some((point, label)) = point.filter(|_| inventory.invalid_points.is_empty()) else { return };
    if rollout.node_groups.as_ref().is_some_and(|groups| groups.label != *label) {
        rollout.node_groups = Some(closed(label));
    }
    let there = narrow(inventory.old_count());
    if let Some(groups) = &mut rollout.node_groups {
        // An updated pod can take the place of a missing one, and in a scale-up, a new old pod can.
        let desired = inventory.bounds.desired;
        let before = inventory.status.rollout.as_ref().map_or(0, sizes::last_replicas);
        let is_whole = inventory.active() >= desired || desired <= before.into();
        groups.pods = groups.pods.filter(|before| is_whole && there >= *before).map(|_| there);
    }
    let old = inventory.old();
    let Some(first) = points::with_groups(old).next().map(|ranked| ranked.group) else { return };
    if inventory.bounds.desired == 0 || inventory.aborts() {
        return;
    }
    let place = Place { point, group: first.map(ToOwned::to_owned) };
    let opens = NodeGroups {
        label: label.clone(),
        open: true,
        group: place.group.clone(),
        pods: (sight != Sight::Plain).then_some(there),
    };
    let is_it = |ahead: &AheadPoint| Id::parse(&ahead.id).is_some_and(|id| id.name == place.held().label());
    let is_ahead = rollout.points.iter().flatten().any(is_it);
    match &mut rollout.node_groups {
        None if is_ahead || has_replaced(inventory, &place, sight) => {
            rollout.node_groups = Some(closed(label));
        }
        None => rollout.node_groups = Some(opens),
        Some(groups) if !groups.open || groups.pods.is_none() || groups.group == opens.group => {}
        Some(groups) if inventory.status.hold.is_none() && first.is_some() => {
            *groups = opens;
            // Nothing is replaced: the groups that pods show are counted again.
            let is_shown = |ahead: &AheadPoint| {
                let place = Id::parse(&ahead.id).and_then(|id| Place::named(inventory, id.name));
                let place = place.filter(|place| place.group.is_some() && ahead.side.is_none());
                place.is_some_and(|place| place.barrier(inventory, old).is_some())
            };
            rollout.points.iter_mut().for_each(|points| points.retain(|ahead| !is_shown(ahead)));
        }
        Some(_) => {}
    }
}

/// Whether the rollout may have replaced a pod before it saw this group. Recreate replaces pods without an
/// updated one beside them. The Deployment controller makes updated pods before a rollout is seen.
fn has_replaced(inventory: &Inventory<'_>, first: &Place<'_>, sight: Sight) -> bool {
    if sight == Sight::Plain {
        return false;
    }
    let is_late = sight == Sight::Later && !points::has_seen(inventory, &first.point.name);
    let before = inventory.status.rollout.as_ref().map_or(0, sizes::last_replicas);
    let missing = number_of(inventory, first.point, inventory.old().len());
    is_late
        || inventory.updated_count() > 0
        || points::first_served(inventory.old()) > 0
        || (inventory.recreate() && inventory.active() < before.into())
        // Pods that are missing can be those of a group, and are counted as pods of none.
        || (first.group.is_none() && missing.limit < missing.replicas)
}
