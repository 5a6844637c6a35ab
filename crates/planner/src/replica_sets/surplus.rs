//! The pods that a set has too many. Counts only.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Set;
use crate::inventory::{Inventory, RankedPod};

/// The desired number of pods of a set.
pub(super) fn size(set: &Set) -> i64 {
    i64::from(set.replicas.max(0))
}

/// The first pods of each set in the order, as many as it has too many.
pub(super) fn first_of_each<'c, 'a>(
    ranked_pods: &'c [RankedPod<'a>],
    surplus: &BTreeMap<&str, i64>,
) -> Vec<&'c RankedPod<'a>> {
    let mut left = surplus.clone();
    let mut takes = |ranked: &&RankedPod<'_>| match left.get_mut(&*ranked.pod.set) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    };
    ranked_pods.iter().filter(|ranked| takes(ranked)).collect()
}

/// How many pods of which set wait, and for what.
pub(super) fn waiting(
    inventory: &Inventory<'_>,
    waits: &BTreeMap<&str, usize>,
    what: &str,
) -> BTreeMap<Arc<str>, String> {
    let sets = inventory.usable_sets().filter_map(|set| Some((set, *waits.get(&*set.uid)?)));
    let message = |count: usize| match count {
        1 => format!("1 pod beyond the size of the set waits: {what}"),
        count => format!("{count} pods beyond the size of the set wait: {what}"),
    };
    sets.filter(|(_, count)| *count > 0).map(|(set, count)| (Arc::clone(&set.uid), message(count))).collect()
}
