//! The key of a pod: the ten rules of the order as one comparable value, by which alone pods are compared.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::NodePriority;

use crate::node::{Grant, grant_on};
use crate::{Facts, Nodes, Phase};

/// A pod's place in the order: the smallest key is deleted first. Fields are compared from the top.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    // 0
    pub(crate) priority: Reverse<i32>,
    // 1
    pub(crate) assigned: bool,
    // 2
    pub(crate) phase: Phase,
    // 3
    pub(crate) ready: bool,
    // 4
    pub(crate) cost: i32,
    // 5
    pub(crate) rank: Reverse<u32>,
    // 6: of ready pods
    pub(crate) ready_time: Option<i32>,
    // 7
    pub(crate) restarts: Reverse<i32>,
    pub(crate) sidecar_restarts: Reverse<i32>,
    // 8
    pub(crate) creation_time: Option<i32>,
    // 9
    pub(crate) uid: Arc<str>,
}

impl Key {
    /// The key of a pod with what its node grants, and the number of active pods on its node.
    pub(crate) fn of(pod: &Facts, grant: Option<Grant>, rank: u32, now: Timestamp) -> Self {
        let cost = match grant {
            Some(Grant::Cost(granted)) => granted,
            _ => 0,
        };
        Self {
            priority: Reverse(priority_with(pod, grant)),
            assigned: pod.node.is_some(),
            phase: pod.phase,
            ready: pod.ready,
            cost: pod.cost.unwrap_or(cost),
            rank: Reverse(rank),
            ready_time: bucket(pod.ready_since.filter(|_| pod.ready), now),
            restarts: Reverse(pod.restarts),
            sidecar_restarts: Reverse(pod.sidecar_restarts),
            creation_time: bucket(pod.created, now),
            uid: Arc::clone(&pod.uid),
        }
    }
}

/// The pod's delete priority (rule 0): from its annotation, else from a node rule, else 0.
#[must_use]
pub fn priority(pod: &Facts, rules: &[NodePriority], nodes: &Nodes) -> i32 {
    priority_with(pod, grant_on(pod.node.as_ref(), rules, nodes))
}

fn priority_with(pod: &Facts, grant: Option<Grant>) -> i32 {
    let granted = match grant {
        Some(Grant::Priority(granted)) => granted,
        _ => 0,
    };
    pod.priority.unwrap_or(granted)
}

/// The age of an event in coarse steps; a smaller age is a smaller number, and no time is before all.
///
/// Buckets of doubling width, as in the standard order, so that young pods are distinguished by their age and
/// old ones are not: floor(log2(age in ns)), and -1 for now and the future.
fn bucket(time: Option<Timestamp>, now: Timestamp) -> Option<i32> {
    let age = now.as_nanosecond() - time?.as_nanosecond();
    Some(age.checked_ilog2().map_or(-1, u32::cast_signed))
}
