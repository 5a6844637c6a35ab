//! The order is total and independent of the order and the number of pods in the input.

use std::cmp::Ordering;

use ordereddeployment_sorter::{Facts, Key, Nodes, Rule, key, missing_nodes, reason, why};

use crate::order::order;
use proptest::prelude::*;

use crate::generate::{ContextData, context_data, distinct, facts, like_others};

fn keys(pods: &[Facts], data: &ContextData) -> Vec<Key> {
    order(pods, &data.context()).into_iter().map(|placed| placed.key).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_pods_have_one_order_in_both_directions(a in like_others(), b in like_others(), data in context_data()) {
        let ctx = data.context();
        let (one, other) = (key(&a, &ctx), key(&b, &ctx));
        prop_assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
        prop_assert_eq!(one == other, one.cmp(&other) == Ordering::Equal);
        prop_assert!(a.uid == b.uid || one != other);
        // A key is a function of the pod: computed again, it is equal.
        prop_assert_eq!(&one, &key(&a.clone(), &ctx));
    }

    #[test]
    fn three_pods_never_cycle(pods in prop::collection::vec(like_others(), 3), data in context_data()) {
        let ctx = data.context();
        let [a, b, c] = [0, 1, 2].map(|at| key(&pods[at], &ctx));
        prop_assert!(!(a <= b && b <= c) || a <= c);
        prop_assert!(!(a < b && b < c) || a < c);
        prop_assert!(!(a == b && b == c) || a == c);
    }

    #[test]
    fn any_input_order_gives_the_same_output(
        (pods, shuffled) in distinct(12).prop_flat_map(|pods| (Just(pods.clone()), Just(pods).prop_shuffle())),
        data in context_data(),
    ) {
        prop_assert_eq!(keys(&pods, &data), keys(&shuffled, &data));
    }

    #[test]
    fn order_has_each_pod_once_and_is_sorted(
        pods in prop::collection::vec(facts(), 0..12), data in context_data(),
    ) {
        let ctx = data.context();
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
        a in like_others(), b in like_others(), data in context_data(),
    ) {
        let ctx = data.context();
        let (one, other) = (key(&a, &ctx), key(&b, &ctx));
        let rule = reason(&one, &other);
        prop_assert_eq!(rule.is_some(), one < other);
        let why = why(&a, &one, Some(&other));
        prop_assert_eq!(why.rule, rule);
        let own = format!("priority {}", one.priority());
        prop_assert!(why.to_string().starts_with(&own), "{}", why);
        // The delete priority is the first criterion.
        prop_assert_eq!(rule == Some(Rule::DeletePriority), one.priority() > other.priority());
    }

    #[test]
    fn nodes_that_are_not_requested_change_nothing(pods in distinct(8), data in context_data()) {
        let mut known = data.clone();
        let missing = missing_nodes(&pods, &data.rules, &Nodes::new());
        known.nodes.retain(|name, _| missing.contains(name));
        prop_assert_eq!(keys(&pods, &known), keys(&pods, &data));
    }
}
