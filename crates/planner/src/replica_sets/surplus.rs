//! The pods that a set has too many. Counts only.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Set;
use crate::inventory::{Inventory, RankedPod};
use crate::points::Points;

/// The desired number of pods of a set.
pub(super) fn size(set: &Set) -> i64 {
    i64::from(set.replicas.max(0))
}

/// Takes this pod, if its set still has too many.
fn take(left: &mut BTreeMap<&str, i64>, ranked: &RankedPod<'_>) -> bool {
    match left.get_mut(&*ranked.pod.set) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    }
}

/// The first pods of each set in the order, as many as it has too many.
pub(super) fn first_of_each<'c, 'a>(
    ranked_pods: &'c [RankedPod<'a>],
    surplus: &BTreeMap<&str, i64>,
) -> Vec<&'c RankedPod<'a>> {
    let mut left = surplus.clone();
    ranked_pods.iter().filter(|ranked| take(&mut left, ranked)).collect()
}

/// The pods of old sets that are too many. The Deployment controller makes old sets smaller by their
/// unavailable pods too, and expects that these go first: an available pod for which too few would be left is
/// passed over if the set has an unavailable one behind it. None is passed over for a pod at or behind a
/// pause point.
pub(super) fn unavailable_at_the_floor<'c, 'a>(
    inventory: &'c Inventory<'a>,
    surplus: &BTreeMap<&str, i64>,
) -> Vec<&'c RankedPod<'a>> {
    let old = inventory.old();
    let (ahead, behind) = old.split_at(Points::without_numbers(inventory).barrier.min(old.len()));
    let mut left = surplus.clone();
    let mut spare = (inventory.available - inventory.bounds.floor).max(0);
    let (mut taken, mut passed_over) = (Vec::new(), Vec::new());
    for ranked in ahead {
        if ranked.available && spare == 0 {
            passed_over.push(ranked);
        } else if take(&mut left, ranked) {
            spare -= i64::from(ranked.available);
            taken.push(ranked);
        }
    }
    // The size of a set counts, whatever its pods are.
    taken.extend(passed_over.into_iter().chain(behind).filter(|ranked| take(&mut left, ranked)));
    taken.sort_by_key(|ranked| ranked.place);
    taken
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
