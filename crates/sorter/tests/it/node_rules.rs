//! What pods get from their nodes.

use std::sync::Arc;

use ordereddeployment_sorter::{
    Facts, Grant, NodeRule, Requirement, Rule, key, matching_rule, missing_nodes, reason,
};

use crate::generate::{ContextData, node, pod};
use crate::order::order;

/// A rule without fields that grants this priority.
fn gives(priority: i32) -> NodeRule {
    NodeRule {
        requirements: Vec::new(),
        unschedulable: None,
        taint_keys: Vec::new(),
        unassigned: None,
        grant: Grant::Priority(priority),
    }
}

fn pool(value: &str) -> Requirement {
    Requirement::In { key: "pool".to_owned(), values: vec!["other".to_owned(), value.to_owned()] }
}

fn in_pool(value: &str, grant: Grant) -> NodeRule {
    NodeRule { requirements: vec![pool(value)], grant, ..gives(0) }
}

fn context_data(rules: Vec<NodeRule>) -> ContextData {
    ContextData {
        rules,
        nodes: [
            ("hybrid".into(), Some(node("hybrid", false, &[]))),
            ("cordoned".into(), Some(node("inference", true, &[]))),
            ("spot".into(), Some(node("inference", false, &["spot", "gpu"]))),
            ("gone".into(), None),
        ]
        .into(),
        ..ContextData::plain()
    }
}

fn on(name: &str) -> Facts {
    Facts { node: Some(name.into()), ..pod(name) }
}

fn unassigned() -> Facts {
    Facts { node: None, ..pod("unassigned") }
}

/// Which of hybrid, cordoned, spot, gone, not read, unassigned the rule matches.
fn matches(rule: NodeRule) -> Vec<&'static str> {
    let data = context_data(vec![rule]);
    let assigned = ["hybrid", "cordoned", "spot", "gone", "unread"].map(|name| (name, on(name)));
    assigned
        .into_iter()
        .chain([("unassigned", unassigned())])
        .filter(|(_, pod)| matching_rule(pod, &data.context()).is_some())
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn fields_of_a_rule_match_nodes_and_all_of_them_must() {
    let base = || gives(1);
    let key = || "pool".to_owned();
    let zone = || "zone".to_owned();
    let values = || vec!["hybrid".to_owned(), "x".to_owned()];
    let with = |requirement| NodeRule { requirements: vec![requirement], ..base() };
    let both = |one, other| NodeRule { requirements: vec![one, other], ..base() };
    let all = vec!["hybrid", "cordoned", "spot"];
    let table: Vec<(&str, NodeRule, Vec<&str>)> = vec![
        ("empty", base(), vec![]),
        ("in", with(pool("hybrid")), vec!["hybrid"]),
        ("in, absent", with(Requirement::In { key: zone(), values: values() }), vec![]),
        ("in, no values", with(Requirement::In { key: key(), values: vec![] }), vec![]),
        ("not in", with(Requirement::NotIn { key: key(), values: values() }), vec!["cordoned", "spot"]),
        ("not in, absent", with(Requirement::NotIn { key: zone(), values: values() }), all.clone()),
        ("exists", with(Requirement::Exists { key: key() }), all.clone()),
        ("exists, absent", with(Requirement::Exists { key: zone() }), vec![]),
        ("does not exist", with(Requirement::DoesNotExist { key: key() }), vec![]),
        ("does not exist, absent", with(Requirement::DoesNotExist { key: zone() }), all.clone()),
        ("two requirements", both(Requirement::Exists { key: key() }, pool("hybrid")), vec!["hybrid"]),
        ("one of two fails", both(pool("hybrid"), pool("inference")), vec![]),
        ("cordoned", NodeRule { unschedulable: Some(true), ..base() }, vec!["cordoned"]),
        ("not cordoned", NodeRule { unschedulable: Some(false), ..base() }, vec!["hybrid", "spot"]),
        ("taint", NodeRule { taint_keys: vec!["spot".to_owned()], ..base() }, vec!["spot"]),
        (
            "any taint",
            NodeRule { taint_keys: vec!["none".to_owned(), "gpu".to_owned()], ..base() },
            vec!["spot"],
        ),
        ("no such taint", NodeRule { taint_keys: vec!["none".to_owned()], ..base() }, vec![]),
        (
            "pool and cordoned",
            NodeRule { unschedulable: Some(true), ..with(pool("inference")) },
            vec!["cordoned"],
        ),
        ("pool and taint", NodeRule { taint_keys: vec!["spot".to_owned()], ..with(pool("hybrid")) }, vec![]),
        ("unassigned", NodeRule { unassigned: Some(true), ..base() }, vec!["unassigned"]),
        ("assigned", NodeRule { unassigned: Some(false), ..base() }, all),
        ("unassigned and pool", NodeRule { unassigned: Some(true), ..with(pool("hybrid")) }, vec![]),
        (
            "unassigned and cordoned",
            NodeRule { unassigned: Some(true), unschedulable: Some(false), ..base() },
            vec![],
        ),
        (
            "unassigned and taint",
            NodeRule { unassigned: Some(true), taint_keys: vec!["spot".to_owned()], ..base() },
            vec![],
        ),
        ("assigned and pool", NodeRule { unassigned: Some(false), ..with(pool("hybrid")) }, vec!["hybrid"]),
    ];
    for (name, rule, expected) in table {
        assert_eq!(matches(rule), expected, "{name}");
    }
}

#[test]
fn priority_of_a_rule_fills_rule_0_only_if_the_pod_has_none() {
    let data = context_data(vec![in_pool("hybrid", Grant::Priority(7))]);
    let ctx = data.context();
    for (pod, priority, cost) in [
        (on("hybrid"), 7, 0),
        (Facts { priority: Some(2), ..on("hybrid") }, 2, 0),
        (Facts { priority: Some(0), ..on("hybrid") }, 0, 0),
        (Facts { cost: Some(-4), ..on("hybrid") }, 7, -4),
        (on("spot"), 0, 0),
        (on("gone"), 0, 0),
        (on("unread"), 0, 0),
        (unassigned(), 0, 0),
    ] {
        let key = key(&pod, &ctx);
        assert_eq!((key.priority(), key.cost()), (priority, cost), "{pod:?}");
    }
}

#[test]
fn cost_of_a_rule_fills_rule_4_only_if_the_pod_has_none() {
    let data = context_data(vec![in_pool("hybrid", Grant::Cost(-100))]);
    let ctx = data.context();
    for (pod, priority, cost) in [
        (on("hybrid"), 0, -100),
        (Facts { cost: Some(3), ..on("hybrid") }, 0, 3),
        (Facts { cost: Some(0), ..on("hybrid") }, 0, 0),
        (Facts { priority: Some(5), ..on("hybrid") }, 5, -100),
        (on("spot"), 0, 0),
    ] {
        let key = key(&pod, &ctx);
        assert_eq!((key.priority(), key.cost()), (priority, cost), "{pod:?}");
    }
}

#[test]
fn unready_pod_elsewhere_is_before_pod_of_a_pool_with_a_cost() {
    let data = context_data(vec![in_pool("hybrid", Grant::Cost(-100))]);
    let pods = [on("hybrid"), Facts { ready: false, ..on("spot") }, on("cordoned")];
    let placed = order(&pods, &data.context());
    assert_eq!(placed.iter().map(|placed| placed.index).collect::<Vec<_>>(), [1, 0, 2]);
    assert_eq!(reason(&placed[0].key, &placed[1].key), Some(Rule::NotReady));
    assert_eq!(reason(&placed[1].key, &placed[2].key), Some(Rule::DeletionCost));
}

#[test]
fn only_the_first_matching_rule_applies() {
    let rules = vec![
        in_pool("hybrid", Grant::Cost(-1)),
        NodeRule { requirements: vec![Requirement::Exists { key: "pool".to_owned() }], ..gives(9) },
        NodeRule { unassigned: Some(true), ..gives(3) },
        NodeRule { unassigned: Some(true), ..gives(4) },
    ];
    let data = context_data(rules);
    let ctx = data.context();
    for (pod, rule, priority, cost) in [
        (on("hybrid"), Some(0), 0, -1),
        // Its own cost overrides the grant of the first rule, and the second rule still does not apply.
        (Facts { cost: Some(6), ..on("hybrid") }, Some(0), 0, 6),
        (on("spot"), Some(1), 9, 0),
        (unassigned(), Some(2), 3, 0),
        (on("gone"), None, 0, 0),
    ] {
        assert_eq!(matching_rule(&pod, &ctx), rule, "{pod:?}");
        let key = key(&pod, &ctx);
        assert_eq!((key.priority(), key.cost()), (priority, cost), "{pod:?}");
    }
}

#[test]
fn nodes_are_requested_only_if_a_rule_reads_them() {
    let pods = [
        on("hybrid"),
        on("gone"),
        on("unread"),
        Facts { priority: Some(1), ..on("has-priority") },
        Facts { cost: Some(1), ..on("has-cost") },
        Facts { priority: Some(1), cost: Some(1), ..on("has-both") },
        unassigned(),
    ];
    let by_priority = || in_pool("hybrid", Grant::Priority(1));
    let by_cost = || in_pool("hybrid", Grant::Cost(1));
    let table: Vec<(&str, Vec<NodeRule>, Vec<&str>)> = vec![
        ("no rules", vec![], vec![]),
        ("empty rule", vec![gives(1)], vec![]),
        ("unassigned only", vec![NodeRule { unassigned: Some(true), ..gives(1) }], vec![]),
        ("never matches", vec![NodeRule { unassigned: Some(true), ..by_priority() }], vec![]),
        ("priority", vec![by_priority()], vec!["has-cost", "unread"]),
        ("cost", vec![by_cost()], vec!["has-priority", "unread"]),
        ("both", vec![by_priority(), by_cost()], vec!["has-cost", "has-priority", "unread"]),
        ("cordoned", vec![NodeRule { unschedulable: Some(true), ..gives(1) }], vec!["has-cost", "unread"]),
        (
            "taint",
            vec![NodeRule { taint_keys: vec!["spot".to_owned()], ..gives(1) }],
            vec!["has-cost", "unread"],
        ),
        ("assigned", vec![NodeRule { unassigned: Some(false), ..gives(1) }], vec!["has-cost", "unread"]),
    ];
    for (name, rules, expected) in table {
        let data = context_data(rules);
        let missing = missing_nodes(&pods, &data.rules, &data.nodes);
        assert_eq!(missing.iter().map(Arc::as_ref).collect::<Vec<_>>(), expected, "{name}");
    }
}

#[test]
fn the_example_of_the_documentation_holds() {
    let rules = vec![
        in_pool("hybrid", Grant::Cost(-100)),
        NodeRule { taint_keys: vec!["spot".to_owned()], ..gives(10) },
        NodeRule { unschedulable: Some(true), ..gives(50) },
        NodeRule { unassigned: Some(true), ..gives(60) },
    ];
    let mut data = context_data(rules);
    data.nodes.insert("plain".into(), Some(node("inference", false, &[])));
    data.nodes.insert("hybrid-cordoned".into(), Some(node("hybrid", true, &[])));
    // From the last place to the first.
    let pods = [
        on("plain"),
        on("hybrid"),
        Facts { ready: false, ..on("plain") },
        on("spot"),
        on("cordoned"),
        unassigned(),
    ];
    let placed = order(&pods, &data.context());
    assert_eq!(placed.iter().map(|placed| placed.index).collect::<Vec<_>>(), [5, 4, 3, 2, 1, 0]);
    let rules: Vec<_> = placed.windows(2).filter_map(|pair| reason(&pair[0].key, &pair[1].key)).collect();
    assert_eq!(
        rules,
        [
            Rule::DeletePriority,
            Rule::DeletePriority,
            Rule::DeletePriority,
            Rule::NotReady,
            Rule::DeletionCost
        ]
    );
    let cordoned = key(&on("hybrid-cordoned"), &data.context());
    assert_eq!((cordoned.priority(), cordoned.cost()), (0, -100));
}
