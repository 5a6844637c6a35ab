//! The rollout order, for previews: in which order pods are deleted, and where the rollout pauses.
//!
//! It shows the order that a decision on the same snapshot uses. It makes no decisions.

use std::sync::Arc;

use ordereddeployment_api::PausePoint;
use ordereddeployment_sorter::Why;

use crate::Snapshot;
use crate::barrier::{self, Position};
use crate::inventory::Inventory;

/// The pods in the order of their deletion.
#[derive(Clone, Debug)]
pub struct RolloutOrder {
    /// The UID of the current template's set, if it exists.
    pub current: Option<Arc<str>>,
    /// Whether a rollout is in progress: then the places are those of the old pods, else of all active pods.
    pub rolls: bool,
    /// The places; the first pod is deleted first.
    pub places: Vec<Place>,
    /// The pause point at which this rollout, or the next one, pauses.
    pub barrier: Option<BarrierPlace>,
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
    let barrier = barrier::barrier_of(&inventory, ranked_pods).unwrap_or_default();
    let barrier = barrier.map(|Position { at, side, declared }| BarrierPlace {
        at,
        side,
        declared: declared.map(|declared| declared.held().label()),
    });
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
        barrier,
    }
}
