//! Keeps this controller of ReplicaSets apart from the built-in one: two at once delete twice as many pods.
//!
//! An empty ReplicaSet, the *probe*, is left alone by this controller. If somebody sets its
//! `observedGeneration`, a built-in controller is alive. While none is, the probe has a generation that
//! nobody has observed: a built-in controller that starts reports it at once, and the watch shows it. While
//! one is alive, a new generation asks every [`ASK`] whether it still is. The controller may act only for a
//! short time after the API server showed the probe as unobserved. A busy one is late. Two signs come before:
//!
//! - The Lease of kube-controller-manager has a new holder, which may run the built-in controller: it gets
//!   time to answer.
//! - Another client writes the status of a set. That closes only the namespace of the set.
//!
//! Every replica watches and asks, also a standby, so that a new leader need not wait for an answer. A probe
//! whose generation waits to be observed is never changed: it may be another one's question.
//!
//! This module decides only whether the controller may act. It reads and deletes no pod.

use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use kube_runtime::watcher::watch_object;
use ordereddeployment_api::names::{label, reason};
use ordereddeployment_kubernetes::{Fence, Health, RequestError, patient, with_user_agent};
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::reconcile::context::Context;

/// The name of the probe.
const PROBE: &str = "ordered-controller-manager-probe";
/// How often a built-in controller that is alive is asked again, and the probe read otherwise.
const ASK: Duration = Duration::from_secs(10);
/// How long a built-in controller may take to observe the probe. A busy one answers late.
const ANSWER: Duration = Duration::from_secs(30);
/// How long the controller may act after the API server showed that nobody has observed the probe.
const VALID: Duration = Duration::from_secs(25);
/// How long a request for the probe may take. Meanwhile no answer of another controller is seen.
const REQUEST: Duration = Duration::from_secs(5);
/// How long after the election the watch may show statuses that the leader before has sent.
const LATE: Duration = Duration::from_secs(5);
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
    /// It has observed the probe.
    Alive,
    Absent,
}

/// The probe as it was last seen, and the finding. No I/O.
#[derive(Debug)]
struct Probe {
    finding: Finding,
    /// Since when a generation waits to be observed.
    asked: Option<Instant>,
    uid: String,
    generation: i64,
    observed: i64,
    /// When a built-in controller was seen alive, or this process started: an older leader can still act.
    alive: Instant,
    lease: Duration,
    /// Who holds the Lease of kube-controller-manager; empty: nobody; `None`: not known yet.
    holder: Option<String>,
    /// When the probe is read next.
    next: Instant,
    /// When it was last read early, because another client wrote a status.
    early: Option<Instant>,
    /// When the API server last showed that nobody has observed the probe.
    unobserved: Option<Instant>,
}

impl Probe {
    fn new(now: Instant) -> Self {
        Self {
            finding: Finding::Unknown,
            asked: None,
            uid: String::new(),
            generation: 0,
            observed: 0,
            alive: now,
            lease: LEASE_DURATION,
            holder: None,
            next: now,
            early: None,
            unobserved: None,
        }
    }

    /// The watch or an answer shows the probe.
    fn see(&mut self, seen: &Seen, now: Instant) {
        if seen.uid != self.uid {
            // It was deleted and created again: its numbers start again. What is observed already when this
            // process first sees a probe proves nothing: it may be of last week.
            let is_first = self.uid.is_empty() && self.finding != Finding::Absent;
            self.observed = if is_first { seen.observed } else { 0 };
            (self.uid, self.generation, self.asked) = (seen.uid.clone(), 0, None);
        }
        if seen.generation < self.generation || seen.observed < self.observed {
            // The watch shows an older version than an answer.
            return;
        }
        if seen.observed > self.observed {
            // Also if another replica has asked again meanwhile.
            (self.finding, self.alive, self.next) = (Finding::Alive, now, now + ASK);
            self.asked = None;
        }
        (self.generation, self.observed) = (seen.generation, seen.observed);
        if seen.is_observed() {
            self.asked = None;
        } else {
            self.asked.get_or_insert(now);
            self.unobserved = Some(now);
        }
    }

    /// The answer of the API server to a request shows the probe. An older one: its data were restored.
    fn answered(&mut self, seen: &Seen, now: Instant) {
        if seen.uid == self.uid && seen.generation < self.generation {
            self.lost(now);
        }
        self.see(seen, now);
    }

    /// The Lease of kube-controller-manager shows its holder and duration. A new holder was not asked yet.
    fn see_lease(&mut self, lease: Option<Lease>, now: Instant) {
        let spec = lease.and_then(|lease| lease.spec).unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder.is_empty() {
            // Nobody holds it, or it was released. The next holder is a new one, unless it is the same.
            self.holder.get_or_insert(holder);
            return;
        }
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        self.lease = seconds.map_or(LEASE_DURATION, Duration::from_secs);
        let is_known = self.holder.as_ref().is_none_or(|before| *before == holder);
        self.holder = Some(holder);
        if is_known {
            return;
        }
        if self.finding == Finding::Absent {
            self.finding = Finding::Unknown;
        }
        self.asked = self.asked.map(|_| now);
        self.next = now;
    }

    /// Another client has written the status of a set. It may be a built-in controller that is too busy to
    /// observe the probe: the probe is read at once, but not more often than otherwise.
    fn see_foreign_status(&mut self, now: Instant) {
        if self.early.is_none_or(|early| early + ASK <= now) {
            (self.early, self.next) = (Some(now), now);
        }
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

    /// Returns whether to read the probe now.
    fn tick(&mut self, now: Instant) -> bool {
        if self.silent_at().is_some_and(|at| at <= now) {
            self.finding = Finding::Absent;
        }
        let is_due = self.next <= now;
        if is_due {
            // If the request fails, it is repeated then.
            self.next = now + ASK;
        }
        is_due
    }

    /// Until when the controller may act. A silent watch proves nothing: the probe must be read again before.
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

    fn is_observed(&self) -> bool {
        self.observed >= self.generation
    }
}

/// Opens and closes the way for the controller.
pub(crate) struct Handover {
    pub(crate) fence: Fence,
    pub(crate) open: watch::Sender<bool>,
    /// Whether a built-in controller can be alive at all.
    is_careful: bool,
    /// Since when this process is the leader.
    leads: OnceLock<Instant>,
    /// Another client has written a status.
    foreign: Notify,
}

impl Apart {
    /// Opens the way while no built-in controller is alive. It ends only if the process does.
    pub(crate) async fn keep(
        &self,
        client: &Client,
        handover: &Handover,
        mut leads: watch::Receiver<bool>,
        health: &Health,
        ctx: &Context,
    ) {
        if self.force {
            tracing::warn!(
                "--force: not checked whether kube-controller-manager's replicaset controller is alive. Two \
                 controllers delete twice as many pods"
            );
            handover.set(Some(Instant::now() + FOREVER));
            return std::future::pending().await;
        }
        let client = with_user_agent(client);
        let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), &self.namespace);
        let mut probes = pin!(patient("probe", || watch_object(sets.clone(), PROBE)));
        let leases: Api<Lease> = Api::namespaced(client, LEASE.0);
        let lease = || watch_object(leases.clone(), LEASE.1);
        let mut leases = pin!(patient("kube-controller-manager's Lease", lease));
        let mut probe = Probe::new(Instant::now());
        let mut said = None;
        tracing::info!("waiting: another controller of ReplicaSets may be alive");
        loop {
            tokio::select! {
                biased;
                Some(seen) = probes.next() => match seen {
                    Ok(Some(set)) => probe.see(&Seen::of(&set), Instant::now()),
                    Ok(None) => probe.lost(Instant::now()),
                    Err(_) => {}
                },
                Some(lease) = leases.next() => if let Ok(lease) = lease {
                    probe.see_lease(lease, Instant::now());
                },
                () = handover.foreign.notified() => probe.see_foreign_status(Instant::now()),
                Ok(()) = leads.changed() => {}
                () = sleep_until(probe.next()) => {
                    let answer = if probe.tick(Instant::now()) { timeout(REQUEST,
                        ask(&sets)).await.ok() } else { None };
                    match answer.map(|answer| answer.map_err(RequestError::from)) {
                        None => {}
                        Some(Ok(set)) => probe.answered(&Seen::of(&set), Instant::now()),
                        // Another replica was faster. The watch shows it.
                        Some(Err(error)) if error.code() == Some(409) => {}
                        Some(Err(error)) => {
                            tracing::warn!(%error, probe = PROBE, namespace = self.namespace,
                            "cannot read or write the probe");
                        }
                    }
                }
            }
            handover.set(probe.open_until());
            let is_open = probe.open_until().is_some_and(|until| Instant::now() < until);
            let finding =
                if probe.finding == Finding::Absent && !is_open { Finding::Unknown } else { probe.finding };
            let leads = *leads.borrow();
            if said == Some((finding, leads)) {
                continue;
            }
            said = Some((finding, leads));
            ctx.metrics.stands_aside.set(i64::from(finding != Finding::Absent));
            match finding {
                Finding::Unknown => {
                    let place = format!("{UNKNOWN} (its probe is ReplicaSet {}/{PROBE})", self.namespace);
                    health.note(REPLICASETS, Some(place));
                }
                Finding::Absent => {
                    health.note(REPLICASETS, None);
                    tracing::info!(leads, "no other controller of ReplicaSets is alive");
                }
                Finding::Alive => {
                    health.note(REPLICASETS, Some(ALIVE.to_owned()));
                    tracing::warn!("{ALIVE}");
                    if leads && let Ok(Ok(set)) = timeout(REQUEST, sets.get(PROBE)).await {
                        ctx.events.warn_of_object(set.object_ref(&()), reason::STANDS_ASIDE, ALIVE);
                    }
                }
            }
        }
    }
}

const REPLICASETS: &str = "replicaset";
const UNKNOWN: &str =
    "the controller replicaset waits: it is not known yet whether kube-controller-manager's is alive";
const ALIVE: &str = "the controller replicaset stands aside: kube-controller-manager's replicaset controller \
                     is alive. Start kube-controller-manager with --controllers=*,-replicaset (Kubernetes \
                     1.28 and later: -replicaset-controller)";
/// The event on a set whose status another client has written.
pub(crate) const IN_NAMESPACE: &str = "the controller replicaset stands aside in this namespace: another \
                                       client has written the status of this ReplicaSet, as \
                                       kube-controller-manager's replicaset controller does. It goes on 30 s \
                                       after the last such write";

impl Handover {
    /// The way is open from the start if nothing keeps this controller apart from another one.
    pub(crate) fn new(apart: Option<&Apart>) -> Self {
        Self {
            fence: Fence::default(),
            open: watch::Sender::new(apart.is_none()),
            is_careful: apart.is_some_and(|apart| !apart.force),
            leads: OnceLock::new(),
            foreign: Notify::new(),
        }
    }

    /// Lets requests run until then. `None`: no request may start, and those in flight are aborted. The API
    /// server may still carry one out that it has received.
    fn set(&self, until: Option<Instant>) {
        match until {
            Some(until) => self.fence.open(until, until),
            None => self.fence.close(),
        }
        let open = until.is_some_and(|until| Instant::now() < until);
        self.open.send_if_modified(|was| std::mem::replace(was, open) != open);
    }

    /// This process is the leader from now on.
    pub(crate) fn leads(&self) {
        self.leads.get_or_init(Instant::now);
    }

    /// Whether this process has sent all statuses that the watch shows now. A standby sees the leader's.
    pub(crate) fn knows_who_reports(&self) -> bool {
        self.leads.get().is_some_and(|since| since.elapsed() >= LATE)
    }

    /// Another client has written a status in this namespace: closes it. Returns whether it was open.
    pub(crate) fn see_foreign_status(&self, namespace: &str) -> bool {
        if !self.is_careful {
            return false;
        }
        self.foreign.notify_one();
        self.fence.close_in(namespace, Instant::now() + ANSWER) && *self.open.borrow()
    }
}

/// Reads the probe, and gives it another generation if the last one was observed; or creates it.
async fn ask(sets: &Api<ReplicaSet>) -> kube::Result<ReplicaSet> {
    let Some(known) = sets.get_opt(PROBE).await? else {
        let labels = json!({label::PROBE: "true"});
        let probe = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": PROBE, "labels": labels, "annotations": {
                "kubernetes.io/description": "ordered-controller-manager finds out by this ReplicaSet \
                     whether kube-controller-manager reconciles ReplicaSets. It never has pods.",
            }},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "none",
                "image": "none"}]}},
            },
        });
        let probe = serde_json::from_value(probe).map_err(kube::Error::SerdeError)?;
        return sets.create(&PostParams::default(), &probe).await;
    };
    if !Seen::of(&known).is_observed() {
        return Ok(known);
    }
    let seconds = known.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    // Another value makes another generation. Nobody waits that long: it has no pods.
    let patch = json!({
        "metadata": {"resourceVersion": known.resource_version()},
        "spec": {"minReadySeconds": (seconds + 1) % 1_000_000},
    });
    sets.patch(PROBE, &PatchParams::default(), &Patch::Merge(patch)).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ANSWER, ASK, Duration, Finding, Instant, Probe, Seen, VALID};

    const LEASE: Duration = Duration::from_secs(45);

    fn seen(generation: i64, observed: i64) -> Seen {
        Seen { uid: "a".to_owned(), generation, observed }
    }

    /// The Lease of kube-controller-manager with this holder.
    fn hold(probe: &mut Probe, holder: &str, now: Instant) {
        let lease = json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": LEASE.as_secs()}});
        probe.see_lease(serde_json::from_value(lease).unwrap(), now);
    }

    /// A probe that nobody has answered for the duration of the lease.
    fn absent(start: Instant) -> Probe {
        let mut probe = Probe::new(start);
        hold(&mut probe, "one", start);
        assert_eq!((probe.next(), probe.tick(start)), (start, true));
        probe.answered(&seen(1, 0), start);
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
        assert!(probe.tick(later));
        probe.answered(&seen(1, 0), later);
        assert_eq!(probe.open_until(), Some(later + VALID));
        // The watch is silent and reads fail: this time is not extended.
        assert!(probe.tick(later + ASK));
        assert_eq!(probe.open_until(), Some(later + VALID));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_makes_it_stand_aside_at_once_and_it_asks_again() {
        let start = Instant::now();
        let mut probe = absent(start);
        let later = start + 4 * LEASE;
        probe.see(&seen(1, 1), later);
        assert_eq!((probe.finding, probe.open_until(), probe.next()), (Finding::Alive, None, later + ASK));
        assert!(probe.tick(later + ASK));
        probe.answered(&seen(2, 1), later + ASK);
        probe.see(&seen(2, 2), later + ASK);
        assert_eq!((probe.finding, probe.next()), (Finding::Alive, later + 2 * ASK));
        // The built-in controller is switched off.
        assert!(probe.tick(later + 2 * ASK));
        probe.answered(&seen(3, 2), later + 2 * ASK);
        probe.tick(later + ASK + LEASE - Duration::from_secs(1));
        assert_eq!(probe.finding, Finding::Alive);
        probe.tick(later + ASK + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_leader_of_kube_controller_manager_gets_time_to_answer() {
        let start = Instant::now();
        let mut probe = absent(start);
        let later = start + 2 * LEASE;
        for holder in ["one", "", "one"] {
            hold(&mut probe, holder, later);
            assert_eq!(probe.finding, Finding::Absent);
        }
        hold(&mut probe, "two", later);
        assert_eq!((probe.open_until(), probe.next()), (None, later));
        probe.tick(later);
        probe.answered(&seen(1, 0), later);
        probe.tick(later + ANSWER - Duration::from_secs(1));
        assert_eq!(probe.open_until(), None);
        probe.see(&seen(1, 1), later + ANSWER - Duration::from_secs(1));
        assert_eq!(probe.finding, Finding::Alive);
        // While it is not answered yet, another one takes over: it gets as much time.
        let mut probe = absent(start);
        hold(&mut probe, "two", later);
        hold(&mut probe, "three", later + ASK);
        probe.tick(later + ANSWER);
        assert_eq!(probe.finding, Finding::Unknown);
        probe.tick(later + ASK + ANSWER);
        assert_eq!(probe.finding, Finding::Absent);
        // There was no Lease before.
        let mut probe = Probe::new(start);
        probe.see_lease(None, start);
        probe.see(&seen(1, 0), start);
        probe.tick(start + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
        hold(&mut probe, "one", later);
        assert_eq!(probe.finding, Finding::Unknown);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_from_before_the_start_proves_nothing() {
        let start = Instant::now();
        let mut probe = Probe::new(start);
        probe.see(&seen(7, 7), start);
        assert_eq!(probe.finding, Finding::Unknown);
        assert!(probe.tick(start));
        probe.answered(&seen(8, 7), start);
        // The watch lags.
        probe.see(&seen(7, 7), start);
        probe.tick(start + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
    }

    #[tokio::test(start_paused = true)]
    async fn another_replica_that_asks_neither_hides_an_answer_nor_prolongs_the_wait() {
        let start = Instant::now();
        let mut probe = absent(start);
        // The watch misses the answer to the first question, and shows the next one of the other replica.
        probe.see(&seen(2, 1), start + LEASE);
        assert_eq!(probe.finding, Finding::Alive);
        // Somebody changes the probe while nobody answers.
        let later = start + LEASE;
        probe.see(&seen(3, 1), later + ANSWER);
        probe.tick(later + LEASE);
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
        assert!(probe.tick(start + LEASE));
        let again = |observed| Seen { uid: "b".to_owned(), generation: 1, observed };
        probe.see(&again(0), start + LEASE);
        assert_eq!(probe.finding, Finding::Absent);
        probe.see(&again(1), start + 2 * LEASE);
        assert_eq!(probe.finding, Finding::Alive);
        // The watch missed that it was deleted and created.
        let mut probe = absent(start);
        probe.see(&again(1), start + 2 * LEASE);
        assert_eq!(probe.finding, Finding::Alive);
    }
}
