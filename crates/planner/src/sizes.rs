//! The split of a number of pods over sets. Arithmetic only; no pods are involved.

use std::collections::BTreeMap;

use ordereddeployment_api::Strategy;

/// Numbers of pods by `pod-template-hash`.
pub(crate) type Sizes = BTreeMap<String, i64>;

/// The stored sizes of a hold or a pause, and the sets that they apply to.
pub(crate) struct Stored<'a> {
    /// The stored sizes, and the number of replicas at that time.
    pub(crate) sizes: &'a BTreeMap<String, i32>,
    pub(crate) replicas: i32,
    /// Hashes of the sets that can still get pods.
    pub(crate) usable: Vec<&'a str>,
    /// The set that gets pods without a stored size.
    pub(crate) fallback: &'a str,
    /// The set that gets the share of a deleted set; without one the fallback gets it.
    pub(crate) successor: Option<&'a str>,
    /// The current template's hash: every other set is old.
    pub(crate) current: &'a str,
    /// The set of the held pod: among the old sets it keeps a pod longest.
    pub(crate) held: Option<&'a str>,
}

impl Stored<'_> {
    /// The sizes for `desired` replicas. A pure function of what was stored, so that D → 0 → D restores the split.
    ///
    /// With an unchanged D the stored sizes apply. A smaller D is split in proportion. A larger D adds to all sets, and
    /// under Recreate to the sizes that the hold left. If there were old pods and D ≥ 1, at least one stays old.
    pub(crate) fn for_replicas(&self, desired: i64, strategy: &Strategy) -> Sizes {
        let stored = widen(self.sizes);
        let replicas = i64::from(self.replicas);
        let total: i64 = stored.values().sum();
        let wanted = if desired == replicas {
            total
        } else if desired < replicas {
            total.min(desired)
        } else if strategy.type_ == ordereddeployment_api::StrategyType::Recreate {
            total + (desired - replicas)
        } else {
            total.max(desired)
        };
        let kept: Sizes =
            stored.into_iter().filter(|(hash, _)| self.usable.contains(&hash.as_str())).collect();
        // The share of a deleted set goes to another one; otherwise too few pods would serve.
        let gone = total - kept.values().sum::<i64>();
        let mut base = kept;
        *base.entry(self.successor.unwrap_or(self.fallback).to_owned()).or_default() += gone;
        let mut sizes = apportion(&base, wanted, self.fallback);
        self.keep_one_old(&base, &mut sizes);
        sizes
    }

    fn keep_one_old(&self, base: &Sizes, sizes: &mut Sizes) {
        let is_old = |hash: &str| hash != self.current;
        let any_old = |sizes: &Sizes| sizes.iter().any(|(hash, size)| is_old(hash) && *size > 0);
        if !any_old(base) || any_old(sizes) || sizes.get(self.current).is_none_or(|size| *size == 0) {
            return;
        }
        let held = self.held.filter(|hash| is_old(hash) && base.get(*hash).is_some_and(|size| *size > 0));
        let largest = || {
            base.iter()
                .filter(|(hash, _)| is_old(hash))
                .max_by_key(|(_, size)| **size)
                .map(|(hash, _)| hash.as_str())
        };
        if let Some(hash) = held.or_else(largest) {
            *sizes.entry(hash.to_owned()).or_default() += 1;
            *sizes.entry(self.current.to_owned()).or_default() -= 1;
        }
    }
}

/// The stored sizes; a forged negative size counts as 0.
pub(crate) fn widen(stored: &BTreeMap<String, i32>) -> Sizes {
    stored.iter().map(|(hash, size)| (hash.clone(), i64::from((*size).max(0)))).collect()
}

/// Splits `total` in proportion to `base`. The rest from rounding goes to the set that has the least of its share (Webster's
/// method: with the largest remainders a smaller `total` could make a set larger). Ties go to the larger set, then to the
/// smaller hash. If `base` is empty, `fallback` gets everything.
pub(crate) fn apportion(base: &Sizes, total: i64, fallback: &str) -> Sizes {
    let sum: i64 = base.values().sum();
    let mut sizes: Sizes = base.keys().map(|hash| (hash.clone(), 0)).collect();
    if sum == 0 {
        *sizes.entry(fallback.to_owned()).or_default() = total;
        return sizes;
    }
    let mut rest = total;
    for (hash, size) in base {
        // Both factors are at most 2^32: the product fits.
        let scaled = i128::from(*size) * i128::from(total);
        let share = i64::try_from(scaled / i128::from(sum)).unwrap_or(i64::MAX);
        rest -= share;
        sizes.insert(hash.clone(), share);
    }
    while rest > 0 {
        // The set with the most pods in `base` per pod that it has here, counted with half a pod more.
        let neediest = base.iter().filter(|(_, size)| **size > 0).max_by(|first, second| {
            let weight = |size: i64, other: &str| {
                i128::from(size) * (2 * i128::from(sizes.get(other).copied().unwrap_or(0)) + 1)
            };
            let (a, b) = (weight(*first.1, second.0), weight(*second.1, first.0));
            a.cmp(&b).then(first.1.cmp(second.1)).then(second.0.cmp(first.0))
        });
        let Some((hash, _)) = neediest else { break };
        *sizes.entry(hash.clone()).or_default() += 1;
        rest -= 1;
    }
    sizes
}

/// The sizes to publish: the given ones with the least change that makes their sum D. The disruption controller sums them up
/// for the number of expected pods. The current set takes the difference; if it has too few, the largest old sets give.
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

/// The sizes after a change of D in a running rollout, in proportion over the sets, as a Deployment scales them (`scale` in
/// `pkg/controller/deployment/sync.go`): the current sizes are relative to `before`, the replicas and surge until now.
pub(crate) fn proportional(sizes: &Sizes, before: i64, allowed: i64) -> Sizes {
    let total: i64 = sizes.values().sum();
    let change = allowed - total;
    if total == 0 || change == 0 || before == 0 {
        return sizes.clone();
    }
    let mut order: Vec<(&String, i64)> = sizes.iter().map(|(hash, size)| (hash, *size)).collect();
    order.sort_by(|first, second| second.1.cmp(&first.1).then(first.0.cmp(second.0)));
    let mut scaled = Sizes::new();
    let mut added = 0;
    for (hash, size) in &order {
        let target =
            (i128::from(*size) * i128::from(allowed) * 2 + i128::from(before)) / (i128::from(before) * 2);
        let share = i64::try_from(target).unwrap_or(i64::MAX) - size;
        let left = change - added;
        let share = if change > 0 { share.clamp(0, left) } else { share.clamp(left, 0).max(-size) };
        added += share;
        scaled.insert((*hash).clone(), size + share);
    }
    // The rest from rounding goes to the largest set, or comes from it.
    for (hash, _) in &order {
        let left = change - added;
        let Some(size) = scaled.get_mut(*hash).filter(|_| left != 0) else { break };
        let share = left.max(-*size);
        *size += share;
        added += share;
    }
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(entries: &[(&str, i64)]) -> Sizes {
        entries.iter().map(|(hash, size)| ((*hash).to_owned(), *size)).collect()
    }

    fn stored(entries: &[(&str, i32)]) -> BTreeMap<String, i32> {
        entries.iter().map(|(hash, size)| ((*hash).to_owned(), *size)).collect()
    }

    fn for_replicas(entries: &[(&str, i32)], replicas: i32, desired: i64) -> Sizes {
        let sizes = stored(entries);
        let usable = sizes.keys().map(String::as_str).collect();
        let stored = Stored {
            sizes: &sizes,
            replicas,
            usable,
            fallback: "new",
            successor: None,
            current: "new",
            held: None,
        };
        stored.for_replicas(desired, &Strategy::default())
    }

    #[test]
    fn scaling_to_zero_and_back_while_held_restores_the_split() {
        let split = [("new", 2), ("old", 8)];
        assert_eq!(for_replicas(&split, 10, 0), sizes(&[("new", 0), ("old", 0)]));
        assert_eq!(for_replicas(&split, 10, 10), sizes(&[("new", 2), ("old", 8)]));
        assert_eq!(for_replicas(&split, 10, 5), sizes(&[("new", 1), ("old", 4)]));
        assert_eq!(for_replicas(&split, 10, 20), sizes(&[("new", 4), ("old", 16)]));
    }

    #[test]
    fn at_least_one_pod_stays_old_while_held() {
        assert_eq!(for_replicas(&[("new", 9), ("old", 1)], 10, 1), sizes(&[("new", 0), ("old", 1)]));
        assert_eq!(for_replicas(&[("new", 9), ("old", 1)], 10, 0), sizes(&[("new", 0), ("old", 0)]));
    }

    #[test]
    fn surge_pods_stay_until_replicas_change() {
        assert_eq!(for_replicas(&[("new", 3), ("old", 8)], 10, 10), sizes(&[("new", 3), ("old", 8)]));
        assert_eq!(for_replicas(&[("new", 3), ("old", 8)], 10, 9).values().sum::<i64>(), 9);
    }

    #[test]
    fn the_share_of_a_deleted_set_goes_to_the_current_one() {
        let sizes_stored = stored(&[("new", 2), ("gone", 8)]);
        let stored = Stored {
            sizes: &sizes_stored,
            replicas: 10,
            usable: vec!["new"],
            fallback: "new",
            successor: None,
            current: "new",
            held: None,
        };
        assert_eq!(stored.for_replicas(10, &Strategy::default()), sizes(&[("new", 10)]));
    }

    #[test]
    fn the_published_sizes_always_sum_up_to_replicas() {
        for (given, expected) in [
            (vec![("new", 3), ("old", 8)], vec![("new", 2), ("old", 8)]),
            (vec![("new", 0), ("old", 8)], vec![("new", 2), ("old", 8)]),
            (vec![("new", 1), ("a", 7), ("b", 5)], vec![("new", 0), ("a", 5), ("b", 5)]),
        ] {
            assert_eq!(published(&sizes(&given), 10, "new"), sizes(&expected));
        }
    }

    #[test]
    fn a_running_rollout_is_scaled_in_proportion() {
        // 10 → 20 with a surge of 2: 12 pods become 22.
        assert_eq!(
            proportional(&sizes(&[("new", 4), ("old", 8)]), 12, 22),
            sizes(&[("new", 7), ("old", 15)])
        );
        // 10 → 5 with a surge of 2: 12 pods become 7.
        assert_eq!(proportional(&sizes(&[("new", 4), ("old", 8)]), 12, 7), sizes(&[("new", 2), ("old", 5)]));
        assert_eq!(proportional(&sizes(&[("new", 4), ("old", 8)]), 12, 0), sizes(&[("new", 0), ("old", 0)]));
    }

    #[test]
    fn a_scale_down_enlarges_no_set() {
        let base = [("a", 6), ("b", 6), ("new", 2)];
        for entries in [&base[..], &[("a", 7), ("b", 5), ("c", 3), ("new", 1)], &[("a", 1), ("new", 9)]] {
            let total = entries.iter().map(|(_, size)| size).sum();
            let mut larger = for_replicas(entries, total, i64::from(total));
            for desired in (0..i64::from(total)).rev() {
                let smaller = for_replicas(entries, total, desired);
                assert_eq!(smaller.values().sum::<i64>(), desired);
                // The last pod that stays old takes its place from the current set.
                let grown = smaller.iter().filter(|(hash, size)| **size > larger[*hash]);
                assert_eq!(grown.count(), 0, "{larger:?} became {smaller:?}");
                larger = smaller;
            }
        }
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

    #[test]
    fn the_last_old_pod_is_of_the_set_of_the_held_pod() {
        let split = stored(&[("a", 1), ("b", 2), ("new", 17)]);
        for (held, kept) in [(Some("a"), "a"), (None, "b"), (Some("new"), "b")] {
            let usable = split.keys().map(String::as_str).collect();
            let stored = Stored {
                sizes: &split,
                replicas: 20,
                usable,
                fallback: "new",
                successor: None,
                current: "new",
                held,
            };
            assert_eq!(stored.for_replicas(1, &Strategy::default())[kept], 1, "{held:?}");
        }
    }
}
