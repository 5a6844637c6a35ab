//! Keeps this controller of ReplicaSets apart from the built-in one of kube-controller-manager: two at once would delete twice as many
//! pods.
//!
//! An empty ReplicaSet, the *probe*, is left alone by this controller. If somebody sets its `observedGeneration`, a built-in controller
//! is alive. While none is, the probe has a generation that nobody has observed: a built-in controller that starts reports it at once,
//! and the watch shows it. While one is alive, a new generation asks every [`ASK`] whether it still is.
//!
//! This module decides only whether the controller may act. It reads and deletes no pod.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use kube_runtime::WatchStreamExt;
use kube_runtime::watcher::{self, watcher};
use ordereddeployment_api::names::label;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::client::error::RequestError;
use crate::runtime::backoff::WatchBackoff;
use crate::{Fence, Health, Metrics};

/// The name of the probe.
const PROBE: &str = "ordered-controller-manager-probe";
/// How often a built-in controller that is alive is asked again.
const ASK: Duration = Duration::from_secs(10);
/// How long a built-in controller may take to observe the probe.
const ANSWER: Duration = Duration::from_secs(10);
/// The Lease of kube-controller-manager, and its default duration.
const LEASE: (&str, &str) = ("kube-system", "kube-controller-manager");
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long the requests of the controller may run once they are allowed: until they are forbidden again.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

/// How the controller of plain ReplicaSets keeps apart from the built-in one.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The namespace of the probe.
    pub namespace: String,
    /// Acts without a probe.
    pub force: bool,
}

/// What is known about the built-in controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// Not known yet.
    Unknown,
    Alive,
    Absent,
}

/// The probe as it was last seen, and the finding. No I/O.
#[derive(Debug)]
struct Probe {
    finding: Finding,
    /// Since when the current generation waits to be observed.
    asked: Option<Instant>,
    generation: i64,
    /// When a built-in controller was last seen alive, or this process started: an older leader can still act for the duration of
    /// its lease.
    alive: Instant,
    lease: Duration,
    /// When the probe is changed next.
    ask_at: Instant,
}

impl Probe {
    fn new(now: Instant, lease: Duration) -> Self {
        Self { finding: Finding::Unknown, asked: None, generation: 0, alive: now, lease, ask_at: now }
    }

    /// The watch or an answer shows the probe.
    fn see(&mut self, generation: i64, observed: i64, now: Instant) {
        if observed >= generation {
            // An observed generation that this process has not asked for proves nothing: it may be of last week.
            if self.asked.is_some() && generation >= self.generation {
                self.finding = Finding::Alive;
                self.alive = now;
                self.asked = None;
                self.ask_at = now + ASK;
            }
        } else if generation > self.generation || self.asked.is_none() {
            self.asked = Some(now);
        }
        self.generation = self.generation.max(generation);
    }

    /// The probe was deleted. It is created again.
    fn lost(&mut self, now: Instant) {
        (self.asked, self.generation, self.ask_at) = (None, 0, now);
    }

    /// When nobody has answered for so long that no built-in controller is alive.
    fn silent_at(&self) -> Option<Instant> {
        let unanswered = self.asked? + ANSWER;
        Some(unanswered.max(self.alive + self.lease))
    }

    /// When [`Self::tick`] must be called next.
    fn next(&self) -> Option<Instant> {
        let silent = self.silent_at().filter(|_| self.finding != Finding::Absent);
        silent.or_else(|| self.asked.is_none().then_some(self.ask_at))
    }

    /// Whether to ask now, by another generation of the probe.
    fn tick(&mut self, now: Instant) -> bool {
        if self.silent_at().is_some_and(|at| at <= now) {
            self.finding = Finding::Absent;
        }
        let asks = self.asked.is_none() && self.ask_at <= now;
        if asks {
            // If the request fails, it is repeated then.
            self.ask_at = now + ASK;
        }
        asks
    }
}

/// Opens and closes the way for the controller.
pub(crate) struct Gate {
    pub(crate) fence: Fence,
    pub(crate) open: watch::Sender<bool>,
}

/// What says that the controller stands aside, and why.
pub(crate) trait Announce {
    fn stands_aside(&self, probe: &ReplicaSet, message: &str);
}

impl Apart {
    /// Opens the gate while no built-in controller is alive. It ends only if the process does.
    pub(crate) async fn keep(
        &self,
        client: Client,
        gate: &Gate,
        health: &Health,
        metrics: &Metrics,
        announce: &impl Announce,
    ) {
        if self.force {
            tracing::warn!(
                "--force: not checked whether kube-controller-manager's replicaset controller is alive. Two controllers delete twice \
                 as many pods"
            );
            gate.set(true);
            return std::future::pending().await;
        }
        let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), &self.namespace);
        let lease = lease_duration(&client).await;
        let config = watcher::Config::default().fields(&format!("metadata.name={PROBE}"));
        let mut events = pin!(watcher(sets.clone(), config).backoff(WatchBackoff::default()));
        let mut probe = Probe::new(Instant::now(), lease);
        let mut said = None;
        tracing::info!(?lease, "waiting until no other controller of ReplicaSets is alive");
        loop {
            let next = probe.next();
            tokio::select! {
                biased;
                Some(event) = events.next() => match event {
                    Ok(watcher::Event::Apply(set) | watcher::Event::InitApply(set)) => {
                        let (generation, observed) = generations(&set);
                        probe.see(generation, observed, Instant::now());
                    }
                    Ok(watcher::Event::Delete(_)) => probe.lost(Instant::now()),
                    Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
                    Err(error) => tracing::warn!(%error, "the watch of the probe failed and is tried again"),
                },
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    if probe.tick(Instant::now()) {
                        match ask(&sets).await {
                            Ok(set) => {
                                let (generation, observed) = generations(&set);
                                probe.see(generation, observed, Instant::now());
                                health.note(REPLICASETS, None);
                            }
                            Err(error) => {
                                let error = RequestError::from(error);
                                tracing::warn!(%error, probe = PROBE, namespace = self.namespace, "cannot write the probe");
                                let why = format!("the controller replicaset stands aside: it cannot write its probe, ReplicaSet {}/{PROBE}: {error}", self.namespace);
                                health.note(REPLICASETS, (probe.finding != Finding::Absent).then_some(why));
                            }
                        }
                    }
                }
            }
            if said == Some(probe.finding) {
                continue;
            }
            said = Some(probe.finding);
            gate.set(probe.finding == Finding::Absent);
            metrics.stands_aside.set(i64::from(probe.finding != Finding::Absent));
            match probe.finding {
                Finding::Unknown => health.note(REPLICASETS, Some(UNKNOWN.to_owned())),
                Finding::Absent => {
                    health.note(REPLICASETS, None);
                    tracing::info!("no other controller of ReplicaSets is alive: starting");
                }
                Finding::Alive => {
                    health.note(REPLICASETS, Some(ALIVE.to_owned()));
                    tracing::warn!("{ALIVE}");
                    if let Ok(set) = sets.get(PROBE).await {
                        announce.stands_aside(&set, ALIVE);
                    }
                }
            }
        }
    }
}

const REPLICASETS: &str = "replicaset";
const UNKNOWN: &str =
    "the controller replicaset waits: it is not known yet whether kube-controller-manager's is alive";
const ALIVE: &str = "the controller replicaset stands aside: kube-controller-manager's replicaset controller is alive. Start \
                     kube-controller-manager with --controllers=*,-replicaset (Kubernetes 1.28 and later: \
                     -replicaset-controller)";

impl Gate {
    pub(crate) fn new() -> Self {
        Self { fence: Fence::default(), open: watch::Sender::new(false) }
    }

    fn set(&self, open: bool) {
        if open {
            let end = Instant::now() + FOREVER;
            self.fence.open(end, end);
        } else {
            self.fence.close();
        }
        self.open.send_replace(open);
    }
}

fn generations(set: &ReplicaSet) -> (i64, i64) {
    let observed = set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
    (set.metadata.generation.unwrap_or(0), observed)
}

/// Creates the probe, or gives it another generation.
async fn ask(sets: &Api<ReplicaSet>) -> kube::Result<ReplicaSet> {
    let Some(known) = sets.get_opt(PROBE).await? else {
        let labels = json!({label::PROBE: "true"});
        let probe = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": PROBE, "labels": labels, "annotations": {
                "kubernetes.io/description": "ordered-controller-manager finds out by this ReplicaSet whether \
                                              kube-controller-manager reconciles ReplicaSets. It never has pods.",
            }},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "none", "image": "none"}]}},
            },
        });
        let probe = serde_json::from_value(probe).map_err(kube::Error::SerdeError)?;
        return sets.create(&PostParams::default(), &probe).await;
    };
    let seconds = known.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    // Another value makes another generation. Nobody waits that long: it has no pods.
    let patch = json!({
        "metadata": {"resourceVersion": known.resource_version()},
        "spec": {"minReadySeconds": (seconds + 1) % 1_000_000},
    });
    sets.patch(PROBE, &PatchParams::default(), &Patch::Merge(patch)).await
}

/// How long a leader of kube-controller-manager can act after it has lost its Lease.
async fn lease_duration(client: &Client) -> Duration {
    let (namespace, name) = LEASE;
    let lease: kube::Result<Lease> = Api::namespaced(client.clone(), namespace).get(name).await;
    let seconds = lease.ok().and_then(|lease| lease.spec?.lease_duration_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
    seconds.unwrap_or(LEASE_DURATION)
}

#[cfg(test)]
mod tests {
    use super::{ANSWER, ASK, Duration, Finding, Instant, Probe};

    const LEASE: Duration = Duration::from_secs(15);

    #[tokio::test(start_paused = true)]
    async fn it_may_act_once_nobody_has_answered_for_a_lease() {
        let start = Instant::now();
        let mut probe = Probe::new(start, LEASE);
        assert_eq!((probe.next(), probe.tick(start)), (Some(start), true));
        probe.see(1, 0, start);
        assert!(!probe.tick(start + ANSWER));
        assert_eq!(probe.finding, Finding::Unknown, "the lease of an older leader may still be valid");
        assert_eq!(probe.next(), Some(start + LEASE));
        probe.tick(start + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
        assert_eq!(probe.next(), None, "the watch shows an answer");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_makes_it_stand_aside_at_once_and_it_asks_again() {
        let start = Instant::now();
        let mut probe = Probe::new(start, LEASE);
        probe.tick(start);
        probe.see(1, 0, start);
        probe.tick(start + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
        let later = start + 4 * LEASE;
        probe.see(1, 1, later);
        assert_eq!((probe.finding, probe.next()), (Finding::Alive, Some(later + ASK)));
        assert!(probe.tick(later + ASK));
        probe.see(2, 0, later + ASK);
        probe.see(2, 2, later + ASK);
        assert_eq!((probe.finding, probe.next()), (Finding::Alive, Some(later + 2 * ASK)));
        // The built-in controller is switched off.
        assert!(probe.tick(later + 2 * ASK));
        probe.see(3, 2, later + 2 * ASK);
        probe.tick(later + 2 * ASK + ANSWER - Duration::from_secs(1));
        assert_eq!(probe.finding, Finding::Alive);
        probe.tick(later + 2 * ASK + ANSWER);
        assert_eq!(probe.finding, Finding::Absent);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_from_before_the_start_proves_nothing() {
        let start = Instant::now();
        let mut probe = Probe::new(start, LEASE);
        probe.see(7, 7, start);
        assert_eq!(probe.finding, Finding::Unknown);
        assert!(probe.tick(start));
        probe.see(8, 7, start);
        probe.tick(start + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_probe_is_created_again() {
        let start = Instant::now();
        let mut probe = Probe::new(start, LEASE);
        probe.tick(start);
        probe.see(5, 4, start);
        probe.tick(start + LEASE);
        probe.lost(start + LEASE);
        assert!(probe.tick(start + LEASE));
        probe.see(1, 0, start + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
        probe.see(1, 1, start + 2 * LEASE);
        assert_eq!(probe.finding, Finding::Alive);
    }
}
