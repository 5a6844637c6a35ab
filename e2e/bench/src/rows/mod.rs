//! The rows: what is measured, and how.

mod latency;
mod rest;
mod rollout;
mod takeover;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use scenarios::TestCluster;
use scenarios::real::Mark;
use serde_json::json;

use crate::cluster::{Cluster, Shape};
use crate::contender::Contender;
use crate::results::{How, Measured, Outcome, count};
use crate::workload::Bounds;

/// How many pods are annotated at the same time.
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
    /// The leader is killed when there is work to do.
    Failover,
    /// From a watch event to the request that answers it.
    Latency,
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
    let failover = "The leader is killed (lease of 15 s): time until the first write of the other replica";
    let memory = Work::Rest { objects: 1, pods: 100, minutes: 1 };
    let rest = Work::Rest { objects: 10_000, pods: 1, minutes: 10 };
    let beside_10k = Shape { others: 10_000, room: 5000 };
    let beside_50k = Shape { others: 50_000, ..beside_10k };
    let many = Shape { room: 25_000, ..SHAPE };
    vec![
        row("strict-100", "Strict rollout (maxSurge 1, maxUnavailable 0), 100 pods", strict(100)),
        row("strict-400", "Strict rollout, 400 pods", strict(400)),
        row("strict-1600", "Strict rollout, 1,600 pods", strict(1600)).once(),
        row("bulk-1000", "Bulk rollout (maxSurge 25%, maxUnavailable 25%), 1,000 pods", bulk),
        row("creation-400", "First creation, 400 pods", Work::Creation { pods: 400 }),
        row("latency", "Time from the event that shows a pod ready to the next DELETE", Work::Latency)
            .of(&[Contender::Ours]),
        row("failover", failover, Work::Failover).of(&BOTH),
        row("memory-10k", "One object of 100 pods at rest beside 10,000 other pods", memory)
            .of(&BOTH)
            .on(beside_10k)
            .once(),
        row("memory-50k", "One object of 100 pods at rest beside 50,000 other pods", memory)
            .of(&BOTH)
            .on(beside_50k)
            .once(),
        row("restart-50k", "Start beside 50,000 other pods: time until the first write", Work::Restart)
            .of(&BOTH)
            .on(beside_50k)
            .once(),
        row("rest", "10,000 objects of one pod at rest, for 10 minutes", rest).of(&BOTH).on(many).once(),
        row("plain-strict-100", "Strict rollout, 100 pods of a plain Deployment", strict(100))
            .of(&Contender::OF_PLAIN),
        row("plain-bulk-1000", "Bulk rollout, 1,000 pods of a plain Deployment", bulk)
            .of(&Contender::OF_PLAIN),
    ]
}

const BOTH: [Contender; 2] = [Contender::Ours, Contender::BuiltIn];
const SHAPE: Shape = Shape { others: 0, room: 3000 };

/// A row that compares all contenders on a small control plane.
fn row(name: &'static str, question: &'static str, work: Work) -> Row {
    Row { name, question, shape: SHAPE, large: false, work, contenders: &Contender::ALL }
}

impl Row {
    fn of(self, contenders: &'static [Contender]) -> Self {
        Self { contenders, ..self }
    }

    fn on(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    /// It takes long: only `--large` measures it, in one round.
    fn once(self) -> Self {
        Self { large: true, ..self }
    }

    /// Measures it: all contenders in turn, in alternating order.
    pub async fn measure(&self, cluster: &Cluster, how: How) -> Result<Measured> {
        let (name, question) = (self.name.to_owned(), self.question.to_owned());
        let rounds = how.rounds;
        let mut measured = Measured { name, question, how, values: BTreeMap::new(), broken: BTreeMap::new() };
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
            Work::Failover => run.failover().await,
            Work::Latency => run.latency().await,
        }
    }

    fn show(&self, contender: Contender, outcome: &Outcome) {
        match outcome {
            Outcome::Kept(values) => {
                for (metric, value) in values {
                    eprintln!("{}: {contender}, {}: {value:.2}", self.name, metric.title());
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

/// Annotates these pods of a namespace, each with its value.
async fn annotate(
    test_cluster: &TestCluster,
    key: &str,
    values: impl IntoIterator<Item = (String, String)>,
) -> Result<()> {
    let pods: &Api<Pod> = &Api::namespaced(test_cluster.client.clone(), &test_cluster.namespace);
    let annotate = async |(name, value): (String, String)| -> Result<()> {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        let done = pods.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        done.map(drop).with_context(|| format!("cannot annotate {name}"))
    };
    stream::iter(values).map(annotate).buffer_unordered(PARALLEL).try_collect().await
}

fn rate(pods: usize, begin: Instant, end: Instant) -> f64 {
    count(pods) / end.duration_since(begin).as_secs_f64()
}
