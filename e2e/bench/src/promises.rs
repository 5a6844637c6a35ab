//! The promises that a rollout must keep. One that breaks them is not a result.

use std::collections::BTreeMap;

use crate::contender::Contender;
use crate::observer::State;
use crate::workload::Bounds;

/// The first promise that was broken: floor or ceiling of objects with that many replicas each, or the order
/// of the priorities, if the pods have some. `None`: all were kept at every moment.
///
/// The ceiling of the built-in controllers is not checked: they bound the sizes of ReplicaSets, and the pods
/// follow later, so that it is exceeded in about every rollout. [`above_ceiling`] says by how much.
pub fn broken(
    state: &State,
    replicas: usize,
    bounds: Bounds,
    contender: Contender,
    priorities: Option<&BTreeMap<String, i32>>,
) -> Option<String> {
    let (floor, ceiling) = (replicas - bounds.unavailable, replicas + bounds.surge);
    for (app, tally) in &state.tallies {
        if tally.least_ready < floor {
            return Some(format!(
                "{app}: {} pods were available, at least {floor} must be",
                tally.least_ready
            ));
        }
        if tally.most_active > ceiling && contender.has_ceiling() {
            return Some(format!(
                "{app}: {} pods were active, at most {ceiling} are allowed",
                tally.most_active
            ));
        }
    }
    priorities.and_then(|priorities| {
        let deleted = state.deletions.iter().map(|(name, _)| name.as_str());
        out_of_order(deleted, priorities)
    })
}

/// How many pods of an object were active beyond its ceiling, at most.
pub fn above_ceiling(state: &State, replicas: usize, bounds: Bounds) -> usize {
    let most = state.tallies.values().map(|tally| tally.most_active).max().unwrap_or_default();
    most.saturating_sub(replicas + bounds.surge)
}

/// Every pod must be deleted before all pods with a smaller priority; pods of one priority may be deleted in
/// any order, since their deletions are in flight at the same time.
fn out_of_order<'a>(
    deleted: impl Iterator<Item = &'a str>,
    priorities: &BTreeMap<String, i32>,
) -> Option<String> {
    let mut left: BTreeMap<i32, usize> = BTreeMap::new();
    for priority in priorities.values() {
        *left.entry(*priority).or_default() += 1;
    }
    for name in deleted {
        let Some(priority) = priorities.get(name) else {
            return Some(format!("{name} was deleted and had no priority"));
        };
        match left.last_entry() {
            Some(mut first) if first.key() == priority => {
                *first.get_mut() -= 1;
                if *first.get() == 0 {
                    first.remove();
                }
            }
            Some(first) => {
                let (waiting, behind) = (first.get(), first.key());
                return Some(format!(
                    "{name} of priority {priority} was deleted before {waiting} of priority {behind}"
                ));
            }
            None => return Some(format!("{name} was deleted twice")),
        }
    }
    let waiting: usize = left.values().sum();
    (waiting > 0).then(|| format!("{waiting} old pods were not deleted"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{above_ceiling, broken};
    use crate::contender::Contender;
    use crate::observer::State;
    use crate::observer::tests::pod;
    use crate::workload::Bounds;

    /// Three ready pods, `a`, `b` and `c`, of these priorities.
    fn begin(priorities: [i32; 3]) -> (State, BTreeMap<String, i32>) {
        let (mut state, mut map) = (State::default(), BTreeMap::new());
        for (name, priority) in ["a", "b", "c"].into_iter().zip(priorities) {
            state.change(name.to_owned(), Some(pod(1, true, false)));
            map.insert(name.to_owned(), priority);
        }
        state.reset();
        (state, map)
    }

    /// Replaces pods in this order, the updated pod first.
    fn replace(state: &mut State, order: &[&str]) {
        for name in order {
            state.change(format!("{name}-new"), Some(pod(2, false, false)));
            state.change(format!("{name}-new"), Some(pod(2, true, false)));
            state.change((*name).to_owned(), None);
        }
    }

    fn broken_promise(order: &[&str], priorities: [i32; 3]) -> Option<String> {
        let (mut state, map) = begin(priorities);
        replace(&mut state, order);
        broken(&state, 3, Bounds::STRICT, Contender::Ours, Some(&map))
    }

    #[test]
    fn a_rollout_in_order_within_floor_and_ceiling_is_a_result() {
        assert_eq!(broken_promise(&["b", "c", "a"], [1, 3, 2]), None);
    }

    #[test]
    fn pods_of_one_priority_may_be_deleted_in_any_order() {
        assert_eq!(broken_promise(&["b", "a", "c"], [5, 5, 1]), None);
        assert_eq!(broken_promise(&["a", "b", "c"], [5, 5, 1]), None);
    }

    #[test]
    fn a_pod_that_is_deleted_before_one_of_a_larger_priority_breaks_the_order() {
        let found = broken_promise(&["b", "c", "a"], [5, 5, 1]).unwrap();
        assert_eq!(found, "c of priority 1 was deleted before 1 of priority 5");
    }

    #[test]
    fn a_pod_that_was_created_later_or_stays_breaks_the_order() {
        let (mut state, map) = begin([1, 3, 2]);
        state.change("d".to_owned(), Some(pod(1, true, false)));
        replace(&mut state, &["d"]);
        let bounds = Bounds { surge: 2, unavailable: 0 };
        let found = broken(&state, 3, bounds, Contender::Ours, Some(&map)).unwrap();
        assert_eq!(found, "d was deleted and had no priority");
        assert_eq!(broken_promise(&["b"], [1, 3, 2]).unwrap(), "2 old pods were not deleted");
    }

    #[test]
    fn a_deletion_before_the_updated_pod_is_ready_breaks_the_floor() {
        let (mut state, _) = begin([0; 3]);
        state.change("a-new".to_owned(), Some(pod(2, false, false)));
        state.change("a".to_owned(), Some(pod(1, true, true)));
        state.change("a-new".to_owned(), Some(pod(2, true, false)));
        let found = broken(&state, 3, Bounds::STRICT, Contender::Ours, None).unwrap();
        assert_eq!(found, "web: 2 pods were available, at least 3 must be");
    }

    #[test]
    fn a_second_surge_pod_breaks_the_ceiling_even_for_a_moment() {
        let (mut state, _) = begin([0; 3]);
        for name in ["a-new", "b-new"] {
            state.change(name.to_owned(), Some(pod(2, false, false)));
        }
        state.change("b-new".to_owned(), None);
        let found = broken(&state, 3, Bounds::STRICT, Contender::Ours, None).unwrap();
        assert_eq!(found, "web: 5 pods were active, at most 4 are allowed");
        assert_eq!(broken(&state, 3, Bounds::STRICT, Contender::BuiltIn, None), None);
        assert_eq!(above_ceiling(&state, 3, Bounds::STRICT), 1);
    }

    #[test]
    fn terminating_pods_count_neither_for_the_floor_nor_for_the_ceiling() {
        let (mut state, _) = begin([0; 3]);
        state.change("a-new".to_owned(), Some(pod(2, true, false)));
        state.change("a".to_owned(), Some(pod(1, true, true)));
        state.change("b-new".to_owned(), Some(pod(2, true, false)));
        assert_eq!(broken(&state, 3, Bounds::STRICT, Contender::Ours, None), None);
    }
}
