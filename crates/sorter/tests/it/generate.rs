//! Pods for the tests: a plain pod, and random ones with few values, so that ties reach every rule.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_sorter::{
    Context, Facts, Grant, NodeFacts, NodeRule, Nodes, Phase, Ranks, Requirement,
};
use proptest::prelude::*;

/// The time of every decision in the tests.
pub(crate) const NOW: i128 = 1_800_000_000_000_000_000;

/// A time this many nanoseconds before the decision.
#[allow(clippy::unnecessary_wraps, reason = "every reader wants an optional time")]
pub(crate) fn ago(ns: i128) -> Option<Timestamp> {
    Some(Timestamp::from_nanosecond(NOW - ns).unwrap())
}

pub(crate) fn seconds(seconds: i128) -> i128 {
    seconds * 1_000_000_000
}

pub(crate) fn now() -> Option<Timestamp> {
    ago(0)
}

/// A running and ready pod that differs from other ones only by its UID.
pub(crate) fn pod(uid: &str) -> Facts {
    Facts {
        uid: uid.into(),
        node: Some("n1".into()),
        phase: Phase::Running,
        ready: true,
        ready_since: ago(seconds(100)),
        created: ago(seconds(100)),
        restarts: 0,
        sidecar_restarts: 0,
        priority: None,
        cost: None,
    }
}

/// Everything that a context borrows.
#[derive(Clone, Debug)]
pub(crate) struct ContextData {
    pub(crate) now: Option<Timestamp>,
    pub(crate) rules: Vec<NodeRule>,
    pub(crate) nodes: Nodes,
    pub(crate) ranks: Ranks,
}

impl ContextData {
    /// A decision without node rules and related pods.
    pub(crate) fn plain() -> Self {
        Self { now: now(), rules: Vec::new(), nodes: Nodes::new(), ranks: Ranks::none() }
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context { now: self.now, rules: &self.rules, nodes: &self.nodes, ranks: &self.ranks }
    }
}

fn time() -> impl Strategy<Value = Option<Timestamp>> {
    prop_oneof![
        1 => Just(None),
        // Both sides of a power of two of nanoseconds, and of now.
        6 => (prop::sample::select(vec![-2_i128, 0, 1, 2, 1 << 36, 1 << 37, 1 << 40]), -1_i128..=1)
            .prop_map(|(age, off)| ago(age + off)),
        3 => (0_i128..12).prop_map(|minutes| ago(seconds(20 * minutes))),
    ]
}

fn annotation() -> impl Strategy<Value = Option<i32>> {
    prop::sample::select(vec![None, None, Some(0), Some(1), Some(-1), Some(i32::MAX), Some(i32::MIN)])
}

prop_compose! {
    /// A random pod, with one of a few UIDs.
    pub(crate) fn facts()(
        uid in prop::sample::select(vec!["a", "b", "c", "d", "e", "aa", "B"]),
        node in prop::sample::select(vec![None, Some("n1"), Some("n1"), Some("n2"), Some("gone")]),
        phase in prop::sample::select(vec![Phase::Pending, Phase::Unknown, Phase::Running, Phase::Running]),
        ready in prop::bool::weighted(0.7),
        ready_since in time(),
        created in time(),
        restarts in 0..2_i32,
        sidecar_restarts in 0..2_i32,
        priority in annotation(),
        cost in annotation(),
    ) -> Facts {
        Facts {
            uid: uid.into(), node: node.map(Arc::from), phase, ready, ready_since, created, restarts,
            sidecar_restarts, priority, cost,
        }
    }
}

/// A random pod that is often equal to `plain` in what the upper rules read, so that the lower ones decide.
pub(crate) fn like_others() -> impl Strategy<Value = Facts> {
    (facts(), prop::bool::weighted(0.6)).prop_map(|(mut random, alike)| {
        if alike {
            random.phase = Phase::Running;
            random.ready = true;
            random.priority = None;
            random.cost = None;
            random.node = Some("n1".into());
        }
        random
    })
}

/// Random pods with distinct UIDs.
pub(crate) fn distinct(up_to: usize) -> impl Strategy<Value = Vec<Facts>> {
    (prop::collection::vec(like_others(), 0..=up_to), any::<u64>()).prop_map(|(mut pods, salt)| {
        for (place, pod) in pods.iter_mut().enumerate() {
            // Not in the order of generation.
            let mixed = (place as u64 ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            pod.uid = format!("{mixed:016x}").into();
        }
        pods
    })
}

prop_compose! {
    fn rule()(
        pool in prop::sample::select(vec![None, Some("hybrid"), Some("inference")]),
        unschedulable in prop::sample::select(vec![None, None, Some(true), Some(false)]),
        tainted in any::<bool>(),
        unassigned in prop::sample::select(vec![None, None, Some(true), Some(false)]),
        grant in prop_oneof![(-1..2_i32).prop_map(Grant::Priority), (-1..2_i32).prop_map(Grant::Cost)],
    ) -> NodeRule {
        NodeRule {
            requirements: pool.map(|value| Requirement::In {
                key: "pool".to_owned(),
                values: vec![value.to_owned()],
            }).into_iter().collect(),
            unschedulable,
            taint_keys: if tainted { vec!["spot".to_owned()] } else { Vec::new() },
            unassigned,
            grant,
        }
    }
}

pub(crate) fn node(pool: &str, unschedulable: bool, taints: &[&str]) -> NodeFacts {
    NodeFacts {
        labels: [("pool".to_owned(), pool.to_owned())].into(),
        unschedulable,
        taint_keys: taints.iter().map(ToString::to_string).collect::<BTreeSet<_>>(),
    }
}

prop_compose! {
    /// A random decision: with or without a clock, node rules and ranks of related pods.
    pub(crate) fn context_data()(
        clock in prop::bool::weighted(0.8),
        rules in prop::collection::vec(rule(), 0..3),
        cordoned in any::<bool>(),
        related in prop::option::of(prop::collection::vec(facts(), 0..8)),
    ) -> ContextData {
        ContextData {
            now: if clock { now() } else { None },
            rules,
            nodes: [
                ("n1".into(), Some(node("hybrid", cordoned, &[]))),
                ("n2".into(), Some(node("inference", false, &["spot"]))),
                ("gone".into(), None),
            ].into(),
            ranks: related.map_or_else(Ranks::none, |related| Ranks::of(&related)),
        }
    }
}
