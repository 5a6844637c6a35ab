//! The published sizes of the sets. Arithmetic only; no pods are involved.

use std::collections::BTreeMap;

use ordereddeployment_api::Rollout;

/// Numbers of pods by `pod-template-hash`.
pub(crate) type Sizes = BTreeMap<String, i64>;

/// The sizes to publish: the given ones with the least change that makes their sum D. The disruption
/// controller sums them up for the number of expected pods. The current set takes the difference; if it has
/// too few, the largest old sets give.
pub(crate) fn published(sizes: &Sizes, desired: i64, current: &str) -> Sizes {
    let mut published = sizes.clone();
    let old: i64 = published.iter().filter(|(hash, _)| *hash != current).map(|(_, size)| *size).sum();
    published.insert(current.to_owned(), (desired - old).max(0));
    let excess = old - desired;
    if excess > 0 {
        let mut others: Vec<&mut i64> =
            published.iter_mut().filter(|(hash, _)| *hash != current).map(|(_, size)| size).collect();
        take_from_largest(&mut others, excess);
    }
    published
}

/// Removes `excess` in total, each time from the largest.
fn take_from_largest(sizes: &mut [&mut i64], excess: i64) {
    let beyond = |cap: i64| sizes.iter().map(|size| (**size - cap).max(0)).sum::<i64>();
    // The smallest cap that removes at most the excess.
    let (mut low, mut high) = (0, sizes.iter().map(|size| **size).max().unwrap_or(0));
    while low < high {
        let middle = low + (high - low) / 2;
        if beyond(middle) <= excess {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let mut left = excess - beyond(low);
    for size in sizes.iter_mut().rev() {
        **size = (**size).min(low);
        if **size == low && low > 0 && left > 0 {
            **size -= 1;
            left -= 1;
        }
    }
}

/// The number of replicas of the last decision, as the status says.
pub(crate) fn last_replicas(rollout: &Rollout) -> i32 {
    let scaling = rollout.scaling;
    scaling.map_or(rollout.replicas, |scaling| scaling.to.map_or(scaling.reached, |to| to.replicas))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(entries: &[(&str, i64)]) -> Sizes {
        entries.iter().map(|(hash, size)| ((*hash).to_owned(), *size)).collect()
    }

    #[test]
    fn publishing_takes_pods_one_by_one_from_the_largest_set() {
        let one_by_one = |given: &Sizes, desired: i64| {
            let mut left = given.clone();
            left.remove("new");
            while left.values().sum::<i64>() > desired {
                if let Some((_, size)) = left.iter_mut().max_by_key(|(_, size)| **size) {
                    *size -= 1;
                }
            }
            left.insert("new".into(), desired - left.values().sum::<i64>());
            left
        };
        for (a, b, c) in [(0, 0, 0), (1, 1, 1), (9, 1, 1), (5, 5, 0), (7, 6, 6), (3, 9, 2), (4, 4, 4)] {
            let given = sizes(&[("a", a), ("b", b), ("new", 4), ("z", c)]);
            for desired in 0..20 {
                assert_eq!(published(&given, desired, "new"), one_by_one(&given, desired), "{given:?}");
            }
        }
        let most = i64::from(i32::MAX);
        let huge = sizes(&[("a", most), ("b", most), ("new", most)]);
        assert_eq!(published(&huge, 3, "new"), sizes(&[("a", 2), ("b", 1), ("new", 0)]));
    }
}
