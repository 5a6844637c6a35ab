//! The key of a pod: the ten rules of the order as one comparable value. Two pods are compared only by what
//! their keys are made of.

use std::sync::Arc;

use ordereddeployment_api::NodePriority;

use crate::node::{Grant, grant_on};
use crate::packed::Packed;
use crate::{Facts, Nodes};

/// A pod's place in the order: the smallest key is deleted first. Fields are compared from the top.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    // 0 to 8
    pub(crate) packed: Packed,
    // 9: the smaller UID
    pub(crate) uid: Arc<str>,
}

/// The pod's delete priority (rule 0): from its annotation, else from a node rule, else 0.
#[must_use]
pub fn priority(pod: &Facts, rules: &[NodePriority], nodes: &Nodes) -> i32 {
    priority_with(pod, grant_on(pod.node.as_ref(), rules, nodes))
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
