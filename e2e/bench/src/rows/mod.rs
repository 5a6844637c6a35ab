//! The rows: what is measured, and how.

mod rest;
mod rollout;

use std::time::Instant;

use anyhow::{Context, Result};
use scenarios::TestCluster;
use scenarios::real::Mark;

use crate::cluster::{Cluster, Shape};
use crate::contender::Contender;
use crate::results::{Measured, Outcome, count};
use crate::workload::Bounds;

/// How many objects or pods a row writes at the same time.
const PARALLEL: usize = 16;

/// What a row does.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// All pods of one object are created.
    Creation { pods: usize },
    /// All pods of one object are replaced.
    Rollout { pods: usize, bounds: Bounds, priorities: Priorities },
    /// That many objects, and nothing changes.
    Rest { objects: usize, pods: usize, minutes: u64 },
    /// The controller starts when there is work to do.
    Restart,
}

/// Which priorities the pods of an OrderedDeployment get. The other contenders have no order.
#[derive(Clone, Copy, Debug)]
enum Priorities {
    /// Each pod has its own.
    Own,
    /// Groups of pods have the same.
    Groups(usize),
}

/// A row of the report.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    pub question: &'static str,
    pub shape: Shape,
    /// Whether only `--large` measures it, in one round.
    pub large: bool,
    work: Work,
    contenders: &'static [Contender],
}

/// One run of one contender.
struct Run<'a> {
    cluster: &'a Cluster,
    /// Its own namespace.
    test_cluster: TestCluster,
    contender: Contender,
}

/// All rows, in the order of the report.
pub fn rows() -> Vec<Row> {
    let strict = |pods| Work::Rollout { pods, bounds: Bounds::STRICT, priorities: Priorities::Own };
    let bulk =
        Work::Rollout { pods: 1000, bounds: Bounds::quarter(1000), priorities: Priorities::Groups(10) };
    let memory = Work::Rest { objects: 1, pods: 100, minutes: 1 };
    let rest = Work::Rest { objects: 10_000, pods: 1, minutes: 10 };
    let beside_10k = Shape { others: 10_000, room: 5000 };
    let beside_50k = Shape { others: 50_000, ..beside_10k };
    let many = Shape { room: 25_000, ..SHAPE };
    vec![
        row("strict-100", "Strict rollout (maxSurge 1, maxUnavailable 0), 100 pods", strict(100)),
        row("strict-400", "Strict rollout, 400 pods", strict(400)),
        Row { large: true, ..row("strict-1600", "Strict rollout, 1,600 pods", strict(1600)) },
        row("bulk-1000", "Bulk rollout (maxSurge 25%, maxUnavailable 25%), 1,000 pods", bulk),
        row("creation-400", "First creation, 400 pods", Work::Creation { pods: 400 }),
        row("memory-10k", "One object of 100 pods at rest beside 10,000 other pods", memory).on(beside_10k),
        row("memory-50k", "One object of 100 pods at rest beside 50,000 other pods", memory).on(beside_50k),
        row("restart-50k", "Start beside 50,000 other pods: time until the first write", Work::Restart)
            .on(beside_50k),
        row("rest", "10,000 objects of one pod at rest, for 10 minutes", rest).on(many),
    ]
}

const BOTH: [Contender; 2] = [Contender::Ours, Contender::BuiltIn];
const SHAPE: Shape = Shape { others: 0, room: 3000 };

/// A row that compares all contenders on a small control plane.
fn row(name: &'static str, question: &'static str, work: Work) -> Row {
    Row { name, question, shape: SHAPE, large: false, work, contenders: &Contender::ALL }
}

impl Row {
    /// A large row, on a control plane of its own, of the two that are controllers.
    fn on(self, shape: Shape) -> Self {
        Self { shape, large: true, contenders: &BOTH, ..self }
    }

    /// Measures it: all contenders in turn, in alternating order.
    pub async fn measure(&self, cluster: &Cluster, rounds: u16) -> Result<Measured> {
        let mut measured = Measured { question: self.question, ..Measured::default() };
        for round in 0..rounds {
            let mut contenders = self.contenders.to_vec();
            if round % 2 == 1 {
                contenders.reverse();
            }
            for contender in contenders {
                let namespace = format!("{}-{round}-{contender:?}", self.name).to_lowercase();
                let test_cluster = cluster.test_cluster.apart(&namespace).await?;
                let run = Run { cluster, test_cluster, contender };
                let outcome = self.run(&run).await;
                let outcome =
                    outcome.with_context(|| format!("{}, {contender}, round {}", self.name, round + 1))?;
                self.show(contender, &outcome);
                measured.add(contender, outcome);
                cluster.remove(&run.test_cluster).await?;
            }
        }
        Ok(measured)
    }

    async fn run(&self, run: &Run<'_>) -> Result<Outcome> {
        match self.work {
            Work::Creation { pods } => run.creation(pods).await,
            Work::Rollout { pods, bounds, priorities } => run.rollout(pods, bounds, priorities).await,
            Work::Rest { objects, pods, minutes } => run.rest(objects, pods, minutes).await,
            Work::Restart => run.restart().await,
        }
    }

    fn show(&self, contender: Contender, outcome: &Outcome) {
        match outcome {
            Outcome::Kept(values) => {
                for (metric, value) in values {
                    eprintln!("{}: {contender}, {metric}: {value:.2}", self.name);
                }
            }
            Outcome::Broken(promise) => eprintln!("{}: {contender}: no result: {promise}", self.name),
        }
    }
}

impl Run<'_> {
    fn mark(&self) -> Result<Mark> {
        self.cluster.plane()?.mark()
    }
}

fn rate(pods: usize, begin: Instant, end: Instant) -> f64 {
    count(pods) / end.duration_since(begin).as_secs_f64()
}
