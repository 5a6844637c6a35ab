//! The rollout order, for previews: in which order pods are deleted, and where the rollout pauses.
//!
//! It shows the order that a decision on the same snapshot uses. It makes no decisions.

use std::sync::Arc;

use ordereddeployment_api::PausePoint;
use ordereddeployment_sorter::Why;

use crate::ids::Id;
use crate::inventory::{Inventory, RankedPod};
use crate::points::{self, Ahead, Kind, Points};
use crate::{Decision, Point, Snapshot, groups, seen};

/// The pods in the order of their deletion.
#[derive(Clone, Debug)]
pub struct RolloutOrder {
    /// The UID of the current template's set, if it exists.
    pub current: Option<Arc<str>>,
    /// Whether a rollout is in progress: then the places are those of the old pods, else of all active pods.
    pub rolls: bool,
    /// The places; the first pod is deleted first.
    pub places: Vec<Place>,
    /// The pause points at which this rollout, or the next one, pauses, in order.
    pub points: Vec<BarrierPlace>,
}

/// The place of the pause point at which a rollout pauses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarrierPlace {
    /// An index into the places: the pod with the point, or the first pod behind a declared point.
    pub at: usize,
    /// The side of that pod.
    pub side: PausePoint,
    /// The name of a declared point, with its group of nodes if it has one.
    pub declared: Option<String>,
}

/// A pod and its place.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its UID.
    pub uid: Arc<str>,
    /// Its name.
    pub name: String,
    /// Its delete priority: from its annotation, else from a node rule, else 0.
    pub priority: i32,
    /// Why it has this place.
    pub why: Why,
}

/// The rollout order of a snapshot.
#[must_use]
pub fn rollout_order(snapshot: &Snapshot) -> RolloutOrder {
    let inventory = Inventory::of(snapshot);
    let rolls = inventory.old_count() > 0;
    let mut next: Vec<_> = if rolls { Vec::new() } else { inventory.updated().to_vec() };
    if let Some(label) = inventory.spec.strategy.node_group_label() {
        inventory.group(&mut next, label);
    }
    let ranked_pods = if rolls { inventory.old() } else { &next };
    let stored = inventory.status.rollout.as_ref();
    let is_begun = stored.is_some_and(|rollout| rollout.template_hash == inventory.hash);
    let points = match rolls {
        true if inventory.aborts() || inventory.returns() => Vec::new(),
        true if is_begun => ahead(&Inventory::of(&with_points(snapshot, &inventory))),
        _ => of_the_next_rollout(&inventory, ranked_pods),
    };
    let places = ranked_pods.iter().enumerate().map(|(index, ranked)| Place {
        uid: Arc::clone(ranked.uid()),
        name: ranked.pod.name.clone(),
        priority: ranked.priority,
        why: inventory.why(ranked, ranked_pods.get(index + 1)),
    });
    RolloutOrder {
        current: inventory.current.map(|set| Arc::clone(&set.uid)),
        rolls,
        places: places.collect(),
        points,
    }
}

/// The snapshot once the points that the rollout sees now are stored.
fn with_points(snapshot: &Snapshot, inventory: &Inventory<'_>) -> Snapshot {
    let mut seen = snapshot.clone();
    if let Some(Decision::Record(record)) = seen::see(inventory, groups::Sight::Later) {
        Arc::make_mut(&mut seen.deployment).status = Some(record.status);
    }
    seen
}

/// A point, how many pods are ahead of it, and its rank among points at one place.
type Placed = (usize, u8, BarrierPlace);

fn in_order(mut placed: Vec<Placed>) -> Vec<BarrierPlace> {
    placed.sort_by_key(|(ahead, rank, _)| (*ahead, *rank));
    placed.into_iter().map(|(.., place)| place).collect()
}

/// Where this rollout pauses.
fn ahead(inventory: &Inventory<'_>) -> Vec<BarrierPlace> {
    let old = inventory.old();
    let desired = inventory.bounds.desired;
    let place = |one: &Ahead<'_>| -> Option<Placed> {
        let keep = if desired == 1 { 1 } else { desired - one.limit };
        let by_number = old.len().saturating_sub(usize::try_from(keep).unwrap_or(0));
        let ahead = one.barrier.map_or(by_number, |barrier| barrier.min(by_number));
        let last = old.len().checked_sub(1)?;
        let declared = |name: String| {
            (ahead, 1, BarrierPlace { at: ahead.min(last), side: PausePoint::Before, declared: Some(name) })
        };
        Some(match &one.kind {
            Kind::Mark { pod, side } => match old.iter().position(|ranked| ranked.pod.name == *pod) {
                Some(at) => {
                    let rank = if *side == PausePoint::After { 0 } else { 2 };
                    (ahead, rank, BarrierPlace { at, side: *side, declared: None })
                }
                None => declared((*pod).to_owned()),
            },
            Kind::Place(place) => declared(place.held().label()),
            Kind::Number | Kind::Paused | Kind::Invalid => {
                declared(Id::parse(&one.id).map_or(one.id.as_str(), |id| id.name).to_owned())
            }
        })
    };
    let points = Points::of(inventory);
    let pausing = points.ahead.iter().filter(|one| !matches!(one.kind, Kind::Paused));
    in_order(pausing.filter_map(place).collect())
}

/// Where a rollout of these pods, given in order, would pause.
fn of_the_next_rollout(inventory: &Inventory<'_>, ranked_pods: &[RankedPod<'_>]) -> Vec<BarrierPlace> {
    let Some(last) = ranked_pods.len().checked_sub(1) else { return Vec::new() };
    let mut placed: Vec<Placed> = Vec::new();
    for (at, ranked) in ranked_pods.iter().enumerate() {
        match ranked.pod.point {
            Point::At { side: PausePoint::Before, .. } => {
                placed.push((at, 2, BarrierPlace { at, side: PausePoint::Before, declared: None }));
            }
            // Behind the last pod there is nothing to hold.
            Point::At { side: PausePoint::After, .. } if at < last => {
                placed.push((at + 1, 0, BarrierPlace { at, side: PausePoint::After, declared: None }));
            }
            _ => {}
        }
    }
    let desired = inventory.bounds.desired;
    for point in inventory.spec.strategy.points() {
        let mut declared = |at: usize, name: String| {
            let place = BarrierPlace { at, side: PausePoint::Before, declared: Some(name) };
            placed.push((at, 1, place));
        };
        if point.after_updated.is_some() {
            let limit = point.limit(inventory.spec.replicas, inventory.bounds.ceiling - desired).unwrap_or(0);
            let keep = if desired == 1 { 1 } else { desired - limit };
            let at = ranked_pods.len().saturating_sub(usize::try_from(keep).unwrap_or(0));
            declared(at.min(last), point.name.clone());
            continue;
        }
        let first = points::with_groups(ranked_pods).next().map(|ranked| ranked.group);
        let is_first = |place: &points::Place<'_>| {
            point.between_node_groups.is_some() && first == Some(place.group.as_deref())
        };
        for place in points::places(inventory, point, ranked_pods).iter().filter(|place| !is_first(place)) {
            if let Some(at) = place.barrier(inventory, ranked_pods) {
                declared(at, place.held().label());
            }
        }
    }
    in_order(placed)
}
