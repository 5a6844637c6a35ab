//! The line-up: whose turn comes, and where the rollout halts, for those who show it beforehand.
//!
//! It is what a decision on the same observation goes by. It never decides.

use std::sync::Arc;

use ordereddeployment_api::PausePoint;
use ordereddeployment_sorter::{self as sorter, Why};

use crate::Snapshot;
use crate::barrier;
use crate::inventory::Inventory;

/// The pods in the order in which they go.
#[derive(Clone, Debug)]
pub struct RolloutOrder {
    /// The UID of the current template's set, where it is there.
    pub current: Option<Arc<str>>,
    /// Whether a rollout is under way: the places are then those of the old pods alone, else of all active pods.
    pub rolls: bool,
    /// The first goes first.
    pub places: Vec<Place>,
    /// The pause point at which this rollout halts, or the next one: an index into `places`, and on which side.
    pub barrier: Option<(usize, PausePoint)>,
}

/// A pod at its place.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its UID.
    pub uid: Arc<str>,
    /// Its name.
    pub name: String,
    /// Its delete priority: of its annotation, else of a node rule, else 0.
    pub priority: i32,
    /// Why it goes before the next one; `None` for the last.
    pub why: Option<Why>,
}

/// Lines the pods up.
#[must_use]
pub fn rollout_order(snapshot: &Snapshot) -> RolloutOrder {
    let inventory = Inventory::of(snapshot);
    let rolls = inventory.old_count() > 0;
    let ranked_pods: Vec<_> =
        inventory.ranked_pods.iter().filter(|ranked| !rolls || !ranked.updated).collect();
    let barrier = barrier::barrier_of(&inventory, &ranked_pods);
    let places = ranked_pods.iter().enumerate().map(|(index, ranked)| Place {
        uid: Arc::clone(ranked.uid()),
        name: ranked.pod.name.clone(),
        priority: ranked.key.priority(),
        why: ranked_pods.get(index + 1).and_then(|next| sorter::why(&ranked.key, &next.key)),
    });
    RolloutOrder {
        current: inventory.current.map(|set| Arc::clone(&set.uid)),
        rolls,
        places: places.collect(),
        barrier: barrier.unwrap_or_default(),
    }
}
