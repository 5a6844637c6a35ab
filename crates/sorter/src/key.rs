//! The key of a pod: the ten rules of the order as one comparable value. Two pods are compared only by their keys.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::node::grant;
use crate::{Facts, Grant, NodeRule, Nodes, Phase};

/// The input of the order besides the pods.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The time of the decision, for the buckets of rules 6 and 8; without it exact times are compared.
    pub now: Option<Timestamp>,
    /// The node rules; the first match applies.
    pub rules: &'a [NodeRule],
    /// The known nodes.
    pub nodes: &'a Nodes,
    /// The counts for rule 5.
    pub ranks: &'a Ranks,
}

/// How many related active pods each node runs, for rule 5.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranks(BTreeMap<Arc<str>, u32>);

impl Ranks {
    /// Counts the active pods of all sets with the same owner, per node.
    pub fn of<'a>(related: impl IntoIterator<Item = &'a Facts>) -> Self {
        let mut counts = BTreeMap::new();
        for node in related.into_iter().filter_map(|pod| pod.node.as_ref()) {
            if let Some(count) = counts.get_mut(node) {
                *count += 1;
            } else {
                counts.insert(Arc::clone(node), 1);
            }
        }
        Self(counts)
    }

    /// For sets without an owner: every rank is 0.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The rank of this pod. Unassigned pods share no node: their rank is 0.
    #[must_use]
    pub fn rank(&self, pod: &Facts) -> u32 {
        pod.node.as_ref().and_then(|node| self.0.get(node)).copied().unwrap_or(0)
    }
}

/// The age of an event in coarse steps; a smaller age is a smaller value.
///
/// Buckets of doubling width, as in the standard order, so that young pods are distinguished by their age and old ones are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ago {
    /// Without a time, before every time.
    NoTime,
    /// floor(log2(age in ns)), or -1 for now and the future.
    Bucket(i64),
    /// The time itself, newest first: if there is no current time to measure from.
    Exact(Reverse<Timestamp>),
}

impl Ago {
    fn of(time: Option<Timestamp>, now: Option<Timestamp>) -> Self {
        match (time, now) {
            (None, _) => Self::NoTime,
            (Some(time), None) => Self::Exact(Reverse(time)),
            (Some(time), Some(now)) => {
                // i128, since the span between two timestamps does not fit into 64 bits of nanoseconds.
                let age = now.as_nanosecond() - time.as_nanosecond();
                Self::Bucket(age.checked_ilog2().map_or(-1, i64::from))
            }
        }
    }
}

/// A pod's place in the order: the smallest key is deleted first. Fields are compared from the top.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    // 0: the larger delete priority
    pub(crate) priority: Reverse<i32>,
    // 1: unassigned
    pub(crate) assigned: bool,
    // 2: Pending, Unknown, Running
    pub(crate) phase: Phase,
    // 3: not ready
    pub(crate) ready: bool,
    // 4: the lower deletion cost
    pub(crate) cost: i32,
    // 5: the higher rank
    pub(crate) rank: Reverse<u32>,
    // 6: ready for less time; rule 3 separates ready pods from others, so `None` is compared only with `None`
    pub(crate) ready_ago: Option<Ago>,
    // 7: more restarts, of containers and then of sidecars
    pub(crate) restarts: Reverse<i32>,
    pub(crate) sidecar_restarts: Reverse<i32>,
    // 8: newer
    pub(crate) created_ago: Ago,
    // 9: the smaller UID
    pub(crate) uid: Arc<str>,
}

impl Key {
    /// The delete priority of rule 0, from the annotation or a node rule.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.priority.0
    }

    /// The deletion cost of rule 4, from the annotation or a node rule.
    #[must_use]
    pub fn cost(&self) -> i32 {
        self.cost
    }

    /// The rank of rule 5: the number of related active pods on the pod's node.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank.0
    }

    /// The pod's UID.
    #[must_use]
    pub fn uid(&self) -> &Arc<str> {
        &self.uid
    }
}

/// The pod's key in this context.
#[must_use]
pub fn key(pod: &Facts, ctx: &Context<'_>) -> Key {
    let grant = if pod.priority.is_some() && pod.cost.is_some() { None } else { grant(pod, ctx) };
    Key {
        priority: Reverse(priority_with(pod, grant)),
        assigned: pod.node.is_some(),
        phase: pod.phase,
        ready: pod.ready,
        cost: cost_with(pod, grant),
        rank: Reverse(ctx.ranks.rank(pod)),
        ready_ago: pod.ready.then(|| Ago::of(pod.ready_since, ctx.now)),
        restarts: Reverse(pod.restarts),
        sidecar_restarts: Reverse(pod.sidecar_restarts),
        created_ago: Ago::of(pod.created, ctx.now),
        uid: Arc::clone(&pod.uid),
    }
}

/// The delete priority: the pod's own, else that of the first matching node rule, else 0.
#[must_use]
pub fn effective_priority(pod: &Facts, ctx: &Context<'_>) -> i32 {
    priority_with(pod, grant(pod, ctx))
}

/// The deletion cost: the pod's own, else that of the first matching node rule, else 0.
#[must_use]
pub fn effective_cost(pod: &Facts, ctx: &Context<'_>) -> i32 {
    cost_with(pod, grant(pod, ctx))
}

fn priority_with(pod: &Facts, grant: Option<Grant>) -> i32 {
    match (pod.priority, grant) {
        (Some(own), _) => own,
        (None, Some(Grant::Priority(granted))) => granted,
        (None, _) => 0,
    }
}

fn cost_with(pod: &Facts, grant: Option<Grant>) -> i32 {
    match (pod.cost, grant) {
        (Some(own), _) => own,
        (None, Some(Grant::Cost(granted))) => granted,
        (None, _) => 0,
    }
}
