//! The order of many pods, by their keys.

use ordereddeployment_sorter::{Context, Facts, Key, key};

/// One pod at its place in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Which of the pods that were given.
    pub index: usize,
    pub key: Key,
}

/// All pods in the order, the first to be deleted first.
pub fn order(pods: &[Facts], ctx: &Context<'_>) -> Vec<Placed> {
    let mut placed: Vec<_> =
        pods.iter().enumerate().map(|(index, pod)| Placed { index, key: key(pod, ctx) }).collect();
    placed.sort_by(|one, other| one.key.cmp(&other.key));
    placed
}
