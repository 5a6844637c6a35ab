//! The line-up: whose turn comes, and where the rollout halts, for those who show it beforehand.
//!
//! It is what a decision on the same observation goes by. It never decides.

use std::sync::Arc;

use ordereddeployment_api::PausePoint;
use ordereddeployment_sorter::{self as sorter, Why};

use crate::Observed;
use crate::barrier;
use crate::census::Census;

/// The pods in the order in which they go.
#[derive(Clone, Debug)]
pub struct LineUp {
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
pub fn line_up(observed: &Observed) -> LineUp {
    let census = Census::of(observed);
    let rolls = census.old_count() > 0;
    let members: Vec<_> = census.members.iter().filter(|member| !rolls || !member.updated).collect();
    let barrier = barrier::barrier_of(&census, &members);
    let places = members.iter().enumerate().map(|(index, member)| Place {
        uid: Arc::clone(member.uid()),
        name: member.pod.name.clone(),
        priority: member.key.priority(),
        why: members.get(index + 1).and_then(|next| sorter::why(&member.key, &next.key)),
    });
    LineUp {
        current: census.current.map(|set| Arc::clone(&set.uid)),
        rolls,
        places: places.collect(),
        barrier: barrier.unwrap_or_default(),
    }
}
