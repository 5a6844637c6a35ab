//! Leader election over a Lease: the shell around [`crate::election`].
//!
//! Every write carries the version that was read; a conflict means that somebody else was faster. It never looks at what the leader does.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};
use kube_runtime::{WatchStreamExt, watcher};
use ordereddeployment_api::names::CONTROLLER;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::client::http::with_user_agent;
use crate::leader::election::{ObservedLease, Record, Step, Timing, next};
use crate::runtime::backoff::WatchBackoff;
use crate::{Clock, Error, Fence, Health, RequestError};

/// What fails, in the words of a probe's answer.
const CANDIDATURE: &str = "standing for the lead";

/// A candidate for the lead.
pub struct Candidate {
    api: Api<Lease>,
    identity: String,
    timing: Timing,
    fence: Fence,
    observed: Option<ObservedLease>,
    clock: Clock,
    health: Health,
    /// The Lease as it was read: what we do not know of it stays.
    lease: Option<Lease>,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Candidate").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Candidate {
    /// A candidate of that name, for the Lease `ordered-controller-manager` of that namespace. `health` is that of the process: it
    /// says when there is something to lead with, and is told where standing for the lead fails.
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
        let api = Api::namespaced(with_user_agent(client, None), namespace);
        Self { api, identity: identity.to_owned(), timing, fence, observed: None, clock, health, lease: None }
    }

    /// Runs this while the candidate leads, and says when it does. Losing the lead ends it: whatever it believes may be old.
    pub async fn run_while_leading(
        mut self,
        work: impl Future<Output = Result<(), Error>>,
        lead: watch::Sender<bool>,
    ) -> Result<(), Error> {
        tokio::pin!(work);
        tokio::select! {
            biased;
            ended = &mut work => return ended,
            () = self.lead() => {}
        }
        tracing::info!("leading");
        lead.send_replace(true);
        tokio::select! {
            biased;
            // First: work that never waits must not keep it from being renewed.
            () = self.keep() => Err(Error::LoseLead),
            ended = &mut work => {
                self.release().await;
                ended
            }
        }
    }

    /// WaitTimes until this candidate leads. The fence is open then. It does not stand before every watch has synced: who has seen
    /// nothing yet keeps no warm standby from the lead.
    async fn lead(&mut self) {
        self.health.synced_whole().await;
        // The watch only wakes: what counts is read anew. One that fails must not wake at once, again and again.
        let changes = watcher::watch_object(self.api.clone(), CONTROLLER).backoff(WatchBackoff::default());
        futures::pin_mut!(changes);
        let mut told = None;
        loop {
            let wait = match self.step().await {
                Ok(None) => {
                    self.health.works(CANDIDATURE);
                    return;
                }
                Ok(Some(wait)) => {
                    self.health.works(CANDIDATURE);
                    told = None;
                    wait
                }
                Err(error) => {
                    // Somebody else was faster: that is what elections are for.
                    let failed = (error.code() != Some(409)).then(|| error.to_string());
                    if failed.is_some() {
                        self.health.fails(CANDIDATURE);
                    }
                    if failed.is_some() && failed != told {
                        // Once: nobody else says why this process does nothing.
                        tracing::warn!(%error, "cannot stand for the lead, and asks again");
                        told = failed;
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

    /// One look at the Lease and what follows from it; `None`: we lead.
    async fn step(&mut self) -> Result<Option<Duration>, RequestError> {
        self.read().await?;
        let now = Instant::now();
        match next(&self.identity, self.observed.as_ref(), now) {
            Step::Wait(wait) => Ok(Some(wait)),
            Step::Create => self.write(None).await.map(|()| None),
            Step::Write { version } => self.write(Some(version)).await.map(|()| None),
        }
    }

    /// Renews the lead until it is lost: past the renew deadline, or taken by somebody else. The fence is closed then.
    async fn keep(&mut self) {
        let mut renewed = Instant::now();
        loop {
            sleep(self.timing.retry).await;
            if renewed.elapsed() >= self.timing.renew_deadline {
                tracing::error!("the lead was not renewed in time");
                break;
            }
            let version = self.lease.as_ref().and_then(ResourceExt::resource_version);
            match self.write(version).await {
                Ok(()) => renewed = Instant::now(),
                Err(error) if error.code() == Some(409) || error.code() == Some(404) => {
                    // An answer that got lost may have been our own renewal.
                    let read = self.read().await;
                    let ours = self.observed.as_ref().and_then(|observed| observed.record.holder.as_deref());
                    if read.is_ok() && ours != Some(self.identity.as_str()) {
                        tracing::error!("somebody else took the lead");
                        break;
                    }
                }
                Err(error) => tracing::warn!(%error, "cannot renew the lead"),
            }
        }
        self.fence.close();
    }

    /// Gives the lead up, so that the next one need not wait. Call it when nothing of ours runs any more.
    async fn release(&mut self) {
        self.fence.close();
        let Some(mut lease) = self.lease.take() else { return };
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        // As client-go does: whoever looks sees one that runs out at once.
        spec.lease_duration_seconds = Some(1);
        if let Err(error) = self.put(&lease).await {
            tracing::debug!(%error, "cannot release the lead: it runs out by itself");
        }
    }

    async fn read(&mut self) -> Result<(), RequestError> {
        let found = send(self.timing.retry, self.api.get_opt(CONTROLLER)).await?;
        let now = Instant::now();
        self.observed = found
            .as_ref()
            .map(|lease| ObservedLease::update(self.observed.take(), record(lease, self.timing), now));
        self.lease = found;
        Ok(())
    }

    /// Takes or renews the lead. The time counts from before the request.
    async fn write(&mut self, version: Option<String>) -> Result<(), RequestError> {
        let sent = Instant::now();
        let mut lease = self.lease.clone().unwrap_or_default();
        lease.metadata.name = Some(CONTROLLER.to_owned());
        let now = MicroTime(self.clock.now());
        let spec = lease.spec.get_or_insert_default();
        claim(spec, &self.identity, self.timing, now);
        let written = if version.is_some() {
            lease.metadata.resource_version = version;
            self.put(&lease).await?
        } else {
            lease.metadata = ObjectMeta { name: lease.metadata.name, ..ObjectMeta::default() };
            send(self.timing.retry, self.api.create(&PostParams::default(), &lease)).await?
        };
        self.observed = Some(ObservedLease { record: record(&written, self.timing), since: sent });
        self.lease = Some(written);
        self.fence.open(sent + self.timing.renew_deadline, sent + self.timing.lease);
        Ok(())
    }

    async fn put(&self, lease: &Lease) -> Result<Lease, RequestError> {
        send(self.timing.retry, self.api.replace(CONTROLLER, &PostParams::default(), lease)).await
    }
}

/// Makes the Lease ours.
fn claim(spec: &mut LeaseSpec, identity: &str, timing: Timing, now: MicroTime) {
    if spec.holder_identity.as_deref() != Some(identity) {
        spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count.saturating_add(1)));
        spec.acquire_time = Some(now.clone());
        spec.holder_identity = Some(identity.to_owned());
    }
    spec.lease_duration_seconds = Some(i32::try_from(timing.lease.as_secs()).unwrap_or(i32::MAX).max(1));
    spec.renew_time = Some(now);
}

fn record(lease: &Lease, timing: Timing) -> Record {
    let spec = lease.spec.as_ref();
    let seconds =
        spec.and_then(|spec| spec.lease_duration_seconds).and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        version: lease.resource_version().unwrap_or_default(),
        holder: spec.and_then(|spec| spec.holder_identity.clone()).filter(|holder| !holder.is_empty()),
        duration: seconds.map_or(timing.lease, Duration::from_secs),
    }
}

async fn send<T>(limit: Duration, call: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
    match timeout(limit, call).await {
        Ok(answer) => answer.map_err(RequestError::from),
        Err(_) => Err(RequestError::TimedOut(limit)),
    }
}

/// A name for this process that no other one has, not even a later one of the same host and number.
#[must_use]
pub fn identity(host: &str, process: u32) -> String {
    let started = jiff::Timestamp::now().as_nanosecond();
    format!("{host}_{process}_{started:x}")
}
