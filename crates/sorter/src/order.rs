//! The order of many pods, complete or only its beginning. It keeps every pod: the caller selects the active ones.

use std::cmp::Ordering;

use crate::{Context, Facts, Key, key};

/// A pod at its place in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The index of the pod in the input.
    pub index: usize,
    /// Its key, for the reason why it sorts before the next one.
    pub key: Key,
}

/// All pods in the order; the first is deleted first.
#[must_use]
pub fn order(pods: &[Facts], ctx: &Context<'_>) -> Vec<Placed> {
    let mut placed = place(pods, ctx);
    placed.sort_unstable_by(compare);
    placed
}

/// The first `k` pods of the order, without sorting the rest.
#[must_use]
pub fn first(pods: &[Facts], k: usize, ctx: &Context<'_>) -> Vec<Placed> {
    if k == 0 {
        return Vec::new();
    }
    let mut placed = place(pods, ctx);
    if k < placed.len() {
        placed.select_nth_unstable_by(k, compare);
        placed.truncate(k);
    }
    placed.sort_unstable_by(compare);
    placed
}

fn place(pods: &[Facts], ctx: &Context<'_>) -> Vec<Placed> {
    pods.iter().enumerate().map(|(index, pod)| Placed { index, key: key(pod, ctx) }).collect()
}

/// A cluster never has two pods with one UID; if a caller repeats one, the order is still deterministic.
fn compare(one: &Placed, other: &Placed) -> Ordering {
    one.key.cmp(&other.key).then(one.index.cmp(&other.index))
}
