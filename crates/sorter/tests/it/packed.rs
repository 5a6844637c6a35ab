//! The packed order is that of the unpacked rules, which are tuples of numbers and so have a total order,
//! also for the numbers and times at the ends of their ranges.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_sorter::{
    Context, Facts, Key, Nodes, Phase, Pods, Ranks, Rule, key, missing_nodes, reason, why,
};
use proptest::prelude::*;

use crate::generate::{ContextData, ago, context_data, distinct, like_others, now, pod, seconds};
use crate::unpacked;

fn number() -> impl Strategy<Value = i32> {
    prop_oneof![
        3 => -1..2_i32,
        1 => prop::sample::select(vec![i32::MIN, i32::MIN + 1, i32::MAX - 1, i32::MAX]),
        1 => any::<i32>(),
    ]
}

fn time() -> impl Strategy<Value = Option<Timestamp>> {
    let (least, most) = (Timestamp::MIN.as_nanosecond(), Timestamp::MAX.as_nanosecond());
    let at = |ns: i128| Timestamp::from_nanosecond(ns).ok();
    prop_oneof![
        1 => Just(None),
        2 => Just(Some(Timestamp::MIN)),
        2 => Just(Some(Timestamp::MAX)),
        2 => Just(Some(Timestamp::UNIX_EPOCH)),
        3 => (least..=most).prop_map(at),
        // Around the epoch, where seconds and their fractions change their signs.
        2 => (-2_000_000_000_i128..2_000_000_000).prop_map(at),
        // Ages of a power of two of nanoseconds, up to the longest.
        4 => (0..70_u32, -1_i128..=1).prop_map(|(power, off)| ago((1_i128 << power.min(60)) + off)),
        2 => (-600_i128..600).prop_map(|age| ago(seconds(age))),
    ]
}

prop_compose! {
    fn extreme()(
        base in like_others(),
        ready_since in time(),
        created in time(),
        restarts in number(),
        sidecar_restarts in number(),
        priority in prop::option::of(number()),
        cost in prop::option::of(number()),
    ) -> Facts {
        Facts { ready_since, created, restarts, sidecar_restarts, priority, cost, ..base }
    }
}

prop_compose! {
    /// Pods with small numbers, as most have.
    fn usual()(
        base in like_others(),
        restarts in 0..4_i32,
        sidecar_restarts in 0..2_i32,
        priority in prop::option::of(-3..4_i32),
        cost in prop::option::of(-100..100_i32),
    ) -> Facts {
        Facts { restarts, sidecar_restarts, priority, cost, ..base }
    }
}

/// A decision as of any time.
fn at_any_time() -> impl Strategy<Value = ContextData> {
    (context_data(), time()).prop_map(|(data, time)| ContextData { now: data.now.and(time), ..data })
}

fn add<'a>(pods: &'a [Facts], ctx: &Context<'_>) -> Pods<'a> {
    let mut all = Pods::new(ctx.now);
    for pod in pods {
        all.add(pod);
    }
    all
}

/// The keys of all pods, with the ranks that `Pods` counts.
fn keys(pods: &[Facts], ctx: &Context<'_>) -> Vec<Key> {
    let ranks = Ranks::of(pods);
    pods.iter().map(|pod| key(pod, &Context { ranks: &ranks, ..*ctx })).collect()
}

fn check(pods: &[Facts], data: &ContextData) -> Result<(), TestCaseError> {
    let ctx = data.context();
    let ranks = unpacked::ranks(pods);
    let (packed, unpacked): (Vec<_>, Vec<_>) =
        (keys(pods, &ctx), pods.iter().map(|pod| unpacked::key(pod, &ctx, &ranks)).collect());
    for (one, expected) in packed.iter().zip(&unpacked) {
        for (other, expected_other) in packed.iter().zip(&unpacked) {
            prop_assert_eq!(one.cmp(other), expected.cmp(expected_other));
            prop_assert_eq!(one == other, one.cmp(other) == Ordering::Equal);
        }
        prop_assert_eq!(
            (one.priority(), one.cost(), one.rank()),
            (expected.0.0.0, expected.0.4, expected.0.5.0)
        );
    }
    let order = add(pods, &ctx).order(ctx.rules, ctx.nodes);
    let sorted: Vec<_> = order.indices().iter().map(|index| &unpacked[*index]).collect();
    let expected: Vec<_> = unpacked::order(pods, &ctx).into_iter().map(|index| &unpacked[index]).collect();
    prop_assert_eq!(&sorted, &expected);
    for (index, key) in packed.iter().enumerate() {
        prop_assert_eq!(&order.key(index), key);
        prop_assert_eq!(order.priority(index), key.priority());
    }
    for count in (0..=pods.len() + 1).step_by(1 + pods.len() / 8) {
        let first = add(pods, &ctx).first(count, ctx.rules, ctx.nodes);
        let found: Vec<_> = first.indices().iter().map(|index| &unpacked[*index]).collect();
        prop_assert_eq!(&found[..], &sorted[..count.min(pods.len())]);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None,
    ..ProptestConfig::default() })]

    #[test]
    fn pods_have_the_order_of_the_unpacked_rules(pods in distinct(40), data in context_data()) {
        check(&pods, &data)?;
    }

    #[test]
    fn usual_pods_have_the_order_of_the_unpacked_rules(
        pods in prop::collection::vec(usual(), 0..60), data in context_data(),
    ) {
        check(&pods, &data)?;
    }

    #[test]
    fn extreme_pods_have_the_order_of_the_unpacked_rules(
        pods in prop::collection::vec(extreme(), 0..40), data in at_any_time(),
    ) {
        check(&pods, &data)?;
    }

    #[test]
    fn pods_whose_uids_begin_alike_are_ordered_by_the_rest(
        uids in prop::collection::vec("(uid-000|uid-0001|uid-0001-)?[a\u{0}\u{e9}]{0,3}", 0..40),
        count in 0..40_usize,
    ) {
        let pods: Vec<Facts> = uids.iter().map(|uid| pod(uid)).collect();
        let first = add(&pods, &ContextData::plain().context()).first(count, &[], &Nodes::new());
        let found: Vec<&str> = first.indices().iter().map(|index| &*pods[*index].uid).collect();
        let mut sorted: Vec<&str> = uids.iter().map(String::as_str).collect();
        sorted.sort_unstable_by_key(|uid| uid.as_bytes());
        sorted.truncate(count);
        prop_assert_eq!(found, sorted);
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
        let keys = |data: &ContextData| keys(&pods, &data.context());
        prop_assert_eq!(keys(&known), keys(&data));
    }

    #[test]
    fn pods_ask_for_the_same_nodes_as_each_of_them(pods in distinct(8), data in context_data()) {
        let mut known = data.nodes.clone();
        known.pop_first();
        let all = add(&pods, &data.context());
        prop_assert_eq!(
            all.missing_nodes(&data.rules, &known),
            missing_nodes(&pods, &data.rules, &known)
        );
    }
}

#[test]
fn the_reason_is_the_first_rule_that_differs_also_between_the_ends_of_all_ranges() {
    let least = Facts {
        phase: Phase::Pending,
        ready_since: None,
        created: None,
        restarts: i32::MAX,
        sidecar_restarts: i32::MAX,
        priority: Some(i32::MAX),
        cost: Some(i32::MIN),
        ..pod("a")
    };
    let most = Facts {
        phase: Phase::Running,
        ready_since: Some(Timestamp::MIN),
        created: Some(Timestamp::MIN),
        restarts: i32::MIN,
        sidecar_restarts: i32::MIN,
        priority: Some(i32::MIN),
        cost: Some(i32::MAX),
        ..pod("b")
    };
    // Each step makes the larger pod equal in one more rule.
    let steps: [fn(&mut Facts, &Facts); 7] = [
        |pod, least| pod.priority = least.priority,
        |pod, least| pod.phase = least.phase,
        |pod, least| pod.cost = least.cost,
        |pod, least| pod.ready_since = least.ready_since,
        |pod, least| pod.restarts = least.restarts,
        |pod, least| pod.sidecar_restarts = least.sidecar_restarts,
        |pod, least| pod.created = least.created,
    ];
    for now in [now(), Some(Timestamp::MAX), Some(Timestamp::MIN), None] {
        let data = ContextData { now, ..ContextData::plain() };
        let ctx = data.context();
        let mut larger = most.clone();
        let mut numbers = Vec::new();
        for step in steps.iter().map(Some).chain([None]) {
            numbers.extend(reason(&key(&least, &ctx), &key(&larger, &ctx)).map(Rule::number));
            if let Some(step) = step {
                step(&mut larger, &least);
            }
        }
        assert_eq!(numbers, [0, 2, 4, 6, 7, 7, 8, 9], "{now:?}");
    }
}

#[test]
fn related_pods_count_for_the_ranks_without_a_place() {
    let pods = [pod("a"), Facts { node: Some("n2".into()), ..pod("b") }];
    let related = [Facts { node: Some("n2".into()), ..pod("c") }, Facts { node: None, ..pod("d") }];
    let mut all = Pods::new(now()).with_room_for(pods.len());
    for pod in &pods {
        all.add(pod);
    }
    for pod in &related {
        all.add_related(pod);
    }
    let order = all.order(&[], &Nodes::new());
    assert_eq!(order.indices(), [1, 0]);
    assert_eq!((order.key(0).rank(), order.key(1).rank()), (1, 2));
    assert!(Arc::ptr_eq(order.key(1).uid(), &pods[1].uid));
}
