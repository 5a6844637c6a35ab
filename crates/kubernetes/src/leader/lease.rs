//! Leader election with a Lease: the I/O for [`crate::leader::election`].
//!
//! Every write carries the version that was read; a conflict means that another candidate was faster.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, PostParams};
use kube_runtime::watcher;
use ordereddeployment_api::names::CONTROLLER;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::backoff::patient;
use crate::client::http::with_user_agent;
use crate::leader::election::{ObservedLease, Timing};
use crate::{Clock, Fence, Health, RequestError};

/// How often a release is sent: an older renewal can be stored before it, and one more after it was read.
const RELEASES: u32 = 3;

/// The name of this check in the answer of a probe.
const ELECTION: &str = "leader election";

/// A candidate for leadership.
pub struct Candidate {
    api: Api<Lease>,
    identity: String,
    timing: Timing,
    fence: Fence,
    /// Fields of the Lease that this version does not know are kept.
    observed: Option<ObservedLease>,
    clock: Clock,
    health: Health,
    /// When the last renewal that is known to be stored was sent.
    renewed: Instant,
    /// The renewals since then, which may be stored: the time that they write, and when they were sent.
    tried: Vec<(MicroTime, Instant)>,
}

impl Candidate {
    /// A candidate with that identity, for the Lease `ordered-controller-manager` in that namespace. It waits
    /// until `health` is synced, and reports failures of the election to it.
    #[must_use]
    pub fn new(
        client: &Client,
        namespace: &str,
        identity: &str,
        timing: Timing,
        fence: Fence,
        clock: Clock,
        health: Health,
    ) -> Self {
        let api = Api::namespaced(with_user_agent(client), namespace);
        Self {
            api,
            identity: identity.to_owned(),
            timing,
            fence,
            observed: None,
            clock,
            health,
            renewed: Instant::now(),
            tried: Vec::new(),
        }
    }

    /// Runs `work` and reports on `leadership` when the candidate is the leader. The loss of leadership ends
    /// `work`, whose state may be outdated: the result is `None`.
    pub async fn run_while_leading<T>(
        mut self,
        work: impl Future<Output = T>,
        leadership: watch::Sender<bool>,
    ) -> Option<T> {
        tokio::pin!(work);
        tokio::select! {
            biased;
            ended = &mut work => return Some(ended),
            () = self.acquire() => {}
        }
        tracing::info!("acquired lease");
        leadership.send_replace(true);
        tokio::select! {
            biased;
            // First: work that never yields must not prevent the renewal.
            () = self.keep() => None,
            ended = &mut work => {
                self.release().await;
                Some(ended)
            }
        }
    }

    /// Waits until this candidate is the leader; then the fence is open. Before that every watch has synced,
    /// or may not list nodes: an empty cache must not take the lease from a warm standby.
    async fn acquire(&mut self) {
        self.health.synced_whole().await;
        // An event of the watch only ends the wait; the decision reads the Lease again. A failing watch has a
        // backoff.
        let api = self.api.clone();
        let changes = patient("lease", || watcher::watch_object(api.clone(), CONTROLLER));
        futures::pin_mut!(changes);
        let mut logged = None;
        let mut named = None;
        loop {
            let wait = match self.step().await {
                Ok(None) => {
                    self.health.works(ELECTION);
                    return;
                }
                Ok(Some(wait)) => {
                    self.health.works(ELECTION);
                    logged = None;
                    let holder = self.holder().map(str::to_owned);
                    if holder != named {
                        // Once for each holder: no other message says why this process is idle.
                        tracing::info!(
                            holder = holder.as_deref().unwrap_or_default(),
                            "waiting for the lease"
                        );
                        named = holder;
                    }
                    wait
                }
                Err(error) => {
                    // Another candidate was faster, which is part of an election.
                    let failed = (error.code() != Some(409)).then(|| error.to_string());
                    if failed.is_some() {
                        self.health.fails(ELECTION);
                    }
                    if failed.is_some() && failed != logged {
                        // Logged once: no other message says why this process is idle.
                        tracing::warn!(%error, "failed to acquire lease, retrying");
                        logged = failed;
                    }
                    self.timing.retry
                }
            };
            tokio::select! {
                biased;
                _ = changes.next() => {}
                () = sleep(wait) => {}
            }
        }
    }

    /// Reads the Lease and takes the next step; `None`: this candidate is the leader.
    async fn step(&mut self) -> Result<Option<Duration>, RequestError> {
        self.read().await?;
        let wait = |observed: &ObservedLease| observed.wait(&self.identity, self.timing, Instant::now());
        let wait = self.observed.as_ref().and_then(wait);
        if wait.is_none() {
            self.write().await?;
        }
        Ok(wait)
    }

    /// Renews the lease until it is too late, or another candidate has it. Then closes the fence.
    async fn keep(&mut self) {
        let mut next = self.renewed + self.timing.retry;
        loop {
            sleep_until(next).await;
            if self.renewed.elapsed() >= self.timing.renew_deadline {
                tracing::error!("failed to renew lease in time");
                break;
            }
            let (begun, was_read) = (Instant::now(), !self.tried.is_empty());
            match self.renew().await {
                Ok(true) => next = self.renewed + self.timing.retry,
                Ok(false) => {
                    tracing::error!(
                        holder = self.holder().unwrap_or_default(),
                        "another replica holds the lease"
                    );
                    break;
                }
                Err(error) => {
                    // The conflict may come from our own renewal, whose answer was lost: read at once.
                    let is_read_now = matches!(error.code(), Some(404 | 409)) && !was_read;
                    if !is_read_now {
                        tracing::warn!(%error, "failed to renew lease, retrying");
                    }
                    next = if is_read_now { begun } else { begun + self.timing.retry };
                }
            }
        }
        self.fence.close();
    }

    /// Writes the lease. First reads what is stored, if that is not known. Returns whether it is its own.
    async fn renew(&mut self) -> Result<bool, RequestError> {
        if !self.tried.is_empty() {
            self.read().await?;
            self.confirm();
            if self.holder().is_some_and(|holder| holder != self.identity) {
                return Ok(false);
            }
        }
        self.write().await.map(|()| true)
    }

    /// Counts a renewal without an answer that the Lease shows.
    fn confirm(&mut self) {
        let spec = self.observed.as_ref().and_then(|observed| observed.lease.spec.as_ref());
        let stored = spec.filter(|spec| spec.holder_identity.as_deref() == Some(self.identity.as_str()));
        let time = stored.and_then(|spec| spec.renew_time.as_ref());
        if let Some((_, sent)) = time.and_then(|time| self.tried.iter().find(|(tried, _)| tried == time)) {
            self.renewed = *sent;
            self.open();
        }
    }

    /// Opens the fence until the end of the last renewal.
    fn open(&self) {
        self.fence.open(self.renewed + self.timing.renew_deadline, self.renewed + self.timing.lease);
    }

    /// Who holds the Lease as it was read or written last.
    fn holder(&self) -> Option<&str> {
        self.observed.as_ref()?.holder()
    }

    /// Releases the lease, so that the next leader need not wait. Call it only after all work has ended.
    async fn release(&mut self) {
        self.fence.close();
        for _ in 0..RELEASES {
            let held = self.observed.take().filter(|observed| observed.holder() == Some(&self.identity));
            let Some(ObservedLease { mut lease, .. }) = held else { return };
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = Some(String::new());
            // As in client-go: for an observer the lease expires at once.
            spec.lease_duration_seconds = Some(1);
            let Err(error) = self.put(&lease).await else { return };
            tracing::debug!(%error, "failed to release lease");
            // A renewal that had no answer yet can have been stored meanwhile.
            if error.code() != Some(409) || self.read().await.is_err() {
                return;
            }
        }
    }

    async fn read(&mut self) -> Result<(), RequestError> {
        let found = send(self.timing.renew_deadline, self.api.get_opt(CONTROLLER)).await?;
        let now = Instant::now();
        self.observed = found.map(|lease| ObservedLease::update(self.observed.take(), lease, now));
        Ok(())
    }

    /// Acquires or renews the lease. Its time counts from before the request.
    async fn write(&mut self) -> Result<(), RequestError> {
        let sent = Instant::now();
        let known = self.observed.as_ref().map(|observed| observed.lease.clone());
        let is_new = known.is_none();
        let mut lease = known.unwrap_or_default();
        lease.metadata.name = Some(CONTROLLER.to_owned());
        // As it is stored: in microseconds.
        let now = self.clock.now();
        let now = MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now));
        let spec = lease.spec.get_or_insert_default();
        claim(spec, &self.identity, self.timing, now.clone());
        // A candidate that is refused for long does not remember all of its writes.
        self.tried.retain(|(_, sent)| sent.elapsed() < self.timing.lease);
        self.tried.push((now, sent));
        let lease = if is_new {
            send(self.timing.renew_deadline, self.api.create(&PostParams::default(), &lease)).await?
        } else {
            self.put(&lease).await?
        };
        self.observed = Some(ObservedLease { lease, since: sent });
        self.renewed = sent;
        self.tried.clear();
        self.open();
        Ok(())
    }

    async fn put(&self, lease: &Lease) -> Result<Lease, RequestError> {
        send(self.timing.renew_deadline, self.api.replace(CONTROLLER, &PostParams::default(), lease)).await
    }
}

/// Sets this process as the holder of the Lease.
fn claim(spec: &mut LeaseSpec, identity: &str, timing: Timing, now: MicroTime) {
    if spec.holder_identity.as_deref() != Some(identity) {
        spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count.saturating_add(1)));
        spec.acquire_time = Some(now.clone());
        spec.holder_identity = Some(identity.to_owned());
    }
    spec.lease_duration_seconds = Some(i32::try_from(timing.lease.as_secs()).unwrap_or(i32::MAX).max(1));
    spec.renew_time = Some(now);
}

async fn send<T>(limit: Duration, call: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
    match timeout(limit, call).await {
        Ok(answer) => answer.map_err(RequestError::from),
        Err(_) => Err(RequestError::TimedOut(limit)),
    }
}

/// An identity that no other process has, not even a later one with the same host and process number.
#[must_use]
pub fn identity(host: &str, process: u32) -> String {
    let started = jiff::Timestamp::now().as_nanosecond();
    format!("{host}_{process}_{started:x}")
}
