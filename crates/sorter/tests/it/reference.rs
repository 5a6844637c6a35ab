//! The order of a ReplicaSet's pods in Kubernetes, written again as it is there: as a comparison of two pods,
//! with the delete priority before it. One rule is different; see [`compare`].

use std::cmp::{Ordering, Reverse};

use ordereddeployment_sorter::{Facts, Rule, matching_rule};

use crate::generate::Cluster;

/// The order of two pods, and the rule that parts them. In Kubernetes, the UID decides at once between pods
/// that became ready at different times of one bucket. That is no order of three pods: with `at_once: false`
/// the rules below it decide first.
pub(crate) fn compare(a: &Facts, b: &Facts, cluster: &Cluster, at_once: bool) -> (Ordering, Rule) {
    let rule = |pod: &Facts| matching_rule(pod.node.as_ref(), &cluster.rules, &cluster.nodes);
    let priority = |pod: &Facts| {
        let granted = || rule(pod).and_then(|rule| rule.priority);
        Reverse(pod.priority.or_else(granted).unwrap_or(0))
    };
    let cost = |pod: &Facts| {
        let granted = || rule(pod).and_then(|rule| rule.deletion_cost);
        pod.cost.or_else(granted).unwrap_or(0)
    };
    // Unassigned pods share no node.
    let rank = |pod: &Facts| Reverse(pod.node.as_ref().and_then(|node| cluster.ranks.get(node)));
    let are_ready = a.ready && b.ready;
    let is_at_once = at_once && are_ready && a.ready_since != b.ready_since;
    let ready_time = cluster.bucket(a.ready_since).cmp(&cluster.bucket(b.ready_since));
    [
        (Rule::DeletePriority, priority(a).cmp(&priority(b))),
        (Rule::Unassigned, a.node.is_some().cmp(&b.node.is_some())),
        (Rule::Phase, a.phase.cmp(&b.phase)),
        (Rule::NotReady, a.ready.cmp(&b.ready)),
        (Rule::DeletionCost, cost(a).cmp(&cost(b))),
        (Rule::Rank, rank(a).cmp(&rank(b))),
        (Rule::ReadyTime, if are_ready { ready_time } else { Ordering::Equal }),
        (Rule::Uid, if is_at_once { a.uid.cmp(&b.uid) } else { Ordering::Equal }),
        (Rule::Restarts, b.restarts.cmp(&a.restarts)),
        (Rule::SidecarRestarts, b.sidecar_restarts.cmp(&a.sidecar_restarts)),
        (Rule::CreationTime, cluster.bucket(a.created).cmp(&cluster.bucket(b.created))),
    ]
    .into_iter()
    .find(|(_, ordering)| ordering.is_ne())
    .map_or_else(|| (a.uid.cmp(&b.uid), Rule::Uid), |(rule, ordering)| (ordering, rule))
}
