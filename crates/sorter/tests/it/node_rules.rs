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

/// A rule with these fields: `pool in hybrid`, `pool not-in hybrid`, `pool exists`, `pool absent`,
/// `cordoned`, `uncordoned`, `tainted spot`, `unassigned` or `assigned`, with commas between them.
fn with(fields: &str) -> NodeRule {
    let mut rule = gives(1);
    for field in fields.split(", ").filter(|field| !field.is_empty()) {
        let words: Vec<String> = field.split(' ').map(str::to_owned).collect();
        let (key, values) = (words[0].clone(), || words[2..].to_vec());
        let requirement = match words.get(1).map(String::as_str) {
            Some("in") => Requirement::In { key, values: values() },
            Some("not-in") => Requirement::NotIn { key, values: values() },
            Some("exists") => Requirement::Exists { key },
            Some("absent") => Requirement::DoesNotExist { key },
            _ => {
                match key.as_str() {
                    "cordoned" => rule.unschedulable = Some(true),
                    "uncordoned" => rule.unschedulable = Some(false),
                    "unassigned" => rule.unassigned = Some(true),
                    "assigned" => rule.unassigned = Some(false),
                    "tainted" => rule.taint_keys = words[1..].to_vec(),
                    _ => panic!("no field: {field}"),
                }
                continue;
            }
        };
        rule.requirements.push(requirement);
    }
    rule
}

#[test]
fn fields_of_a_rule_match_nodes_and_all_of_them_must() {
    let all = "hybrid cordoned spot";
    for (fields, expected) in [
        ("", ""),
        ("pool in other hybrid", "hybrid"),
        ("zone in hybrid x", ""),
        ("pool in", ""),
        ("pool not-in hybrid x", "cordoned spot"),
        ("zone not-in hybrid x", all),
        ("pool exists", all),
        ("zone exists", ""),
        ("pool absent", ""),
        ("zone absent", all),
        ("pool exists, pool in other hybrid", "hybrid"),
        ("pool in other hybrid, pool in other inference", ""),
        ("cordoned", "cordoned"),
        ("uncordoned", "hybrid spot"),
        ("tainted spot", "spot"),
        ("tainted none gpu", "spot"),
        ("tainted none", ""),
        ("pool in other inference, cordoned", "cordoned"),
        ("pool in other hybrid, tainted spot", ""),
        ("unassigned", "unassigned"),
        ("assigned", all),
        ("unassigned, pool in other hybrid", ""),
        ("unassigned, uncordoned", ""),
        ("unassigned, tainted spot", ""),
        ("assigned, pool in other hybrid", "hybrid"),
    ] {
        assert_eq!(matches(with(fields)).join(" "), expected, "{fields}");
    }
}

#[test]
fn a_grant_fills_its_rule_only_if_the_pod_has_no_value_of_its_own() {
    let (priority, cost) = (
        |value| Facts { priority: Some(value), ..on("hybrid") },
        |value| Facts { cost: Some(value), ..on("hybrid") },
    );
    for (grant, pod, expected) in [
        (Grant::Priority(7), on("hybrid"), (7, 0)),
        (Grant::Priority(7), priority(2), (2, 0)),
        (Grant::Priority(7), priority(0), (0, 0)),
        (Grant::Priority(7), cost(-4), (7, -4)),
        (Grant::Priority(7), on("spot"), (0, 0)),
        (Grant::Priority(7), on("gone"), (0, 0)),
        (Grant::Priority(7), on("unread"), (0, 0)),
        (Grant::Priority(7), unassigned(), (0, 0)),
        (Grant::Cost(-100), on("hybrid"), (0, -100)),
        (Grant::Cost(-100), cost(3), (0, 3)),
        (Grant::Cost(-100), cost(0), (0, 0)),
        (Grant::Cost(-100), priority(5), (5, -100)),
        (Grant::Cost(-100), on("spot"), (0, 0)),
    ] {
        let data = context_data(vec![in_pool("hybrid", grant)]);
        let key = key(&pod, &data.context());
        assert_eq!((key.priority(), key.cost()), expected, "{grant:?} {pod:?}");
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
    let table = [
        ("no rules", vec![], ""),
        ("empty rule", vec![gives(1)], ""),
        ("unassigned only", vec![with("unassigned")], ""),
        ("never matches", vec![NodeRule { unassigned: Some(true), ..by_priority() }], ""),
        ("priority", vec![by_priority()], "has-cost unread"),
        ("cost", vec![by_cost()], "has-priority unread"),
        ("both", vec![by_priority(), by_cost()], "has-cost has-priority unread"),
        ("cordoned", vec![with("cordoned")], "has-cost unread"),
        ("taint", vec![with("tainted spot")], "has-cost unread"),
        ("assigned", vec![with("assigned")], "has-cost unread"),
    ];
    for (name, rules, expected) in table {
        let data = context_data(rules);
        let missing = missing_nodes(&pods, &data.rules, &data.nodes);
        assert_eq!(missing.iter().map(Arc::as_ref).collect::<Vec<_>>().join(" "), expected, "{name}");
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
