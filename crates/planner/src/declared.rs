//! Declared pause points: where they are in the order, and how many updated pods they let exist. Read only; `hold` begins and
//! ends holds.

use std::time::Duration;

use ordereddeployment_api::{DeclaredPausePoint, HeldPoint, Rollout, updated_before_pause};

use crate::inventory::{Inventory, RankedPod};

/// A declared pause point with a place in the order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared<'c> {
    pub(crate) point: &'c DeclaredPausePoint,
    /// With `betweenNodeGroups`: the group whose first pod is behind it; `None` for pods without the label.
    pub(crate) group: Option<&'c str>,
    /// With `afterUpdated`: how many updated pods there are at the pause.
    pub(crate) updated: Option<i64>,
}

impl Declared<'_> {
    pub(crate) fn held(&self) -> HeldPoint {
        HeldPoint {
            name: self.point.name.clone(),
            group: self.group.map(ToOwned::to_owned),
            after_updated: self.point.after_updated.clone(),
        }
    }

    pub(crate) fn duration(&self) -> Option<Duration> {
        self.point.pause_duration()
    }

    /// Whether enough updated pods are available for the pause.
    pub(crate) fn is_reached(&self, inventory: &Inventory<'_>) -> bool {
        self.updated.is_none_or(|updated| inventory.updated_available() >= updated)
    }
}

/// The declared points that can still pause this rollout. An abort ignores all of them.
fn ahead<'c>(inventory: &'c Inventory<'_>) -> impl Iterator<Item = &'c DeclaredPausePoint> {
    let all = (!inventory.aborts() && !inventory.status.has_passed_all()).then_some(inventory.spec);
    let points = all.into_iter().flat_map(|spec| spec.strategy.points());
    points.filter(|point| {
        point.between_node_groups.is_some() || !inventory.status.has_passed_point(&point.name, None)
    })
}

/// The first place among these pods, given in order, before which a declared point pauses. Points at one place come in the order
/// of the list.
pub(crate) fn nearest<'c>(
    inventory: &'c Inventory<'_>,
    ranked_pods: &[RankedPod<'c>],
) -> Option<(usize, Declared<'c>)> {
    let places = ahead(inventory).filter_map(|point| place(inventory, point, ranked_pods));
    places.min_by_key(|(at, _)| *at)
}

fn place<'c>(
    inventory: &'c Inventory<'_>,
    point: &'c DeclaredPausePoint,
    ranked_pods: &[RankedPod<'c>],
) -> Option<(usize, Declared<'c>)> {
    let mut declared = Declared { point, group: None, updated: None };
    let first = |is_behind: &dyn Fn(&RankedPod<'c>) -> bool| ranked_pods.iter().position(is_behind);
    if point.after_updated.is_some() {
        declared.updated = point.updated(inventory.spec.replicas);
        let behind = usize::try_from(inventory.bounds.desired - declared.updated?).ok()?;
        let at = ranked_pods.len().saturating_sub(behind);
        return (at < ranked_pods.len()).then_some((at, declared));
    }
    let at = if let Some(priority) = point.before_priority {
        first(&|ranked| ranked.priority <= priority)
    } else if let Some(nodes) = &point.before_nodes {
        first(&|ranked| inventory.node_of(ranked).is_some_and(|node| nodes.matches(&node.labels)))
    } else {
        let unopened = |ranked: &RankedPod<'c>| !inventory.status.has_passed_point(&point.name, ranked.group);
        let at = first(&unopened);
        declared.group = at.and_then(|at| ranked_pods.get(at)).and_then(|ranked| ranked.group);
        // Without an opened group, the first one is opened before any pod is deleted: it has no pause.
        if is_begun(inventory, &point.name) {
            at
        } else {
            let opened = ranked_pods.first()?.group;
            let at = first(&|ranked| ranked.group != opened);
            declared.group = at.and_then(|at| ranked_pods.get(at)).and_then(|ranked| ranked.group);
            at
        }
    };
    at.map(|at| (at, declared))
}

/// Whether a group of that point is opened.
fn is_begun(inventory: &Inventory<'_>, name: &str) -> bool {
    inventory.status.passed_points.iter().flatten().any(|passed| passed.name == name)
}

/// The point whose first group must be stored as opened before a pod is deleted, and that group.
pub(crate) fn first_group<'c>(inventory: &'c Inventory<'_>) -> Option<(&'c str, Option<&'c str>)> {
    let point = ahead(inventory).find(|point| point.between_node_groups.is_some())?;
    let head = inventory.old().first()?;
    (!is_begun(inventory, &point.name)).then_some((point.name.as_str(), head.group))
}

/// The most updated pods until the next point with `afterUpdated` is passed. `None`: no such point is ahead, or no rollout
/// is in progress.
pub(crate) fn most_updated(inventory: &Inventory<'_>) -> Option<i64> {
    let goes_on =
        |rollout: &Rollout| !rollout.completed && !inventory.has_served() && inventory.back.is_some();
    if !inventory.status.rollout.as_ref().is_some_and(goes_on) && inventory.old_count() == 0 {
        return None;
    }
    // A hold keeps the number with which it began.
    let held = held(inventory);
    let number = |point: &DeclaredPausePoint| match held.filter(|held| held.name == point.name) {
        Some(held) if held.after_updated.is_some() => held_number(inventory, held),
        _ => point.updated(inventory.spec.replicas),
    };
    ahead(inventory).filter_map(number).min()
}

/// How many updated pods there are at the point of a hold: by the number with which it began. The point of the spec and the present
/// pods bound it, since a status can have any number.
pub(crate) fn held_number(inventory: &Inventory<'_>, held: &HeldPoint) -> Option<i64> {
    let replicas = inventory.spec.replicas;
    let number = updated_before_pause(held.after_updated.as_ref()?, replicas)?;
    let point = inventory.spec.strategy.points().find(|point| point.name == held.name);
    let declared = point.and_then(|point| point.updated(replicas)).unwrap_or(0);
    Some(number.min(declared.max(inventory.updated_count()).max(1)))
}

/// The declared point of the hold.
fn held<'c>(inventory: &'c Inventory<'_>) -> Option<&'c HeldPoint> {
    inventory.status.hold.as_ref()?.declared.as_ref()
}

/// Names of points with `afterUpdated` that are ahead and whose number the updated pods exceed already: new or changed points, and
/// points of a rollout to a revision that has pods. The rollout has passed them. The number is that of the replicas for which
/// the sets were last scaled: scaling never passes a point.
pub(crate) fn exceeded<'c>(inventory: &'c Inventory<'_>) -> Vec<&'c str> {
    let Some(rollout) = inventory.status.rollout.as_ref() else { return Vec::new() };
    let before = rollout.scaled_from.as_ref().and_then(|sizes| sizes.get(&inventory.hash));
    let updated = inventory.updated_count();
    let updated = before.map_or(updated, |size| i64::from(*size).min(updated));
    let held = held(inventory).map(|point| &point.name);
    let points = ahead(inventory).filter(|point| held != Some(&point.name));
    // For one replica there is no such number: then that of the current ones counts.
    let most = |point: &DeclaredPausePoint| {
        [rollout.replicas, inventory.spec.replicas]
            .into_iter()
            .filter_map(|number| point.updated(number))
            .max()
    };
    let exceeded = points.filter(|point| most(point).is_some_and(|most| updated > most));
    exceeded.map(|point| point.name.as_str()).collect()
}

/// Whether a declared point can still pause this rollout.
pub(crate) fn any(inventory: &Inventory<'_>) -> bool {
    let pauses = |point: &DeclaredPausePoint| {
        point.after_updated.is_none() || point.updated(inventory.spec.replicas.max(2)).is_some()
    };
    ahead(inventory).any(pauses)
}
