//! The ten rules as a tuple of what they compare, one after the other: the reference for the packed order,
//! and what the benchmark measures it against.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_sorter::{Context, Facts, Grant, Phase, matching_rule};

/// The pods on each node.
pub type Ranks = BTreeMap<Arc<str>, u32>;

/// An age: without a time first, then the newer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Age {
    NoTime,
    Bucket(i64),
    Exact(Reverse<Timestamp>),
}

/// The rules from 0 to 9. The first pod has the smallest.
pub type Key = (
    (Reverse<i32>, bool, Phase, bool, i32, Reverse<u32>),
    (Option<Age>, Reverse<i32>, Reverse<i32>, Age, Arc<str>),
);

fn age(time: Option<Timestamp>, now: Option<Timestamp>) -> Age {
    match (time, now) {
        (None, _) => Age::NoTime,
        (Some(time), None) => Age::Exact(Reverse(time)),
        (Some(time), Some(now)) => {
            let age = now.as_nanosecond() - time.as_nanosecond();
            Age::Bucket(age.checked_ilog2().map_or(-1, i64::from))
        }
    }
}

pub fn ranks<'a>(pods: impl IntoIterator<Item = &'a Facts>) -> Ranks {
    let mut ranks = Ranks::new();
    for node in pods.into_iter().filter_map(|pod| pod.node.as_ref()) {
        if let Some(count) = ranks.get_mut(node) {
            *count += 1;
        } else {
            ranks.insert(Arc::clone(node), 1);
        }
    }
    ranks
}

/// The key of a pod. The ranks of the context are not read.
pub fn key(pod: &Facts, ctx: &Context<'_>, ranks: &Ranks) -> Key {
    let grant = matching_rule(pod, ctx).map(|rule| ctx.rules[rule].grant);
    let granted_priority = match grant {
        Some(Grant::Priority(priority)) => priority,
        _ => 0,
    };
    let granted_cost = match grant {
        Some(Grant::Cost(cost)) => cost,
        _ => 0,
    };
    let rank = pod.node.as_ref().and_then(|node| ranks.get(node)).copied().unwrap_or(0);
    (
        (
            Reverse(pod.priority.unwrap_or(granted_priority)),
            pod.node.is_some(),
            pod.phase,
            pod.ready,
            pod.cost.unwrap_or(granted_cost),
            Reverse(rank),
        ),
        (
            pod.ready.then(|| age(pod.ready_since, ctx.now)),
            Reverse(pod.restarts),
            Reverse(pod.sidecar_restarts),
            age(pod.created, ctx.now),
            Arc::clone(&pod.uid),
        ),
    )
}

/// The indices of the pods in their order.
pub fn order(pods: &[Facts], ctx: &Context<'_>) -> Vec<usize> {
    let ranks = ranks(pods);
    let mut keyed: Vec<_> = pods.iter().map(|pod| key(pod, ctx, &ranks)).zip(0..).collect();
    keyed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    keyed.into_iter().map(|(_, index)| index).collect()
}
