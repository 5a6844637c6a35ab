//! The order of many pods, whole or as far as one needs it. Never drops a pod: who is active is the caller's say.

use std::cmp::Ordering;

use crate::{Context, Facts, Key, key};

/// One pod at its place in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Which of the pods that were given.
    pub index: usize,
    /// Its key, for the reason why it stands before the next one.
    pub key: Key,
}

/// All pods in the order, the first to be deleted first.
#[must_use]
pub fn order(pods: &[Facts], ctx: &Context<'_>) -> Vec<Placed> {
    let mut placed = place(pods, ctx);
    placed.sort_unstable_by(compare);
    placed
}

/// The first `k` pods of the order, without sorting the rest: what `order` begins with.
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

/// Pods of one UID do not meet in a cluster; should a caller repeat one, its places still are the same each time.
fn compare(one: &Placed, other: &Placed) -> Ordering {
    one.key.cmp(&other.key).then(one.index.cmp(&other.index))
}
