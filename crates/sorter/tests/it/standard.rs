//! The standard order of a ReplicaSet's pods, written again as a pairwise comparator, and a comparison with
//! this order.

use std::cmp::Ordering;

use jiff::Timestamp;
use ordereddeployment_sorter::{Facts, Key, Phase, Ranks, Rule, key, reason};
use proptest::prelude::*;

use crate::generate::{ContextData, ago, context_data, like_others, pod, seconds};

/// The standard rule that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Unassigned,
    Phase,
    NotReady,
    Cost,
    Rank,
    ReadyTime,
    /// Both ready in one bucket at different times: decided by UID at once.
    ReadyBucketUid,
    Restarts,
    SidecarRestarts,
    CreationTime,
    /// Created in one bucket at different times: decided by UID at once.
    CreationBucketUid,
    Nothing,
}

fn standard(a: &Facts, b: &Facts, rank: impl Fn(&Facts) -> i64, now: Option<Timestamp>) -> (Ordering, By) {
    if a.node != b.node && (a.node.is_none() || b.node.is_none()) {
        return (if a.node.is_none() { Ordering::Less } else { Ordering::Greater }, By::Unassigned);
    }
    let ordinal = |pod: &Facts| match pod.phase {
        Phase::Pending => 0,
        Phase::Unknown => 1,
        Phase::Running => 2,
    };
    if ordinal(a) != ordinal(b) {
        return (ordinal(a).cmp(&ordinal(b)), By::Phase);
    }
    if a.ready != b.ready {
        return (if b.ready { Ordering::Less } else { Ordering::Greater }, By::NotReady);
    }
    let cost = |pod: &Facts| pod.cost.unwrap_or(0);
    if cost(a) != cost(b) {
        return (cost(a).cmp(&cost(b)), By::Cost);
    }
    if rank(a) != rank(b) {
        return (rank(b).cmp(&rank(a)), By::Rank);
    }
    if a.ready && b.ready && a.ready_since != b.ready_since {
        return match by_time(a.ready_since, b.ready_since, now) {
            Ordering::Equal => (a.uid.cmp(&b.uid), By::ReadyBucketUid),
            parted => (parted, By::ReadyTime),
        };
    }
    if a.restarts != b.restarts {
        return (b.restarts.cmp(&a.restarts), By::Restarts);
    }
    if a.sidecar_restarts != b.sidecar_restarts {
        return (b.sidecar_restarts.cmp(&a.sidecar_restarts), By::SidecarRestarts);
    }
    if a.created != b.created {
        return match by_time(a.created, b.created, now) {
            Ordering::Equal => (a.uid.cmp(&b.uid), By::CreationBucketUid),
            parted => (parted, By::CreationTime),
        };
    }
    (Ordering::Equal, By::Nothing)
}

/// Different times: no time first, then the newer one; with a clock by the logarithm of the age.
fn by_time(a: Option<Timestamp>, b: Option<Timestamp>, now: Option<Timestamp>) -> Ordering {
    match (a, b, now) {
        (None, _, _) => Ordering::Less,
        (_, None, _) => Ordering::Greater,
        (Some(a), Some(b), None) => b.cmp(&a),
        (Some(a), Some(b), Some(now)) => logarithm(a, now).cmp(&logarithm(b, now)),
    }
}

/// In floating point, as in the standard order: it represents the ages of these tests exactly.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the standard order rounds so"
)]
fn logarithm(time: Timestamp, now: Timestamp) -> i64 {
    let age = now.as_nanosecond() - time.as_nanosecond();
    if age > 0 { (age as f64).log2() as i64 } else { -1 }
}

fn compare(a: &Facts, b: &Facts, data: &ContextData) -> (Ordering, By) {
    standard(a, b, |pod| i64::from(data.ranks.rank(pod)), data.now)
}

fn rule_of(by: By) -> Rule {
    match by {
        By::Unassigned => Rule::Unassigned,
        By::Phase => Rule::Phase,
        By::NotReady => Rule::NotReady,
        By::Cost => Rule::DeletionCost,
        By::Rank => Rule::Rank,
        By::ReadyTime => Rule::ReadyTime,
        By::Restarts => Rule::Restarts,
        By::SidecarRestarts => Rule::SidecarRestarts,
        By::CreationTime => Rule::CreationTime,
        By::ReadyBucketUid | By::CreationBucketUid | By::Nothing => Rule::Uid,
    }
}

fn parted_by(one: &Key, other: &Key) -> Option<Rule> {
    reason(one, other).or_else(|| reason(other, one))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8192, failure_persistence: None,
    ..ProptestConfig::default() })]

    #[test]
    fn pods_of_equal_priority_follow_the_standard_rules(
        mut a in like_others(), mut b in like_others(), priority in prop::option::of(-1..2_i32),
        mut data in context_data(),
    ) {
        (a.priority, b.priority) = (priority, priority);
        // The standard order has no node rules.
        data.rules.clear();
        let ctx = data.context();
        let (one, other) = (key(&a, &ctx), key(&b, &ctx));
        let (ordering, by) = compare(&a, &b, &data);
        if by == By::ReadyBucketUid {
            // The one possible difference: here the rules below decide first.
            let below = [Rule::Restarts, Rule::SidecarRestarts, Rule::CreationTime, Rule::Uid];
            prop_assert!(parted_by(&one, &other).is_none_or(|rule| below.contains(&rule)));
            let same_below = (a.restarts, a.sidecar_restarts, a.created) == (b.restarts, b.sidecar_restarts,
                b.created);
            prop_assert!(!same_below || one.cmp(&other) == ordering);
        } else if by == By::Nothing {
            // The standard order leaves such pods unsorted; here the UID decides.
            prop_assert_eq!(one.cmp(&other), a.uid.cmp(&b.uid));
        } else {
            prop_assert_eq!(one.cmp(&other), ordering);
            let rule = if ordering == Ordering::Equal { None } else { Some(rule_of(by)) };
            prop_assert_eq!(parted_by(&one, &other), rule);
        }
    }
}

#[test]
fn the_standard_order_cycles_over_three_pods_that_this_one_sorts() {
    // All became ready within one bucket (137 to 274 seconds ago); b and c at the same time.
    let a = Facts { ready_since: ago(seconds(150)), ..pod("2") };
    let b = Facts { ready_since: ago(seconds(200)), restarts: 1, ..pod("3") };
    let c = Facts { ready_since: ago(seconds(200)), ..pod("1") };
    let data = ContextData { ranks: Ranks::none(), ..ContextData::plain() };
    assert_eq!(compare(&a, &b, &data), (Ordering::Less, By::ReadyBucketUid));
    assert_eq!(compare(&b, &c, &data), (Ordering::Less, By::Restarts));
    assert_eq!(compare(&c, &a, &data), (Ordering::Less, By::ReadyBucketUid));

    let ctx = data.context();
    let [a, b, c] = [a, b, c].map(|pod| key(&pod, &ctx));
    assert_eq!(reason(&b, &c), Some(Rule::Restarts));
    assert_eq!(reason(&c, &a), Some(Rule::Uid));
    assert_eq!(reason(&b, &a), Some(Rule::Restarts));
}
