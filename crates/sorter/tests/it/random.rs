//! Random pods have the order of the reference, also with numbers and times at the ends of their ranges.

use std::cmp::Ordering;

use ordereddeployment_sorter::{Facts, Nodes, Pods, Rule, reason};
use proptest::prelude::*;

use crate::generate::{Cluster, ago, cluster, pod, pods, seconds};
use crate::reference::compare;

/// Any two pods are compared as the reference compares them, by the same rule, and all are sorted so.
fn check(pods: &[Facts], cluster: &Cluster) -> Result<(), TestCaseError> {
    let (order, counting) = (cluster.order(pods), cluster.counting(pods));
    let compare = |one: &Facts, other: &Facts| compare(one, other, &counting, false);
    let keys: Vec<_> = (0..pods.len()).map(|index| order.key(index)).collect();
    for (one, key) in pods.iter().zip(&keys) {
        for (other, other_key) in pods.iter().zip(&keys) {
            let (expected, rule) = compare(one, other);
            prop_assert_eq!(key.cmp(other_key), expected, "{:?} {:?}", one, other);
            prop_assert_eq!(reason(key, other_key), (expected == Ordering::Less).then_some(rule));
        }
    }
    let mut sorted: Vec<_> = pods.iter().collect();
    sorted.sort_by(|one, other| compare(one, other).0);
    let found: Vec<_> = order.indices().iter().map(|index| &pods[*index]).collect();
    prop_assert!(found.iter().zip(&sorted).all(|(one, other)| compare(one, other).0.is_eq()));
    prop_assert_eq!(found.len(), sorted.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None,
    ..ProptestConfig::default() })]

    #[test]
    fn pods_have_the_order_of_the_reference(pods in pods(), cluster in cluster()) {
        check(&pods, &cluster)?;
    }

    #[test]
    fn nodes_that_are_not_requested_change_nothing(pods in pods(), cluster in cluster()) {
        let missing = cluster.pods(&pods).missing_nodes(&cluster.rules, &Nodes::new());
        let mut known = cluster.clone();
        known.nodes.retain(|name, _| missing.contains(name));
        let orders = [cluster.order(&pods), known.order(&pods)];
        prop_assert_eq!(orders[0].indices(), orders[1].indices());
    }
}

#[test]
fn the_order_of_kubernetes_cycles_over_three_pods_that_this_one_sorts() {
    // All became ready within one bucket (137 to 274 seconds ago); b and c at the same time.
    let a = Facts { ready_since: ago(seconds(150)), ..pod("2") };
    let b = Facts { ready_since: ago(seconds(200)), restarts: 1, ..pod("3") };
    let c = Facts { ready_since: ago(seconds(200)), ..pod("1") };
    let plain = Cluster::plain();
    for (one, other, rule) in [(&a, &b, Rule::Uid), (&b, &c, Rule::Restarts), (&c, &a, Rule::Uid)] {
        assert_eq!(compare(one, other, &plain, true), (Ordering::Less, rule));
    }
    assert_eq!(plain.order(&[a, b, c]).indices(), [1, 2, 0]);
}

#[test]
fn related_pods_count_for_the_ranks_without_a_place() {
    let pods = [pod("a"), Facts { node: Some("n2".into()), ..pod("b") }];
    let related = [Facts { node: Some("n2".into()), ..pod("c") }, Facts { node: None, ..pod("d") }];
    let cluster = Cluster { related: related.to_vec(), ..Cluster::plain() };
    let order = cluster.order(&pods);
    assert_eq!(order.indices(), [1, 0]);
    assert_eq!(reason(order.key(1), order.key(0)), Some(Rule::Rank));
    // Pods of a set without an owner have no ranks.
    let mut alone = Pods::new(cluster.now).without_ranks();
    for pod in &related {
        alone.add_related(pod);
    }
    for pod in &pods {
        alone.add(pod);
    }
    assert_eq!(alone.order(&[], &cluster.nodes).indices(), [0, 1]);
}
