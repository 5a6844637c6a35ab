//! The key of a pod: the ten rules of the order as one comparable value. Two pods are compared only by what
//! their keys are made of.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use rustc_hash::FxBuildHasher;

use crate::node::{grant_on, matching_on};
use crate::packed::{Exact, Packed, exact_creation_time, exact_ready_time};
use crate::{Facts, Grant, NodeRule, Nodes};

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
pub struct Ranks(HashMap<Arc<str>, u32, FxBuildHasher>);

impl Ranks {
    /// Counts the active pods of all sets with the same owner, per node.
    pub fn of<'a>(related: impl IntoIterator<Item = &'a Facts>) -> Self {
        let mut counts = HashMap::default();
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

/// A pod's place in the order: the smallest key is deleted first. Fields are compared from the top.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    // 0 to 5
    pub(crate) upper: [u64; 2],
    // 6 without a current time
    pub(crate) ready_time: Exact,
    // 6 to 8
    pub(crate) lower: [u64; 2],
    // 8 without a current time
    pub(crate) creation_time: Exact,
    // 9: the smaller UID
    pub(crate) uid: Arc<str>,
}

impl Key {
    pub(crate) fn new(pod: &Facts, packed: Packed, now: Option<Timestamp>) -> Self {
        let (upper, lower) = packed.halves();
        Self {
            upper,
            ready_time: exact_ready_time(pod, now),
            lower,
            creation_time: exact_creation_time(pod, now),
            uid: Arc::clone(&pod.uid),
        }
    }

    pub(crate) fn packed(&self) -> Packed {
        Packed::of_halves(self.upper, self.lower)
    }

    /// The delete priority of rule 0, from the annotation or a node rule.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.packed().priority()
    }

    /// The deletion cost of rule 4, from the annotation or a node rule.
    #[must_use]
    pub fn cost(&self) -> i32 {
        self.packed().cost()
    }

    /// The rank of rule 5: the number of related active pods on the pod's node.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.packed().rank()
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
    let is_granted = pod.priority.is_none() || pod.cost.is_none();
    let grant = if is_granted { grant_on(pod.node.as_ref(), ctx.rules, ctx.nodes) } else { None };
    let packed =
        Packed::of(pod, ctx.now).with(priority_with(pod, grant), cost_with(pod, grant), ctx.ranks.rank(pod));
    Key::new(pod, packed, ctx.now)
}

/// The index in `ctx.rules` of the first rule that matches this pod. Only this rule applies, even if the
/// pod's own annotation overrides its grant.
#[must_use]
pub fn matching_rule(pod: &Facts, ctx: &Context<'_>) -> Option<usize> {
    matching_on(pod.node.as_ref(), ctx.rules, ctx.nodes)
}

pub(crate) fn priority_with(pod: &Facts, grant: Option<Grant>) -> i32 {
    match (pod.priority, grant) {
        (Some(own), _) => own,
        (None, Some(Grant::Priority(granted))) => granted,
        (None, _) => 0,
    }
}

pub(crate) fn cost_with(pod: &Facts, grant: Option<Grant>) -> i32 {
    match (pod.cost, grant) {
        (Some(own), _) => own,
        (None, Some(Grant::Cost(granted))) => granted,
        (None, _) => 0,
    }
}
