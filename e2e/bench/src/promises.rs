//! The promises that a rollout must keep. One that breaks them is not a result.

use std::collections::BTreeMap;

use crate::contender::Contender;
use crate::observer::State;
use crate::workload::Bounds;

/// The first promise that was broken: floor or ceiling of that many replicas, or the order of the
/// priorities, if the pods have some. `None`: all were kept at every moment.
///
/// The ceiling of the built-in controllers is not checked: they bound the sizes of ReplicaSets, and the pods
/// follow later, so that it is exceeded in about every rollout.
pub fn broken(
    state: &State,
    replicas: usize,
    bounds: Bounds,
    contender: Contender,
    priorities: Option<&BTreeMap<String, i32>>,
) -> Option<String> {
    let (floor, ceiling) = (replicas - bounds.unavailable, replicas + bounds.surge);
    let tally = state.tally;
    if tally.least_ready < floor {
        return Some(format!("{} pods were available, at least {floor} must be", tally.least_ready));
    }
    if tally.most_active > ceiling && contender != Contender::BuiltIn {
        return Some(format!("{} pods were active, at most {ceiling} are allowed", tally.most_active));
    }
    priorities.and_then(|priorities| out_of_order(state.deletions.iter().map(String::as_str), priorities))
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

    use super::broken;
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
    fn every_pod_goes_before_all_of_a_smaller_priority() {
        let too_early = "c of priority 1 was deleted before 1 of priority 5";
        for (order, priorities, broken) in [
            (&["b", "c", "a"][..], [1, 3, 2], None),
            (&["b", "a", "c"], [5, 5, 1], None),
            (&["a", "b", "c"], [5, 5, 1], None),
            (&["b", "c", "a"], [5, 5, 1], Some(too_early)),
            (&["b"], [1, 3, 2], Some("2 old pods were not deleted")),
        ] {
            assert_eq!(broken_promise(order, priorities).as_deref(), broken);
        }
    }

    #[test]
    fn a_deletion_before_the_updated_pod_is_ready_breaks_the_floor() {
        let (mut state, _) = begin([0; 3]);
        state.change("a-new".to_owned(), Some(pod(2, false, false)));
        state.change("a".to_owned(), Some(pod(1, true, true)));
        state.change("a-new".to_owned(), Some(pod(2, true, false)));
        let found = broken(&state, 3, Bounds::STRICT, Contender::Ours, None).unwrap();
        assert_eq!(found, "2 pods were available, at least 3 must be");
    }

    #[test]
    fn a_second_surge_pod_breaks_the_ceiling_even_for_a_moment() {
        let (mut state, _) = begin([0; 3]);
        for name in ["a-new", "b-new"] {
            state.change(name.to_owned(), Some(pod(2, false, false)));
        }
        state.change("b-new".to_owned(), None);
        let found = broken(&state, 3, Bounds::STRICT, Contender::Ours, None).unwrap();
        assert_eq!(found, "5 pods were active, at most 4 are allowed");
        assert_eq!(broken(&state, 3, Bounds::STRICT, Contender::BuiltIn, None), None);
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
