//! The order is total and independent of the order and the number of pods in the input.

use std::cmp::Ordering;

use ordereddeployment_sorter::{Facts, Key, Nodes, Rule, key, missing_nodes, reason, why};

use crate::order::order;
use proptest::prelude::*;

use crate::generate::{World, distinct, facts, like_others, world};

fn keys(pods: &[Facts], world: &World) -> Vec<Key> {
    order(pods, &world.context()).into_iter().map(|placed| placed.key).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_pods_have_one_order_in_both_directions(a in like_others(), b in like_others(), world in world()) {
        let ctx = world.context();
        let (one, other) = (key(&a, &ctx), key(&b, &ctx));
        prop_assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
        prop_assert_eq!(one == other, one.cmp(&other) == Ordering::Equal);
        prop_assert!(a.uid == b.uid || one != other);
        // A key is a function of the pod: computed again, it is equal.
        prop_assert_eq!(&one, &key(&a.clone(), &ctx));
    }

    #[test]
    fn three_pods_never_cycle(pods in prop::collection::vec(like_others(), 3), world in world()) {
        let ctx = world.context();
        let [a, b, c] = [0, 1, 2].map(|at| key(&pods[at], &ctx));
        prop_assert!(!(a <= b && b <= c) || a <= c);
        prop_assert!(!(a < b && b < c) || a < c);
        prop_assert!(!(a == b && b == c) || a == c);
    }

    #[test]
    fn any_input_order_gives_the_same_output(
        (pods, shuffled) in distinct(12).prop_flat_map(|pods| (Just(pods.clone()), Just(pods).prop_shuffle())),
        world in world(),
    ) {
        prop_assert_eq!(keys(&pods, &world), keys(&shuffled, &world));
    }

    #[test]
    fn order_has_each_pod_once_and_is_sorted(
        pods in prop::collection::vec(facts(), 0..12), world in world(),
    ) {
        let ctx = world.context();
        let placed = order(&pods, &ctx);
        let mut named: Vec<usize> = placed.iter().map(|placed| placed.index).collect();
        named.sort_unstable();
        prop_assert_eq!(named, (0..pods.len()).collect::<Vec<_>>());
        for (at, earlier) in placed.iter().enumerate() {
            prop_assert_eq!(&earlier.key, &key(&pods[earlier.index], &ctx));
            for later in &placed[at + 1..] {
                prop_assert!(earlier.key <= later.key);
                prop_assert!(earlier.key.priority() >= later.key.priority());
            }
        }
    }

    #[test]
    fn only_the_first_of_two_pods_has_a_reason(
        a in like_others(), b in like_others(), world in world(),
    ) {
        let ctx = world.context();
        let (one, other) = (key(&a, &ctx), key(&b, &ctx));
        let rule = reason(&one, &other);
        prop_assert_eq!(rule.is_some(), one < other);
        prop_assert_eq!(why(&one, &other).map(|why| why.rule), rule);
        prop_assert!(why(&one, &other).is_none_or(|why| !why.to_string().is_empty()));
        // The delete priority is the first criterion.
        prop_assert_eq!(rule == Some(Rule::DeletePriority), one.priority() > other.priority());
    }

    #[test]
    fn nodes_that_are_not_requested_change_nothing(pods in distinct(8), world in world()) {
        let mut known = world.clone();
        let missing = missing_nodes(&pods, &world.rules, &Nodes::new());
        known.nodes.retain(|name, _| missing.contains(name));
        prop_assert_eq!(keys(&pods, &known), keys(&pods, &world));
    }
}
