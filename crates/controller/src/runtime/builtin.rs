//! Keeps this controller of ReplicaSets apart from the built-in one of kube-controller-manager: two at once would delete twice as many
//! pods.
//!
//! An empty ReplicaSet, the *probe*, is left alone by this controller. If somebody sets its `observedGeneration`, a built-in controller
//! is alive. While none is, the probe has a generation that nobody has observed: a built-in controller that starts reports it at once,
//! and the watch shows it. While one is alive, a new generation asks every [`ASK`] whether it still is. The controller may act only for
//! a short time after the API server showed the probe as unobserved. A built-in controller that is busy answers late: a status of a
//! set that this process has not sent shows it too.
//!
//! This module decides only whether the controller may act. It reads and deletes no pod.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use kube_runtime::WatchStreamExt;
use kube_runtime::watcher::{self, watcher};
use ordereddeployment_api::names::{label, reason};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::client::error::RequestError;
use crate::reconcile::context::Context;
use crate::runtime::backoff::WatchBackoff;
use crate::{Fence, Health};

/// The name of the probe.
const PROBE: &str = "ordered-controller-manager-probe";
/// How often a built-in controller that is alive is asked again, and the probe read otherwise.
const ASK: Duration = Duration::from_secs(10);
/// How long a built-in controller may take to observe the probe. One that is busy with other sets answers late.
const ANSWER: Duration = Duration::from_secs(30);
/// How long the controller may act after the API server showed that nobody has observed the probe.
const VALID: Duration = Duration::from_secs(25);
/// How long a request for the probe may take. Meanwhile no sign of another controller is seen.
const REQUEST: Duration = Duration::from_secs(5);
/// The Lease of kube-controller-manager, and its default duration.
const LEASE: (&str, &str) = ("kube-system", "kube-controller-manager");
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long the requests of the controller may run with `--force`.
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
    Alive(Sign),
    Absent,
}

/// By what another controller was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// It has observed the probe.
    Probe,
    /// It has reported another ReplicaSet.
    Status,
}

/// The probe as it was last seen, and the finding. No I/O.
#[derive(Debug)]
struct Probe {
    finding: Finding,
    /// Since when the current generation waits to be observed.
    asked: Option<Instant>,
    uid: String,
    generation: i64,
    /// When a built-in controller was last seen alive, or this process started: an older leader can still act for the duration of
    /// its lease.
    alive: Instant,
    lease: Duration,
    /// When the probe is read or changed next.
    next: Instant,
    /// When the API server last showed that nobody has observed the probe.
    unobserved: Option<Instant>,
}

/// What to do with the probe now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing.
    Wait,
    /// Give it another generation, or create it.
    Ask,
    /// Read it.
    Read,
}

impl Probe {
    fn new(now: Instant, lease: Duration) -> Self {
        Self {
            finding: Finding::Unknown,
            asked: None,
            uid: String::new(),
            generation: 0,
            alive: now,
            lease,
            next: now,
            unobserved: None,
        }
    }

    /// The watch or an answer shows the probe.
    fn see(&mut self, seen: &Seen, now: Instant) {
        if seen.uid != self.uid {
            // It was deleted and created again: its generations start again.
            (self.uid, self.generation, self.asked) = (seen.uid.clone(), 0, None);
        }
        if seen.generation < self.generation {
            // The watch shows an older version than an answer.
            return;
        }
        if seen.observed >= seen.generation {
            // An observed generation that this process has not asked for proves nothing at its start: it may be of last week.
            if self.asked.is_some() || self.finding == Finding::Absent {
                self.finding = Finding::Alive(Sign::Probe);
                self.alive = now;
                self.asked = None;
                self.next = now + ASK;
            }
        } else {
            if seen.generation > self.generation || self.asked.is_none() {
                self.asked = Some(now);
            }
            self.unobserved = Some(now);
        }
        self.generation = seen.generation;
    }

    /// The answer of the API server to a request shows the probe. An older one than before means that its data were restored.
    fn answered(&mut self, seen: &Seen, now: Instant) {
        if seen.uid == self.uid && seen.generation < self.generation {
            self.lost(now);
        }
        self.see(seen, now);
    }

    /// Another controller has reported the status of a set: it is alive, and may be too busy to observe the probe.
    fn see_foreign_status(&mut self, now: Instant) {
        if !matches!(self.finding, Finding::Alive(_)) {
            (self.finding, self.next) = (Finding::Alive(Sign::Status), now);
        }
        (self.alive, self.asked) = (now, None);
    }

    /// The probe is gone. It is created again.
    fn lost(&mut self, now: Instant) {
        (self.asked, self.generation, self.next) = (None, 0, now);
        self.uid.clear();
    }

    /// When nobody has answered for so long that no built-in controller is alive.
    fn silent_at(&self) -> Option<Instant> {
        let unanswered = self.asked? + ANSWER;
        Some(unanswered.max(self.alive + self.lease))
    }

    /// When [`Self::tick`] must be called next.
    fn next(&self) -> Instant {
        let silent = self.silent_at().filter(|_| self.finding != Finding::Absent);
        silent.map_or(self.next, |silent| silent.min(self.next))
    }

    fn tick(&mut self, now: Instant) -> Step {
        if self.silent_at().is_some_and(|at| at <= now) {
            self.finding = Finding::Absent;
        }
        if self.next > now {
            return Step::Wait;
        }
        // If the request fails, it is repeated then.
        self.next = now + ASK;
        if self.asked.is_none() { Step::Ask } else { Step::Read }
    }

    /// Until when the controller may act. A watch that is silent proves nothing, so that the probe must be read again before.
    fn open_until(&self) -> Option<Instant> {
        let unobserved = self.unobserved.filter(|_| self.finding == Finding::Absent)?;
        Some(unobserved + VALID)
    }
}

/// What is read of the probe.
#[derive(Debug)]
struct Seen {
    uid: String,
    generation: i64,
    observed: i64,
}

impl Seen {
    fn of(set: &ReplicaSet) -> Self {
        Self {
            uid: set.uid().unwrap_or_default(),
            generation: set.metadata.generation.unwrap_or(0),
            observed: set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0),
        }
    }
}

/// Opens and closes the way for the controller.
pub(crate) struct Gate {
    pub(crate) fence: Fence,
    pub(crate) open: watch::Sender<bool>,
}

impl Apart {
    /// Opens the gate while no built-in controller is alive. It ends only if the process does.
    pub(crate) async fn keep(&self, client: Client, gate: &Gate, health: &Health, ctx: &Context) {
        let mut foreign = ctx.reports.foreign();
        if self.force {
            tracing::warn!(
                "--force: not checked whether kube-controller-manager's replicaset controller is alive. Two controllers delete twice \
                 as many pods"
            );
            gate.set(Some(Instant::now() + FOREVER));
            return std::future::pending().await;
        }
        let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), &self.namespace);
        let lease = lease_duration(&client).await;
        let config = watcher::Config::default().fields(&format!("metadata.name={PROBE}"));
        let mut events = pin!(watcher(sets.clone(), config).backoff(WatchBackoff::default()));
        let mut probe = Probe::new(Instant::now(), lease);
        let mut said = None;
        let mut is_listed = false;
        tracing::info!(?lease, "waiting until no other controller of ReplicaSets is alive");
        loop {
            tokio::select! {
                biased;
                Some(event) = events.next() => match event {
                    Ok(watcher::Event::Apply(set) | watcher::Event::InitApply(set)) => {
                        is_listed = true;
                        probe.see(&Seen::of(&set), Instant::now());
                    }
                    Ok(watcher::Event::Init) => is_listed = false,
                    Ok(watcher::Event::InitDone) if is_listed => {}
                    Ok(watcher::Event::InitDone | watcher::Event::Delete(_)) => probe.lost(Instant::now()),
                    Err(error) => tracing::warn!(%error, "the watch of the probe failed and is tried again"),
                },
                Ok(()) = foreign.changed() => probe.see_foreign_status(Instant::now()),
                () = sleep_until(probe.next()) => {
                    let answer = match probe.tick(Instant::now()) {
                        Step::Wait => None,
                        Step::Ask => timeout(REQUEST, ask(&sets)).await.ok().map(|answer| answer.map(Some)),
                        Step::Read => timeout(REQUEST, sets.get_opt(PROBE)).await.ok(),
                    };
                    let now = Instant::now();
                    match answer {
                        None => {}
                        Some(Ok(Some(set))) => probe.answered(&Seen::of(&set), now),
                        Some(Ok(None)) => probe.lost(now),
                        Some(Err(error)) => {
                            let error = RequestError::from(error);
                            tracing::warn!(%error, probe = PROBE, namespace = self.namespace, "cannot read or write the probe");
                        }
                    }
                }
            }
            gate.set(probe.open_until());
            let is_open = probe.open_until().is_some_and(|until| Instant::now() < until);
            let finding =
                if probe.finding == Finding::Absent && !is_open { Finding::Unknown } else { probe.finding };
            if said == Some(finding) {
                continue;
            }
            said = Some(finding);
            ctx.metrics.stands_aside.set(i64::from(finding != Finding::Absent));
            match finding {
                Finding::Unknown => {
                    let place = format!("{UNKNOWN} (its probe is ReplicaSet {}/{PROBE})", self.namespace);
                    health.note(REPLICASETS, Some(place));
                }
                Finding::Absent => {
                    health.note(REPLICASETS, None);
                    tracing::info!("no other controller of ReplicaSets is alive: starting");
                }
                Finding::Alive(sign) => {
                    let message = if sign == Sign::Probe { ALIVE } else { REPORTED };
                    health.note(REPLICASETS, Some(message.to_owned()));
                    tracing::warn!("{message}");
                    if let Ok(Ok(set)) = timeout(REQUEST, sets.get(PROBE)).await {
                        ctx.events.warn_of_object(set.object_ref(&()), reason::STANDS_ASIDE, message);
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
const REPORTED: &str = "the controller replicaset stands aside: another client has written the status of a ReplicaSet, as \
                        kube-controller-manager's replicaset controller does. It starts again when nobody does so";

impl Gate {
    pub(crate) fn new() -> Self {
        Self { fence: Fence::default(), open: watch::Sender::new(false) }
    }

    /// Lets requests start until then, and ends those in flight.
    fn set(&self, until: Option<Instant>) {
        match until {
            Some(until) => self.fence.open(until, until),
            None => self.fence.close(),
        }
        let open = until.is_some_and(|until| Instant::now() < until);
        self.open.send_if_modified(|was| std::mem::replace(was, open) != open);
    }
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
    use super::{ANSWER, ASK, Duration, Finding, Instant, Probe, Seen, Sign, Step, VALID};

    const LEASE: Duration = Duration::from_secs(45);

    fn seen(generation: i64, observed: i64) -> Seen {
        Seen { uid: "a".to_owned(), generation, observed }
    }

    /// A probe that nobody has answered for the duration of the lease.
    fn absent(start: Instant) -> Probe {
        let mut probe = Probe::new(start, LEASE);
        assert_eq!((probe.next(), probe.tick(start)), (start, Step::Ask));
        probe.see(&seen(1, 0), start);
        probe.tick(start + ANSWER);
        assert_eq!(probe.finding, Finding::Unknown, "the lease of an older leader may still be valid");
        probe.tick(start + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
        probe
    }

    #[tokio::test(start_paused = true)]
    async fn it_may_act_while_the_api_server_shows_that_nobody_has_observed_the_probe() {
        let start = Instant::now();
        let mut probe = absent(start);
        let later = start + LEASE + ASK;
        assert_eq!(probe.tick(later), Step::Read);
        probe.see(&seen(1, 0), later);
        assert_eq!(probe.open_until(), Some(later + VALID));
        // The watch is silent and reads fail: this time is not extended.
        assert_eq!(probe.tick(later + ASK), Step::Read);
        assert_eq!(probe.open_until(), Some(later + VALID));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_makes_it_stand_aside_at_once_and_it_asks_again() {
        let start = Instant::now();
        let mut probe = absent(start);
        let later = start + 4 * LEASE;
        probe.see(&seen(1, 1), later);
        assert_eq!(
            (probe.finding, probe.open_until(), probe.next()),
            (Finding::Alive(Sign::Probe), None, later + ASK)
        );
        assert_eq!(probe.tick(later + ASK), Step::Ask);
        probe.see(&seen(2, 0), later + ASK);
        probe.see(&seen(2, 2), later + ASK);
        assert_eq!((probe.finding, probe.next()), (Finding::Alive(Sign::Probe), later + 2 * ASK));
        // The built-in controller is switched off.
        assert_eq!(probe.tick(later + 2 * ASK), Step::Ask);
        probe.see(&seen(3, 2), later + 2 * ASK);
        probe.tick(later + ASK + LEASE - Duration::from_secs(1));
        assert_eq!(probe.finding, Finding::Alive(Sign::Probe));
        probe.tick(later + ASK + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_of_another_controller_makes_it_stand_aside_until_all_are_silent() {
        let start = Instant::now();
        let mut probe = absent(start);
        let later = start + 2 * LEASE;
        probe.see_foreign_status(later);
        assert_eq!((probe.finding, probe.open_until()), (Finding::Alive(Sign::Status), None));
        assert_eq!(probe.tick(later), Step::Ask);
        probe.see(&seen(2, 0), later);
        // It is still busy: the answer may come late, and is asked for again.
        let busy = later + ANSWER;
        probe.see_foreign_status(busy);
        assert_eq!(probe.tick(busy), Step::Ask);
        probe.see(&seen(3, 0), busy);
        probe.tick(busy + LEASE - Duration::from_secs(1));
        assert_eq!(probe.finding, Finding::Alive(Sign::Status));
        probe.tick(busy + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_from_before_the_start_proves_nothing() {
        let start = Instant::now();
        let mut probe = Probe::new(start, LEASE);
        probe.see(&seen(7, 7), start);
        assert_eq!(probe.finding, Finding::Unknown);
        assert_eq!(probe.tick(start), Step::Ask);
        probe.see(&seen(8, 7), start);
        // The watch lags.
        probe.see(&seen(7, 7), start);
        probe.tick(start + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_restored_probe_is_asked_again() {
        let start = Instant::now();
        let mut probe = absent(start);
        probe.see(&seen(5, 0), start + LEASE);
        let later = start + 2 * LEASE;
        probe.see(&seen(2, 0), later);
        assert_ne!(probe.open_until(), Some(later + VALID), "the watch may lag");
        probe.answered(&seen(2, 0), later);
        assert_eq!(probe.open_until(), Some(later + VALID));
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_was_created_again_is_another_one() {
        let start = Instant::now();
        let mut probe = absent(start);
        probe.lost(start + LEASE);
        assert_eq!(probe.tick(start + LEASE), Step::Ask);
        let again = |observed| Seen { uid: "b".to_owned(), generation: 1, observed };
        probe.see(&again(0), start + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
        probe.see(&again(1), start + 2 * LEASE);
        assert_eq!(probe.finding, Finding::Alive(Sign::Probe));
        // The watch missed that it was deleted and created.
        let mut probe = absent(start);
        probe.see(&again(1), start + 2 * LEASE);
        assert_eq!(probe.finding, Finding::Alive(Sign::Probe));
    }
}
