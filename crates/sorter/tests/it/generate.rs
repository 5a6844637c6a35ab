//! Pods for the tests: a plain pod, and random ones with few values, so that ties reach every rule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::{LabelSelector, NodePriority};
use ordereddeployment_sorter::{Facts, NodeFacts, Nodes, Order, Phase, Pods};
use proptest::prelude::*;

/// The time of the decisions in the tests.
const NOW: i128 = 1_800_000_000_000_000_000;

/// A time this many nanoseconds before the decision.
#[allow(clippy::unnecessary_wraps, reason = "every reader wants an optional time")]
pub(crate) fn ago(ns: i128) -> Option<Timestamp> {
    Some(Timestamp::from_nanosecond(NOW - ns).unwrap())
}

pub(crate) fn seconds(seconds: i128) -> i128 {
    seconds * 1_000_000_000
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

/// What the order depends on besides the pods.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) now: Timestamp,
    pub(crate) rules: Vec<NodePriority>,
    pub(crate) nodes: Nodes,
    pub(crate) related: Vec<Facts>,
    /// How many pods each node runs, for the reference.
    pub(crate) ranks: BTreeMap<Arc<str>, u32>,
}

impl Cluster {
    /// Without node rules and related pods.
    pub(crate) fn plain() -> Self {
        let (rules, nodes, related, ranks) = (Vec::new(), Nodes::new(), Vec::new(), BTreeMap::new());
        Self { now: ago(0).unwrap(), rules, nodes, related, ranks }
    }

    /// The same, where these pods are counted.
    pub(crate) fn counting(&self, pods: &[Facts]) -> Self {
        let mut counting = self.clone();
        for node in pods.iter().chain(&self.related).filter_map(|pod| pod.node.as_ref()) {
            *counting.ranks.entry(Arc::clone(node)).or_default() += 1;
        }
        counting
    }

    pub(crate) fn pods<'a>(&'a self, pods: &'a [Facts]) -> Pods<'a> {
        let mut all = Pods::new(self.now);
        for pod in pods {
            all.add(pod);
        }
        for pod in &self.related {
            all.add_related(pod);
        }
        all
    }

    pub(crate) fn order(&self, pods: &[Facts]) -> Order {
        self.pods(pods).order(&self.rules, &self.nodes)
    }

    /// The bucket of an age: its logarithm, and one less for now and the future; a missing time is first.
    pub(crate) fn bucket(&self, time: Option<Timestamp>) -> Option<i64> {
        let age = self.now.as_nanosecond() - time?.as_nanosecond();
        Some(age.checked_ilog2().map_or(-1, i64::from))
    }
}

fn time() -> impl Strategy<Value = Option<Timestamp>> {
    let ends = [Timestamp::MIN, Timestamp::MAX, Timestamp::UNIX_EPOCH];
    prop_oneof![
        1 => Just(None),
        1 => prop::sample::select(ends.to_vec()).prop_map(Some),
        // Around the epoch, where seconds and their fractions change their signs.
        1 => (-2_000_000_000_i128..2_000_000_000).prop_map(|ns| Timestamp::from_nanosecond(ns).ok()),
        // Both sides of a power of two of nanoseconds, and of now.
        6 => (prop::sample::select(vec![-2_i128, 0, 1, 2, 1 << 36, 1 << 37, 1 << 40]), -1_i128..=1)
            .prop_map(|(age, off)| ago(age + off)),
        1 => (0..61_u32, -1_i128..=1).prop_map(|(power, off)| ago((1_i128 << power) + off)),
        3 => (0_i128..12).prop_map(|minutes| ago(seconds(20 * minutes))),
    ]
}

fn number() -> impl Strategy<Value = i32> {
    prop_oneof![
        6 => -1..2_i32,
        1 => prop::sample::select(vec![i32::MIN, i32::MIN + 1, i32::MAX - 1, i32::MAX]),
        1 => any::<i32>(),
    ]
}

prop_compose! {
    /// A random pod that is often plain in what the upper rules read, so that the lower ones decide.
    fn facts()(
        uid in "[a-eB]{1,2}",
        node in prop::sample::select(vec![None, Some("n1"), Some("n1"), Some("n2"), Some("gone")]),
        phase in prop::sample::select(vec![Phase::Pending, Phase::Unknown, Phase::Running, Phase::Running]),
        ready in prop::bool::weighted(0.7),
        (ready_since, created) in (time(), time()),
        (restarts, sidecar_restarts) in (number(), number()),
        (priority, cost) in (prop::option::of(number()), prop::option::of(number())),
        is_plain in prop::bool::weighted(0.6),
        is_steady in any::<bool>(),
    ) -> Facts {
        let mut facts = Facts {
            uid: uid.as_str().into(), node: node.map(Arc::from), phase, ready, ready_since, created, restarts,
            sidecar_restarts, priority, cost,
        };
        if is_plain {
            facts = Facts { ready_since, created, restarts, sidecar_restarts, ..pod(&uid) };
        }
        if is_steady {
            (facts.restarts, facts.sidecar_restarts) = (0, 0);
        }
        facts
    }
}

/// Random pods. Some have one UID.
pub(crate) fn pods() -> impl Strategy<Value = Vec<Facts>> {
    prop::collection::vec(facts(), 0..20)
}

/// Selects the nodes of this pool.
pub(crate) fn in_pool(pool: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some([("pool".to_owned(), pool.to_owned())].into()),
        ..LabelSelector::default()
    }
}

prop_compose! {
    fn rule()(
        pool in prop::sample::select(vec![None, Some("hybrid"), Some("inference")]),
        unschedulable in prop::sample::select(vec![None, None, Some(true), Some(false)]),
        tainted in any::<bool>(),
        unassigned in prop::sample::select(vec![None, None, Some(true), Some(false)]),
        (grants_priority, number) in (any::<bool>(), -1..2_i32),
    ) -> NodePriority {
        NodePriority {
            node_selector: pool.map(in_pool),
            unschedulable,
            taint_keys: tainted.then(|| vec!["spot".to_owned()]),
            unassigned,
            priority: grants_priority.then_some(number),
            deletion_cost: (!grants_priority).then_some(number),
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
    /// Random node rules and related pods, at any time.
    pub(crate) fn cluster()(
        time in prop_oneof![3 => Just(None), 1 => time()],
        rules in prop::collection::vec(rule(), 0..3),
        cordoned in any::<bool>(),
        related in prop::collection::vec(facts(), 0..8),
    ) -> Cluster {
        let nodes = [
            ("n1".into(), Some(node("hybrid", cordoned, &[]))),
            ("n2".into(), Some(node("inference", false, &["spot"]))),
            ("gone".into(), None),
        ];
        let plain = Cluster::plain();
        Cluster { now: time.unwrap_or(plain.now), rules, nodes: nodes.into(), related, ..plain }
    }
}
