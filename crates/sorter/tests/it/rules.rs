//! A table per rule: which pod sorts first, by which rule, and the text of the reason.

use jiff::Timestamp;
use ordereddeployment_sorter::{
    Context, Facts, Grant, NodeFacts, NodeRule, Nodes, Phase, Ranks, Rule, key, reason, why,
};

use crate::order::order;

use crate::generate::{ContextData, ago, now, pod, seconds};

/// A line of a table: the pod that sorts first, the other one, and the text.
struct Line(fn(&mut Facts), fn(&mut Facts), &'static str);

/// The first pod has the larger UID and is second in the input, so that no line succeeds by rule 9 or by chance.
fn check(data: &ContextData, rule: Rule, lines: &[Line]) {
    let ctx = data.context();
    for Line(one, other, words) in lines {
        let (mut first, mut second) = (pod("z"), pod("a"));
        one(&mut first);
        other(&mut second);
        let places: Vec<usize> =
            order(&[second.clone(), first.clone()], &ctx).iter().map(|placed| placed.index).collect();
        assert_eq!(places, [1, 0], "{words}: {first:?} goes before {second:?}");
        let (pod, first, second) = (&first, key(&first, &ctx), key(&second, &ctx));
        assert_eq!(reason(&first, &second), Some(rule), "{words}");
        assert_eq!(reason(&second, &first), None, "{words}");
        let why = why(pod, &first, Some(&second));
        let text = match rule {
            Rule::DeletePriority => (*words).to_owned(),
            _ => format!("priority 0, {words}"),
        };
        assert_eq!((why.rule, why.to_string()), (Some(rule), text));
    }
}

fn plain(rule: Rule, lines: &[Line]) {
    check(&ContextData::plain(), rule, lines);
}

const SAME: fn(&mut Facts) = |_| {};

#[test]
fn rule_0_larger_delete_priority_is_first_and_missing_is_zero() {
    plain(
        Rule::DeletePriority,
        &[
            Line(|p| p.priority = Some(5), SAME, "priority 5 > 0"),
            Line(|p| p.priority = Some(5), |p| p.priority = Some(3), "priority 5 > 3"),
            Line(SAME, |p| p.priority = Some(-1), "priority 0 > -1"),
            Line(
                |p| p.priority = Some(i32::MAX),
                |p| p.priority = Some(i32::MIN),
                "priority 2147483647 > -2147483648",
            ),
            Line(|p| p.priority = Some(1), |p| p.node = None, "priority 1 > 0"),
            Line(|p| p.priority = Some(1), |p| p.cost = Some(-9), "priority 1 > 0"),
        ],
    );
}

#[test]
fn ready_pod_of_higher_priority_is_before_crashing_pod() {
    plain(
        Rule::DeletePriority,
        &[Line(
            |p| p.priority = Some(5),
            |p| {
                p.ready = false;
                p.restarts = 100;
            },
            "priority 5 > 0",
        )],
    );
}

#[test]
fn rule_1_unassigned_pod_is_before_assigned_pod() {
    plain(
        Rule::Unassigned,
        &[
            Line(|p| p.node = None, SAME, "no node"),
            Line(|p| p.node = None, |p| p.phase = Phase::Pending, "no node"),
            Line(
                |p| {
                    p.node = None;
                    p.cost = Some(100);
                },
                SAME,
                "no node",
            ),
        ],
    );
}

#[test]
fn rule_2_pending_is_before_unknown_before_running() {
    plain(
        Rule::Phase,
        &[
            Line(|p| p.phase = Phase::Pending, SAME, "Pending before Running"),
            Line(|p| p.phase = Phase::Pending, |p| p.phase = Phase::Unknown, "Pending before Unknown"),
            Line(|p| p.phase = Phase::Unknown, SAME, "Unknown before Running"),
            Line(|p| p.phase = Phase::Unknown, |p| p.ready = false, "Unknown before Running"),
        ],
    );
}

#[test]
fn any_other_phase_counts_as_pending() {
    for (name, phase) in [
        ("Running", Phase::Running),
        ("Unknown", Phase::Unknown),
        ("Pending", Phase::Pending),
        ("Succeeded", Phase::Pending),
        ("", Phase::Pending),
    ] {
        assert_eq!(Phase::of(name), phase, "{name:?}");
    }
}

#[test]
fn rule_3_older_unready_pod_is_before_newer_ready_pod() {
    plain(
        Rule::NotReady,
        &[
            Line(
                |p| {
                    p.ready = false;
                    p.created = ago(seconds(9000));
                },
                SAME,
                "not ready",
            ),
            Line(|p| p.ready = false, |p| p.cost = Some(-100), "not ready"),
        ],
    );
}

#[test]
fn rule_4_lower_deletion_cost_is_first_and_missing_is_zero() {
    plain(
        Rule::DeletionCost,
        &[
            Line(|p| p.cost = Some(-100), SAME, "cost -100 < 0"),
            Line(SAME, |p| p.cost = Some(1), "cost 0 < 1"),
            Line(|p| p.cost = Some(i32::MIN), |p| p.cost = Some(i32::MAX), "cost -2147483648 < 2147483647"),
            Line(|p| p.cost = Some(-1), |p| p.ready_since = ago(1), "cost -1 < 0"),
        ],
    );
}

fn on(node: &str) -> Facts {
    Facts { node: Some(node.into()), ..pod("r") }
}

#[test]
fn rule_5_pod_that_shares_its_node_is_before_pod_alone() {
    let unassigned = Facts { node: None, ..pod("u") };
    let related = [
        on("n1"),
        on("n2"),
        on("n2"),
        on("n2"),
        on("n2"),
        on("n3"),
        on("n3"),
        unassigned.clone(),
        unassigned,
    ];
    let data = ContextData { ranks: Ranks::of(&related), ..ContextData::plain() };
    check(
        &data,
        Rule::Rank,
        &[
            Line(|p| p.node = Some("n2".into()), SAME, "pods on its node 4 > 1"),
            Line(|p| p.node = Some("n2".into()), |p| p.node = Some("n3".into()), "pods on its node 4 > 2"),
            Line(SAME, |p| p.node = Some("elsewhere".into()), "pods on its node 1 > 0"),
            Line(|p| p.node = Some("n2".into()), |p| p.ready_since = ago(1), "pods on its node 4 > 1"),
        ],
    );
    // Unassigned pods share no node.
    let ctx = data.context();
    assert_eq!(key(&Facts { node: None, ..pod("a") }, &ctx).rank(), 0);
    assert_eq!(key(&on("n2"), &ctx).rank(), 4);
}

#[test]
fn sets_without_an_owner_have_no_ranks() {
    let data = ContextData::plain();
    assert_eq!(key(&pod("a"), &data.context()).rank(), 0);
    assert_eq!(Ranks::of([]), Ranks::none());
}

#[test]
fn rule_6_pod_ready_for_less_time_is_first_by_buckets() {
    plain(
        Rule::ReadyTime,
        &[
            Line(|p| p.ready_since = ago(seconds(5)), SAME, "ready for less time"),
            Line(|p| p.ready_since = None, |p| p.ready_since = ago(-5), "no ready time"),
            Line(|p| p.ready_since = ago(0), |p| p.ready_since = ago(1), "ready for less time"),
            Line(|p| p.ready_since = ago(-seconds(7)), |p| p.ready_since = ago(1), "ready for less time"),
            Line(|p| p.ready_since = ago(1), |p| p.ready_since = ago(2), "ready for less time"),
            Line(
                |p| p.ready_since = ago((1 << 37) - 1),
                |p| p.ready_since = ago(1 << 37),
                "ready for less time",
            ),
            Line(|p| p.ready_since = ago(seconds(5)), |p| p.restarts = 9, "ready for less time"),
        ],
    );
}

#[test]
fn restarts_decide_between_ready_times_of_one_bucket() {
    plain(
        Rule::Restarts,
        &[
            Line(
                |p| {
                    p.restarts = 1;
                    p.ready_since = ago((1 << 38) - 1);
                },
                |p| p.ready_since = ago(1 << 37),
                "restarts 1 > 0",
            ),
            // Now and the future share one bucket.
            Line(
                |p| {
                    p.restarts = 1;
                    p.ready_since = ago(0);
                },
                |p| p.ready_since = ago(-seconds(60)),
                "restarts 1 > 0",
            ),
        ],
    );
}

#[test]
fn the_longest_age_a_timestamp_allows_has_a_bucket() {
    let data = ContextData { now: Some(Timestamp::MAX), ..ContextData::plain() };
    check(
        &data,
        Rule::ReadyTime,
        &[Line(SAME, |p| p.ready_since = Some(Timestamp::MIN), "ready for less time")],
    );
}

#[test]
fn time_of_turning_unready_is_not_compared() {
    plain(
        Rule::Restarts,
        &[Line(
            |p| {
                p.ready = false;
                p.restarts = 1;
            },
            |p| {
                p.ready = false;
                p.ready_since = ago(1);
            },
            "restarts 1 > 0",
        )],
    );
}

#[test]
fn rule_7_more_restarts_are_first_and_sidecars_are_second() {
    plain(
        Rule::Restarts,
        &[
            Line(|p| p.restarts = 3, |p| p.restarts = 1, "restarts 3 > 1"),
            Line(|p| p.restarts = 1, |p| p.sidecar_restarts = 9, "restarts 1 > 0"),
            Line(|p| p.restarts = 1, |p| p.created = ago(1), "restarts 1 > 0"),
        ],
    );
    plain(
        Rule::SidecarRestarts,
        &[
            Line(|p| p.sidecar_restarts = 2, SAME, "sidecar restarts 2 > 0"),
            Line(|p| p.sidecar_restarts = 1, |p| p.created = ago(1), "sidecar restarts 1 > 0"),
        ],
    );
}

#[test]
fn rule_8_newer_pod_is_first_by_buckets() {
    plain(
        Rule::CreationTime,
        &[
            Line(|p| p.created = ago(seconds(5)), SAME, "newer"),
            Line(|p| p.created = None, |p| p.created = ago(-5), "no creation time"),
            Line(|p| p.created = ago(0), |p| p.created = ago(1), "newer"),
            Line(|p| p.created = ago((1 << 37) - 1), |p| p.created = ago(1 << 37), "newer"),
        ],
    );
}

#[test]
fn without_a_now_exact_times_are_compared_newest_first() {
    let data = ContextData { now: None, ..ContextData::plain() };
    check(
        &data,
        Rule::ReadyTime,
        &[
            Line(
                |p| p.ready_since = ago(1 << 37),
                |p| p.ready_since = ago((1 << 37) + 1),
                "ready for less time",
            ),
            Line(|p| p.ready_since = None, |p| p.ready_since = ago(-seconds(9)), "no ready time"),
        ],
    );
    check(
        &data,
        Rule::CreationTime,
        &[
            Line(|p| p.created = ago(1 << 37), |p| p.created = ago((1 << 37) + 1), "newer"),
            Line(|p| p.created = None, |p| p.created = ago(-seconds(9)), "no creation time"),
        ],
    );
}

#[test]
fn rule_9_smaller_uid_is_first_bytewise() {
    let data = ContextData::plain();
    let ctx = data.context();
    let bytewise = ["", "0", "B", "a", "aa", "b", "é"];
    for pair in bytewise.windows(2) {
        // Creation times of one bucket are left to the UID too.
        let pod_first = Facts { created: ago((1 << 38) - 1), ..pod(pair[0]) };
        let pod_second = Facts { created: ago(1 << 37), ..pod(pair[1]) };
        let (first, second) = (key(&pod_first, &ctx), key(&pod_second, &ctx));
        assert!(first < second, "{pair:?}");
        assert_eq!(reason(&first, &second), Some(Rule::Uid));
        assert_eq!(why(&pod_first, &first, Some(&second)).to_string(), "priority 0, tie: UID");
        assert_eq!(reason(&first, &first.clone()), None);
        assert_eq!(why(&pod_second, &second, Some(&first)).rule, None);
    }
}

/// Each reason begins with the pod's own priority, so that the pods of the first block say why they are first.
#[test]
fn a_reason_begins_with_the_own_priority_and_its_source() {
    let assigned = NodeRule {
        requirements: Vec::new(),
        unschedulable: None,
        taint_keys: Vec::new(),
        unassigned: Some(false),
        grant: Grant::Priority(50),
    };
    let data = ContextData {
        rules: vec![assigned],
        nodes: [("n1".into(), Some(NodeFacts::default()))].into(),
        ..ContextData::plain()
    };
    let own = |uid, priority| Facts { priority: Some(priority), ..pod(uid) };
    let without_node = Facts { node: None, ..pod("g") };
    let pods = [own("a", 50), pod("b"), own("c", 5), own("d", 5), without_node, own("f", 0), own("e", -1)];
    let ctx = data.context();
    let keys: Vec<_> = pods.iter().map(|pod| key(pod, &ctx)).collect();
    let texts: Vec<_> =
        (0..).zip(&pods).map(|(at, pod)| why(pod, &keys[at], keys.get(at + 1)).to_string()).collect();
    assert_eq!(
        texts,
        [
            "priority 50, tie: UID",
            "priority 50 (node rule) > 5",
            "priority 5, tie: UID",
            "priority 5 > 0",
            "priority 0, no node",
            "priority 0 > -1",
            "priority -1, last",
        ]
    );
}

#[test]
fn rules_have_the_numbers_of_the_table_and_short_names() {
    let rules = [
        (Rule::DeletePriority, 0, "delete priority"),
        (Rule::Unassigned, 1, "unassigned"),
        (Rule::Phase, 2, "phase"),
        (Rule::NotReady, 3, "not ready"),
        (Rule::DeletionCost, 4, "deletion cost"),
        (Rule::Rank, 5, "pods on its node"),
        (Rule::ReadyTime, 6, "ready time"),
        (Rule::Restarts, 7, "restarts"),
        (Rule::SidecarRestarts, 7, "sidecar restarts"),
        (Rule::CreationTime, 8, "creation time"),
        (Rule::Uid, 9, "UID"),
    ];
    for (rule, number, name) in rules {
        assert_eq!((rule.number(), rule.to_string().as_str()), (number, name));
    }
    assert_eq!(format!("{:>5}", Rule::Uid), "  UID");
}

#[test]
fn keys_return_the_compared_values() {
    let nodes = Nodes::new();
    let ranks = Ranks::of([&pod("a")]);
    let ctx = Context { now: now(), rules: &[], nodes: &nodes, ranks: &ranks };
    let key = key(&Facts { priority: Some(7), cost: Some(-3), ..pod("a") }, &ctx);
    assert_eq!((key.priority(), key.cost(), key.rank(), &**key.uid()), (7, -3, 1, "a"));
}
