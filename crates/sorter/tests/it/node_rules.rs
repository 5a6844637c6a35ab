//! What pods get from their nodes.

use std::sync::Arc;

use ordereddeployment_api::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement, NodePriority};
use ordereddeployment_sorter::{Facts, Rule, matching_rule, priority, reason, why};

use crate::generate::{self, Cluster, node, pod};

/// A rule without fields that grants this priority.
fn gives(priority: i32) -> NodePriority {
    NodePriority { priority: Some(priority), ..NodePriority::default() }
}

/// A rule without fields that grants this cost.
fn costs(cost: i32) -> NodePriority {
    NodePriority { deletion_cost: Some(cost), ..NodePriority::default() }
}

fn in_pool(value: &str, rule: NodePriority) -> NodePriority {
    NodePriority { node_selector: Some(generate::in_pool(value)), ..rule }
}

fn cluster(rules: Vec<NodePriority>) -> Cluster {
    Cluster {
        rules,
        nodes: [
            ("hybrid".into(), Some(node("hybrid", false, &[]))),
            ("cordoned".into(), Some(node("inference", true, &[]))),
            ("spot".into(), Some(node("inference", false, &["spot", "gpu"]))),
            ("gone".into(), None),
        ]
        .into(),
        ..Cluster::plain()
    }
}

fn on(name: &str) -> Facts {
    Facts { node: Some(name.into()), ..pod(name) }
}

fn unassigned() -> Facts {
    Facts { node: None, ..pod("unassigned") }
}

/// Which of hybrid, cordoned, spot, gone, not read, unassigned the rule matches.
fn matches(rule: NodePriority) -> Vec<&'static str> {
    let cluster = cluster(vec![rule]);
    let assigned = ["hybrid", "cordoned", "spot", "gone", "unread"].map(|name| (name, on(name)));
    assigned
        .into_iter()
        .chain([("unassigned", unassigned())])
        .filter(|(_, pod)| matching_rule(pod.node.as_ref(), &cluster.rules, &cluster.nodes).is_some())
        .map(|(name, _)| name)
        .collect()
}

/// A rule with these fields: `pool in hybrid`, `pool not-in hybrid`, `pool exists`, `pool absent`,
/// `cordoned`, `uncordoned`, `tainted spot`, `unassigned` or `assigned`, with commas between them.
fn with(fields: &str) -> NodePriority {
    let mut rule = gives(1);
    let mut requirements = Vec::new();
    for field in fields.split(", ").filter(|field| !field.is_empty()) {
        let words: Vec<String> = field.split(' ').map(str::to_owned).collect();
        let values = |from: usize| Some(words[from..].to_vec());
        let (operator, values) = match (words[0].as_str(), words.get(1).map(String::as_str)) {
            (_, Some("in")) => (LabelSelectorOperator::In, values(2)),
            (_, Some("not-in")) => (LabelSelectorOperator::NotIn, values(2)),
            (_, Some("exists")) => (LabelSelectorOperator::Exists, None),
            (_, Some("absent")) => (LabelSelectorOperator::DoesNotExist, None),
            (name, _) => {
                match name {
                    "cordoned" => rule.unschedulable = Some(true),
                    "uncordoned" => rule.unschedulable = Some(false),
                    "unassigned" => rule.unassigned = Some(true),
                    "assigned" => rule.unassigned = Some(false),
                    "tainted" => rule.taint_keys = values(1),
                    _ => panic!("no field: {field}"),
                }
                continue;
            }
        };
        requirements.push(LabelSelectorRequirement { key: words[0].clone(), operator, values });
    }
    if !requirements.is_empty() {
        let selector = LabelSelector { match_labels: None, match_expressions: Some(requirements) };
        rule.node_selector = Some(selector);
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

/// The priority of a pod, and its cost as the reason says it before an equal pod with a larger one.
fn granted(pod: &Facts, cluster: &Cluster) -> (i32, i32) {
    let own = priority(pod, &cluster.rules, &cluster.nodes);
    let next = Facts { uid: "z".into(), priority: Some(own), cost: Some(99), ..pod.clone() };
    let pods = [pod.clone(), next];
    let order = cluster.order(&pods);
    assert_eq!((order.indices(), order.priority(0)), (&[0, 1][..], own));
    let why = why(pod, order.key(0), Some(order.key(1))).to_string();
    let cost = why.split_once("cost ").and_then(|(_, cost)| cost.split_once(" < ")).unwrap().0;
    (own, cost.parse().unwrap())
}

#[test]
fn the_first_rule_that_matches_fills_what_the_pod_has_no_value_of_its_own_for() {
    let own = |priority, cost| Facts { priority, cost, ..on("hybrid") };
    let (priority, cost) = (
        || vec![in_pool("hybrid", gives(7))],
        || {
            // The second rule never applies on this node.
            vec![in_pool("hybrid", costs(-100)), in_pool("hybrid", gives(9)), with("unassigned")]
        },
    );
    for (rules, pod, expected) in [
        (priority(), on("hybrid"), (7, 0)),
        (priority(), own(Some(2), None), (2, 0)),
        (priority(), own(Some(0), None), (0, 0)),
        (priority(), own(None, Some(-4)), (7, -4)),
        (priority(), on("spot"), (0, 0)),
        (priority(), on("gone"), (0, 0)),
        (priority(), on("unread"), (0, 0)),
        (priority(), unassigned(), (0, 0)),
        (cost(), on("hybrid"), (0, -100)),
        (cost(), own(None, Some(3)), (0, 3)),
        (cost(), own(None, Some(0)), (0, 0)),
        (cost(), own(Some(5), None), (5, -100)),
        (cost(), on("spot"), (0, 0)),
        (cost(), unassigned(), (1, 0)),
    ] {
        assert_eq!(granted(&pod, &cluster(rules.clone())), expected, "{rules:?} {pod:?}");
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
    let by_priority = || in_pool("hybrid", gives(1));
    let by_cost = || in_pool("hybrid", costs(1));
    let table = [
        ("no rules", vec![], ""),
        ("empty rule", vec![gives(1)], ""),
        ("unassigned only", vec![with("unassigned")], ""),
        ("never matches", vec![NodePriority { unassigned: Some(true), ..by_priority() }], ""),
        ("priority", vec![by_priority()], "has-cost unread"),
        ("cost", vec![by_cost()], "has-priority unread"),
        ("both", vec![by_priority(), by_cost()], "has-cost has-priority unread"),
        ("cordoned", vec![with("cordoned")], "has-cost unread"),
        ("taint", vec![with("tainted spot")], "has-cost unread"),
        ("assigned", vec![with("assigned")], "has-cost unread"),
    ];
    for (name, rules, expected) in table {
        let cluster = cluster(rules);
        let missing = cluster.pods(&pods).missing_nodes(&cluster.rules, &cluster.nodes);
        assert_eq!(missing.iter().map(Arc::as_ref).collect::<Vec<_>>().join(" "), expected, "{name}");
    }
}

#[test]
fn the_example_of_the_documentation_holds() {
    let rules = vec![
        in_pool("hybrid", costs(-100)),
        NodePriority { taint_keys: Some(vec!["spot".to_owned()]), ..gives(10) },
        NodePriority { unschedulable: Some(true), ..gives(50) },
        NodePriority { unassigned: Some(true), ..gives(60) },
    ];
    let mut cluster = cluster(rules);
    cluster.nodes.insert("plain".into(), Some(node("inference", false, &[])));
    // From the last place to the first.
    let pods = [
        on("plain"),
        on("hybrid"),
        Facts { ready: false, ..on("plain") },
        on("spot"),
        on("cordoned"),
        unassigned(),
    ];
    let order = cluster.order(&pods);
    assert_eq!(order.indices(), [5, 4, 3, 2, 1, 0]);
    let key = |index: &usize| order.key(*index);
    let pairs = order.indices().windows(2);
    let rules: Vec<_> = pairs.filter_map(|pair| reason(key(&pair[0]), key(&pair[1]))).collect();
    let by_priority = Rule::DeletePriority;
    assert_eq!(rules, [by_priority, by_priority, by_priority, Rule::NotReady, Rule::DeletionCost]);
}
