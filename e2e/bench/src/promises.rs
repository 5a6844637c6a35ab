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
    if state.least_ready < floor {
        return Some(format!("{} pods were available, at least {floor} must be", state.least_ready));
    }
    if state.most_active > ceiling && contender != Contender::BuiltIn {
        return Some(format!("{} pods were active, at most {ceiling} are allowed", state.most_active));
    }
    priorities.and_then(|priorities| out_of_order(&state.deletions, priorities))
}

/// Every pod must be deleted before all pods with a smaller priority; pods of one priority may be deleted in
/// any order, since their deletions are in flight at the same time.
fn out_of_order(deleted: &[String], priorities: &BTreeMap<String, i32>) -> Option<String> {
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
    use super::broken;
    use crate::contender::Contender;
    use crate::observer::tests::pod;
    use crate::observer::{Observed, State};
    use crate::workload::Bounds;

    /// What a rollout of three ready pods, `a`, `b` and `c`, breaks, in which pods change in this order.
    fn found(
        changes: &[(&str, Option<Observed>)],
        contender: Contender,
        priorities: Option<[i32; 3]>,
    ) -> Option<String> {
        let mut state = State::default();
        for name in ["a", "b", "c"] {
            state.change(name, Some(pod(1, true, false)));
        }
        state.reset();
        for (name, change) in changes {
            state.change(name, *change);
        }
        let names = ["a", "b", "c"].map(str::to_owned);
        let priorities = priorities.map(|priorities| names.into_iter().zip(priorities).collect());
        broken(&state, 3, Bounds::STRICT, contender, priorities.as_ref())
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
            // The updated pod comes first.
            let pairs = order.iter().zip(["x", "y", "z"]);
            let changes: Vec<_> =
                pairs.flat_map(|(old, new)| [(new, Some(pod(2, true, false))), (*old, None)]).collect();
            assert_eq!(found(&changes, Contender::Ours, Some(priorities)).as_deref(), broken);
        }
    }

    #[test]
    fn floor_and_ceiling_hold_at_every_moment() {
        const NEW: Option<Observed> = Some(pod(2, false, false));
        const READY: Option<Observed> = Some(pod(2, true, false));
        const GOES: Option<Observed> = Some(pod(1, true, true));
        let two_surge_pods = [("d", NEW), ("e", NEW), ("e", None)];
        for (changes, contender, broken) in [
            (
                &[("d", NEW), ("a", GOES), ("d", READY)][..],
                Contender::Ours,
                Some("2 pods were available, at least 3 must be"),
            ),
            (&two_surge_pods, Contender::Ours, Some("5 pods were active, at most 4 are allowed")),
            (&two_surge_pods, Contender::BuiltIn, None),
            // Terminating pods count neither for the floor nor for the ceiling.
            (&[("d", READY), ("a", GOES), ("e", READY)], Contender::Ours, None),
        ] {
            assert_eq!(found(changes, contender, None).as_deref(), broken);
        }
    }
}
