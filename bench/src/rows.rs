//! The rows: what is measured, how, and what each run must keep.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::World;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use ordereddeployment_api::names::annotation;
use serde::Serialize;
use serde_json::json;

use crate::cluster::Cluster;
use crate::contender::{Bounds, Contender, NAME};
use crate::null;
use crate::observer::{Observer, State};
use crate::process::Process;

/// How many pods the controller deletes in parallel: within these the order of the responses is open.
const PARALLEL: usize = 16;

/// What a row does.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// All pods are created.
    Creation,
    /// All pods are replaced.
    Rollout(Bounds),
    /// All pods are created and half of them deleted, while that many other pods exist.
    Beside(i32),
}

/// A row of the report.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    question: String,
    work: Work,
    replicas: i32,
    ready_delay: Duration,
    contenders: Vec<Contender>,
}

/// A value that a row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    PodsPerSecond,
    RequestsPerPod,
    WastedCreates,
    /// The rate of the last tenth, divided by that of the whole rollout.
    LastTenth,
    CpuSeconds,
    ResidentMib,
}

impl Metric {
    /// As the report shows it.
    pub fn title(self) -> &'static str {
        match self {
            Self::PodsPerSecond => "pods/s",
            Self::RequestsPerPod => "requests a pod",
            Self::WastedCreates => "wasted creates",
            Self::LastTenth => "rate of the last tenth / of all",
            Self::CpuSeconds => "CPU, s",
            Self::ResidentMib => "RSS, MiB",
        }
    }
}

/// The results of a row.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub name: String,
    pub question: String,
    /// All values, in the order of the rounds.
    pub values: BTreeMap<Metric, BTreeMap<Contender, Vec<f64>>>,
}

/// All rows, the short ones first.
pub fn rows(large: bool) -> Vec<Row> {
    use Contender::{BuiltIn, Null, Ours};
    let strict = Work::Rollout(Bounds::STRICT);
    let row = |name: &str, question: &str, work, replicas| Row {
        name: name.to_owned(),
        question: question.to_owned(),
        work,
        replicas,
        ready_delay: Duration::ZERO,
        contenders: vec![Ours, BuiltIn, Null],
    };
    let beside = |name, question, others| Row {
        contenders: vec![Ours, BuiltIn],
        ..row(name, question, Work::Beside(others), 400)
    };
    let bulk = Bounds { surge: 250, unavailable: 250 };
    let mut rows = vec![
        row("strict-100", "maxSurge 1, maxUnavailable 0, 100 pods", strict, 100),
        row("strict-400", "the same, 400 pods", strict, 400),
        Row {
            ready_delay: Duration::from_millis(200),
            ..row("strict-100-slow", "100 pods that are ready after 0.2 s", strict, 100)
        },
        row("bulk-1000", "maxSurge 25%, maxUnavailable 25%, 1,000 pods", Work::Rollout(bulk), 1000),
        row("creation-400", "the first 400 pods", Work::Creation, 400),
        beside("beside-10k", "400 creates and 200 deletes beside 10,000 other pods", 10_000),
    ];
    if large {
        rows.push(row("strict-1600", "maxSurge 1, maxUnavailable 0, 1,600 pods", strict, 1600));
        rows.push(beside("beside-50k", "400 creates and 200 deletes beside 50,000 other pods", 50_000));
    }
    rows
}

impl Row {
    /// Measures it: all contenders in turn, in alternating order.
    pub async fn measure(&self, rounds: usize) -> Result<Measured> {
        let others = if let Work::Beside(others) = self.work { others } else { 0 };
        let pods = u32::try_from(others + 2 * self.replicas)?;
        let cluster = Cluster::start(pods, self.ready_delay).await?;
        let beside = match others {
            0 => None,
            others => Some(other_pods(&cluster.world, others).await?),
        };
        let mut values: BTreeMap<Metric, BTreeMap<Contender, Vec<f64>>> = BTreeMap::new();
        for round in 0..rounds {
            let mut contenders = self.contenders.clone();
            if round % 2 == 1 {
                contenders.reverse();
            }
            for contender in contenders {
                let namespace = format!("{}-{round}-{contender:?}", self.name).to_lowercase();
                let world = cluster.world.apart(&namespace).await?;
                let measured = self.run(&cluster, &world, contender).await;
                let measured =
                    measured.with_context(|| format!("{}, {contender}, round {round}", self.name))?;
                for (metric, value) in measured {
                    eprintln!("{}: {contender}, {}: {value:.2}", self.name, metric.title());
                    values.entry(metric).or_default().entry(contender).or_default().push(value);
                }
            }
        }
        drop(beside);
        Ok(Measured { name: self.name.clone(), question: self.question.clone(), values })
    }

    async fn run(
        &self,
        cluster: &Cluster,
        world: &World,
        contender: Contender,
    ) -> Result<BTreeMap<Metric, f64>> {
        let observer = Observer::start(&world.client, &world.namespace);
        let process = match contender {
            Contender::Ours => Some(cluster.ours),
            Contender::BuiltIn => Some(cluster.built_in),
            Contender::Null => None,
        };
        let all = usize::try_from(self.replicas)?;
        let bounds = if let Work::Rollout(bounds) = self.work { bounds } else { Bounds::STRICT };
        let mut values = BTreeMap::new();
        let cpu_before = process.map(Process::cpu_seconds).transpose()?;
        let begin = Instant::now();
        contender.create(world, self.replicas, bounds).await?;
        let (_, created) = observer.until("all pods are ready", |state| state.ready_of(1) == all).await?;
        match self.work {
            Work::Creation => {
                values.insert(Metric::PodsPerSecond, rate(all, begin, created));
            }
            Work::Beside(_) => {
                contender.scale(world, self.replicas / 2).await?;
                observer.until("half of the pods are gone", |state| state.len() == all / 2).await?;
                if let Some(process) = process {
                    values.insert(Metric::ResidentMib, process.resident_mib()?);
                }
            }
            Work::Rollout(bounds) => {
                values = self.roll_out(world, &observer, contender, bounds).await?;
            }
        }
        if let (Some(process), Some(before)) = (process, cpu_before)
            && !matches!(self.work, Work::Creation)
        {
            values.insert(Metric::CpuSeconds, process.cpu_seconds()? - before);
        }
        world.clear().await?;
        observer.until("the namespace is empty", State::is_empty).await?;
        Ok(values)
    }

    async fn roll_out(
        &self,
        world: &World,
        observer: &Observer,
        contender: Contender,
        bounds: Bounds,
    ) -> Result<BTreeMap<Metric, f64>> {
        let all = usize::try_from(self.replicas)?;
        let is_serial = bounds.unavailable == 0 && bounds.surge == 1;
        let priorities = match contender {
            Contender::Ours => prioritise(world, observer).await?,
            Contender::BuiltIn | Contender::Null => BTreeMap::new(),
        };
        if contender == Contender::Ours {
            world.complete(NAME, self.replicas).await?;
        }
        observer.reset();
        let (begin, since) = (Instant::now(), Timestamp::now());
        match contender {
            Contender::Null => null::roll_out(world, observer, self.replicas, is_serial).await?,
            _ => contender.roll_out(world).await?,
        }
        let done = |state: &State| state.ready_of(2) == all && state.len() == all;
        let (state, end) = observer.until("all pods are replaced", done).await?;
        keeps_bounds(&state, all, bounds, contender)?;
        if !priorities.is_empty() {
            keeps_order(&state, &priorities, if is_serial { 1 } else { PARALLEL })?;
        }
        let mut values = BTreeMap::from([
            (Metric::PodsPerSecond, rate(all, begin, end)),
            (Metric::WastedCreates, count(state.created - all)),
        ]);
        if let Some(tenth) = all.checked_sub(all / 10).and_then(|at| state.deletions.get(at)) {
            values.insert(Metric::LastTenth, rate(all / 10, tenth.1, end) / rate(all, begin, end));
        }
        let requests = world.requests().await?;
        let sent = requests.iter().filter(|request| {
            let is_later = request.received.is_some_and(|received| received >= since);
            let inside = request.namespace.as_deref() == Some(&world.namespace);
            is_later && inside && request.verb != "watch" && contender.sent(request)
        });
        values.insert(Metric::RequestsPerPod, count(sent.count()) / count(all));
        Ok(values)
    }
}

#[allow(clippy::cast_precision_loss, reason = "these counts are small")]
fn count(number: usize) -> f64 {
    number as f64
}

fn rate(pods: usize, begin: Instant, end: Instant) -> f64 {
    count(pods) / end.duration_since(begin).as_secs_f64()
}

/// Gives every pod a priority of its own, unrelated to its name.
async fn prioritise(world: &World, observer: &Observer) -> Result<BTreeMap<String, usize>> {
    let (state, _) = observer.until("pods exist", |state| !state.is_empty()).await?;
    let all = state.len();
    // A prime that divides no number of pods here: each priority once.
    let priorities: BTreeMap<String, usize> =
        state.names().cloned().zip((0..all).map(|place| place * 7919 % all)).collect();
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let annotate = async |(name, priority): (&String, &usize)| -> Result<()> {
        let patch = json!({"metadata": {"annotations": {annotation::DELETE_PRIORITY: priority.to_string()}}});
        let done = pods.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        done.map(drop).with_context(|| format!("cannot annotate {name}"))
    };
    stream::iter(&priorities).map(annotate).buffer_unordered(PARALLEL).try_collect::<()>().await?;
    Ok(priorities)
}

/// The floor and the ceiling were kept at every moment.
fn keeps_bounds(state: &State, all: usize, bounds: Bounds, contender: Contender) -> Result<()> {
    let (surge, unavailable) = (usize::try_from(bounds.surge)?, usize::try_from(bounds.unavailable)?);
    ensure!(
        state.least_available + unavailable >= all,
        "{} pods were available, {} are allowed at least",
        state.least_available,
        all - unavailable
    );
    // The null driver has a limit of parallel requests instead.
    ensure!(
        contender == Contender::Null || state.most_active <= all + surge,
        "{} pods were active, {} are allowed",
        state.most_active,
        all + surge
    );
    Ok(())
}

/// Every pod was deleted before those with a smaller priority, except for `slack` pods at a time.
fn keeps_order(state: &State, priorities: &BTreeMap<String, usize>, slack: usize) -> Result<()> {
    let mut left: Vec<usize> = priorities.values().copied().collect();
    left.sort_unstable_by(|one, other| other.cmp(one));
    for (name, _) in &state.deletions {
        let priority = priorities.get(name).with_context(|| format!("{name} has no priority"))?;
        let ahead = left.iter().position(|other| other == priority).context("a pod was deleted twice")?;
        ensure!(ahead < slack, "{name} was deleted although {ahead} pods come before it");
        left.remove(ahead);
    }
    ensure!(left.is_empty(), "{} old pods were not observed to end", left.len());
    Ok(())
}

/// Pods without a controller in another namespace.
async fn other_pods(world: &World, others: i32) -> Result<Observer> {
    let world = world.apart("others").await?;
    let observer = Observer::start(&world.client, &world.namespace);
    null::create(&world, others).await?;
    let all = usize::try_from(others)?;
    observer.until("the other pods are ready", |state| state.ready_of(1) == all).await?;
    Ok(observer)
}
