//! `cargo bench -p ordereddeployment-sorter`: how long the order of many pods takes, with their ranks and
//! node rules. The fastest of several runs counts.

use std::hint::black_box;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ordereddeployment_sorter::{Facts, Grant, NodeFacts, NodeRule, Nodes, Phase, Pods, Requirement};

/// The time of the decision, in seconds.
const NOW: i64 = 1_800_000_000;
const RUNS: usize = 40;

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn i32(&mut self, bound: u64) -> i32 {
        i32::try_from(self.below(bound)).unwrap_or(0)
    }

    fn uid(&mut self) -> String {
        let mut part = |bits: u32| self.below(1 << bits.min(31));
        format!("{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}", part(31) * 2, part(16), part(12), part(12), part(31))
    }
}

fn pod(numbers: &mut Numbers, nodes: u64) -> Facts {
    let created = NOW - i64::from(numbers.i32(1_000_000));
    let at = |second| Timestamp::from_second(second).ok();
    Facts {
        uid: numbers.uid().into(),
        node: Some(format!("worker-{:05}", numbers.below(nodes)).into()),
        phase: Phase::Running,
        ready: numbers.below(50) > 0,
        ready_since: at(created + 5),
        created: at(created),
        restarts: if numbers.below(20) == 0 { numbers.i32(4) } else { 0 },
        sidecar_restarts: 0,
        priority: (numbers.below(3) == 0).then(|| numbers.i32(10) - 5),
        cost: None,
    }
}

fn rules() -> Vec<NodeRule> {
    let pool = |value: &str, grant| NodeRule {
        requirements: vec![Requirement::In { key: "pool".to_owned(), values: vec![value.to_owned()] }],
        unschedulable: None,
        taint_keys: Vec::new(),
        unassigned: None,
        grant,
    };
    vec![pool("hybrid", Grant::Cost(-100)), pool("spot", Grant::Priority(2))]
}

fn nodes(count: u64) -> Nodes {
    let pools = ["inference", "hybrid", "spot"].into_iter().cycle();
    let node =
        |pool: &str| NodeFacts { labels: [("pool".into(), pool.into())].into(), ..NodeFacts::default() };
    (0..count).zip(pools).map(|(at, pool)| (format!("worker-{at:05}").into(), Some(node(pool)))).collect()
}

fn fastest<T>(mut run: impl FnMut() -> T) -> Duration {
    let times = (0..RUNS).map(|_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

fn main() {
    println!("|    pods | node rules | time |");
    println!("|---|---|---|");
    let now = Timestamp::from_second(NOW).unwrap_or_default();
    for count in [1_000, 10_000, 100_000] {
        let mut numbers = Numbers(count);
        let pods: Vec<Facts> = (0..count).map(|_| pod(&mut numbers, count / 10)).collect();
        let nodes = nodes(count / 10);
        for rules in [Vec::new(), rules()] {
            let time = fastest(|| {
                let mut all = Pods::new(now).with_room_for(pods.len());
                for pod in &pods {
                    all.add(pod);
                }
                all.order(&rules, &nodes).indices().len()
            });
            println!("| {count} | {} | {time:.2?} |", rules.len());
        }
    }
}
