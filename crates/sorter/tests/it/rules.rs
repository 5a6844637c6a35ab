//! A table per rule: which pod sorts first, by which rule, and the text of the reason.

use jiff::Timestamp;
use ordereddeployment_api::NodePriority;
use ordereddeployment_sorter::{Facts, NodeFacts, Phase, Rule, reason, why};

use crate::generate::{Cluster, ago, pod, seconds};

/// A plain pod with these changes: `priority=5 node=- ready-for=5s`. A time is an age: in seconds with an
/// `s`, or in nanoseconds, which may be a power of two and one less.
fn changed(uid: &str, changes: &str) -> Facts {
    let mut pod = pod(uid);
    for (name, value) in changes.split_whitespace().map(|change| change.split_once('=').unwrap()) {
        let number = || value.parse::<i32>().unwrap();
        match name {
            "priority" => pod.priority = Some(number()),
            "cost" => pod.cost = Some(number()),
            "node" => pod.node = (value != "-").then(|| value.into()),
            "phase" => pod.phase = Phase::of(value),
            "ready" => pod.ready = value == "yes",
            "ready-for" => pod.ready_since = time(value),
            "age" => pod.created = time(value),
            "restarts" => pod.restarts = number(),
            "sidecar-restarts" => pod.sidecar_restarts = number(),
            _ => panic!("no change: {name}"),
        }
    }
    pod
}

fn time(age: &str) -> Option<Timestamp> {
    let power = |text: &str| 1_i128 << text.parse::<u32>().unwrap();
    match (age.strip_prefix("2^"), age.strip_suffix('s')) {
        _ if age == "none" => None,
        _ if age == "longest" => Some(Timestamp::MIN),
        (Some(text), _) => match text.strip_suffix("-1") {
            Some(text) => ago(power(text) - 1),
            None => ago(power(text)),
        },
        (_, Some(text)) => ago(seconds(text.parse().unwrap())),
        _ => ago(age.parse().unwrap()),
    }
}

/// A line of the table is `first pod | other pod | text`. The first pod has the larger UID and is second in
/// the input, so that no line succeeds by rule 9 or by chance.
fn check(cluster: &Cluster, rule: Rule, table: &str) {
    for line in table.trim().lines() {
        let [one, other, words] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("no line: {line}")
        };
        let pods = [changed("a", other), changed("z", one)];
        let order = cluster.order(&pods);
        assert_eq!(order.indices(), [1, 0], "{line}");
        let (first, second) = (order.key(1), order.key(0));
        assert_eq!(reason(first, second), Some(rule), "{line}");
        assert_eq!(reason(second, first), None, "{line}");
        let why = why(&pods[1], first, Some(second));
        let text = match rule {
            Rule::DeletePriority => words.to_owned(),
            _ => format!("priority 0, {words}"),
        };
        assert_eq!((why.rule, why.to_string()), (Some(rule), text));
    }
}

#[test]
fn each_rule_decides_by_its_values_before_the_rules_below_it() {
    let tables = [
        // The larger delete priority is first, and a missing one is 0. A crashing pod of a lower priority
        // stays.
        (
            Rule::DeletePriority,
            "priority=5 | | priority 5 > 0
             priority=5 | priority=3 | priority 5 > 3
             | priority=-1 | priority 0 > -1
             priority=2147483647 | priority=-2147483648 | priority 2147483647 > -2147483648
             priority=1 | node=- | priority 1 > 0
             priority=1 | cost=-9 | priority 1 > 0
             priority=5 | ready=no restarts=100 | priority 5 > 0",
        ),
        (
            Rule::Unassigned,
            "node=- | | no node
             node=- | phase=Pending | no node
             node=- cost=100 | | no node",
        ),
        (
            Rule::Phase,
            "phase=Pending | | Pending before Running
             phase=Pending | phase=Unknown | Pending before Unknown
             phase=Unknown | | Unknown before Running
             phase=Unknown | ready=no | Unknown before Running",
        ),
        (
            Rule::NotReady,
            "ready=no age=9000s | | not ready
             ready=no | cost=-100 | not ready",
        ),
        // The lower deletion cost is first, and a missing one is 0.
        (
            Rule::DeletionCost,
            "cost=-100 | | cost -100 < 0
             | cost=1 | cost 0 < 1
             cost=-2147483648 | cost=2147483647 | cost -2147483648 < 2147483647
             cost=-1 | ready-for=1 | cost -1 < 0",
        ),
        // A pod that is ready for less time is first, by buckets.
        (
            Rule::ReadyTime,
            "ready-for=5s | | ready for less time
             ready-for=none | ready-for=-5 | no ready time
             ready-for=0 | ready-for=1 | ready for less time
             ready-for=-7s | ready-for=1 | ready for less time
             ready-for=1 | ready-for=2 | ready for less time
             ready-for=2^37-1 | ready-for=2^37 | ready for less time
             ready-for=5s | restarts=9 | ready for less time",
        ),
        // Restarts decide between ready times of one bucket; now and the future share one. The time of
        // turning unready is not compared.
        (
            Rule::Restarts,
            "restarts=3 | restarts=1 | restarts 3 > 1
             restarts=1 | sidecar-restarts=9 | restarts 1 > 0
             restarts=1 | age=1 | restarts 1 > 0
             restarts=1 ready-for=2^38-1 | ready-for=2^37 | restarts 1 > 0
             restarts=1 ready-for=0 | ready-for=-60s | restarts 1 > 0
             restarts=1 ready=no | ready=no ready-for=1 | restarts 1 > 0",
        ),
        (
            Rule::SidecarRestarts,
            "sidecar-restarts=2 | | sidecar restarts 2 > 0
             sidecar-restarts=1 | age=1 | sidecar restarts 1 > 0",
        ),
        // The newer pod is first, by buckets.
        (
            Rule::CreationTime,
            "age=5s | | newer
             age=none | age=-5 | no creation time
             age=0 | age=1 | newer
             age=2^37-1 | age=2^37 | newer",
        ),
    ];
    for (rule, table) in tables {
        check(&Cluster::plain(), rule, table);
    }
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
fn rule_5_pod_that_shares_its_node_is_before_pod_alone() {
    let related = ["n1", "n2", "n2", "n2", "n3", "-", "-"];
    let related = related.map(|node| changed("r", &format!("node={node}")));
    let cluster = Cluster { related: related.to_vec(), ..Cluster::plain() };
    check(
        &cluster,
        Rule::Rank,
        "node=n2 | | pods on its node 4 > 2
         node=n2 | node=n3 | pods on its node 4 > 2
         | node=elsewhere | pods on its node 2 > 1
         node=n2 | ready-for=1 | pods on its node 4 > 2",
    );
}

#[test]
fn the_longest_age_has_a_bucket() {
    let cluster = Cluster { now: Timestamp::MAX, ..Cluster::plain() };
    check(&cluster, Rule::ReadyTime, "| ready-for=longest | ready for less time");
}

#[test]
fn rule_9_smaller_uid_is_first_bytewise() {
    let cluster = Cluster::plain();
    for pair in ["", "0", "B", "a", "aa", "b", "é"].windows(2) {
        // Creation times of one bucket are left to the UID too.
        let first = Facts { created: ago((1 << 38) - 1), ..pod(pair[0]) };
        let pods = [first, Facts { created: ago(1 << 37), ..pod(pair[1]) }];
        let order = cluster.order(&pods);
        let (first, second) = (order.key(0), order.key(1));
        assert!(first < second, "{pair:?}");
        assert_eq!(reason(first, second), Some(Rule::Uid));
        assert_eq!(why(&pods[0], first, Some(second)).to_string(), "priority 0, tie: UID");
        assert_eq!(reason(first, first), None);
        assert_eq!(why(&pods[1], second, Some(first)).rule, None);
    }
}

/// Each reason begins with the pod's own priority, so that the pods of the first block say why they are
/// first.
#[test]
fn a_reason_begins_with_the_own_priority_and_its_source() {
    let assigned = NodePriority { unassigned: Some(false), priority: Some(50), ..NodePriority::default() };
    let nodes = [("n1".into(), Some(NodeFacts::default()))].into();
    let cluster = Cluster { rules: vec![assigned], nodes, ..Cluster::plain() };
    let own = |uid, priority| Facts { priority: Some(priority), ..pod(uid) };
    let without_node = Facts { node: None, ..pod("g") };
    let pods = [own("a", 50), pod("b"), own("c", 5), own("d", 5), without_node, own("f", 0), own("e", -1)];
    let order = cluster.order(&pods);
    assert!(order.indices().is_sorted());
    let next = |at: usize| (at + 1 < pods.len()).then(|| order.key(at + 1));
    let texts: Vec<_> =
        (0..).zip(&pods).map(|(at, pod)| why(pod, order.key(at), next(at)).to_string()).collect();
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
