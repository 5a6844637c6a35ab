//! Stores the status of the object and of its sets, if a decision changes it.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use ordereddeployment_api::names::reason;
use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentStatus, OrderedReplicaSetStatus};
use ordereddeployment_kubernetes::RequestError;
use ordereddeployment_planner::{Pod, report_unstored, unstored_message};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cache::entry::{Entry, PodEntry, SetEntry};
use crate::cache::expectations::Fact;
use crate::error::Error;
use crate::reconcile::context::OwnWrite;
use crate::reconcile::merge_patch::diff;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::state::live::LiveReadReason;

/// The minimum interval between two writes of statuses in which only numbers of pods change.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The result of a status write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusWrite {
    /// The status is stored, or was stored before.
    Yes,
    /// Another client wrote in between: read live and decide again.
    Conflict,
    /// The API server does not store all of it.
    InPart,
}

/// What changes from one status to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusChange {
    Nothing,
    /// Numbers of pods, and the time of the last progress.
    Counts,
    /// Anything that a user or a client may wait for or has to act on.
    Conditions,
}

impl StatusChange {
    pub(crate) fn of(old: &OrderedDeploymentStatus, new: &OrderedDeploymentStatus) -> Self {
        if old == new {
            return Self::Nothing;
        }
        let matters = |status: &OrderedDeploymentStatus| {
            let mut status = status.clone();
            status.replicas = None;
            status.updated_replicas = None;
            status.ready_replicas = None;
            status.available_replicas = None;
            status.unavailable_replicas = None;
            status.terminating_replicas = None;
            let mut conditions = status.conditions.take().unwrap_or_default();
            conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
            let conditions: Vec<_> =
                conditions.into_iter().map(|one| (one.type_, one.status, one.reason)).collect();
            (status, conditions)
        };
        if matters(old) == matters(new) { Self::Counts } else { Self::Conditions }
    }

    /// The minimum interval between two reports: pods that change in one burst make one.
    pub(crate) fn every(self) -> Duration {
        match self {
            Self::Nothing => Duration::ZERO,
            Self::Counts => REPORT_INTERVAL,
            Self::Conditions => Duration::from_millis(100),
        }
    }
}

impl Reconciler<'_> {
    /// Stores a status in one write that fails if another client wrote since the last read. The status says
    /// if fields are dropped.
    pub(crate) async fn store_status(
        &mut self,
        status: &OrderedDeploymentStatus,
    ) -> Result<StatusWrite, Error> {
        if !self.ctx.owns_sets {
            return self.store_rollout_state(status).await;
        }
        let known = self.state.reporting.unstored.clone();
        let (stored, missing) = self.put_status(status, &known).await?;
        if stored != StatusWrite::Yes || missing == known {
            return Ok(if missing.is_empty() { stored } else { StatusWrite::InPart });
        }
        self.state.reporting.unstored.clone_from(&missing);
        if missing.is_empty() {
            // The API server stores the whole status again; the second write drops the message.
            return Ok(self.put_status(status, &missing).await?.0);
        }
        self.warn(reason::STATUS_NOT_STORED, unstored_message(&missing));
        let (stored, _) = self.put_status(status, &missing).await?;
        Ok(if stored == StatusWrite::Conflict { stored } else { StatusWrite::InPart })
    }

    /// Writes a status once, with a message that these fields are not stored. Returns those that are not
    /// stored now.
    async fn put_status(
        &mut self,
        status: &OrderedDeploymentStatus,
        unstored: &[String],
    ) -> Result<(StatusWrite, Vec<String>), Error> {
        let mut status = status.clone();
        if !unstored.is_empty() {
            report_unstored(&mut status, unstored, self.ctx.clock.now());
        }
        let wanted = json_of(&status);
        let Some(change) = diff(&json_of(&self.status()), &wanted) else {
            return Ok((StatusWrite::Yes, Vec::new()));
        };
        let version = self.state.deployment.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "status": change});
        let write = self.ctx.begin_write(&self.state.deployment);
        let answer =
            self.requests.patch_status_whole::<OrderedDeployment>(&self.namespace, &self.name, &patch).await;
        let Some(stored) = self.stored(write, answer, "status")? else {
            return Ok((StatusWrite::Conflict, Vec::new()));
        };
        Ok((StatusWrite::Yes, missing(&wanted, &json_of(&stored.status), "status")))
    }

    /// Records the answer to a write of the status. `None`: another client wrote in between.
    pub(crate) fn stored(
        &mut self,
        write: OwnWrite<'_>,
        answer: Result<OrderedDeployment, RequestError>,
        verb: &str,
    ) -> Result<Option<Arc<OrderedDeployment>>, Error> {
        self.missed += usize::from(write.end(answer.as_ref().ok()));
        match answer {
            Ok(mut stored) => {
                stored.spec.template.share_equal(&self.state.deployment.spec.template);
                let stored = Arc::new(stored);
                self.state.refresh(Arc::clone(&stored));
                Ok(Some(stored))
            }
            Err(error) if (error.is_conflict() || error.is_not_found()) && self.may_conflict() => {
                self.conflicts += 1;
                self.state.live.ask(LiveReadReason::Conflict);
                Ok(None)
            }
            Err(error) => {
                self.ctx.metrics.write_failed(verb);
                self.state.live.ask(LiveReadReason::Unknown);
                Err(Error::StoreStatus(error))
            }
        }
    }

    /// How long to wait until the statuses of the sets may be written again.
    pub(crate) fn sets_wait(&self) -> Option<Duration> {
        let wait = REPORT_INTERVAL.checked_sub(self.state.reporting.sets_reported?.elapsed())?;
        (!wait.is_zero()).then_some(wait)
    }

    /// Stores the status of each set; returns whether all are stored. A failure does not count as a failure
    /// of the deployment: it is logged, and the write is repeated.
    pub(crate) async fn report_sets(&mut self) -> bool {
        let now = self.ctx.clock.now();
        let mut all = true;
        let sets: Vec<_> =
            self.observation.sets.iter().filter(|entry| !entry.is_terminating()).cloned().collect();
        for entry in sets {
            let status = set_status(&entry, &self.observation.pods, now);
            let old = entry.object.status.clone().unwrap_or_default();
            let Some(change) = diff(&json_of(&old), &json_of(&status)) else { continue };
            self.state.reporting.sets_reported = Some(Instant::now());
            let stored = self.store_set_status(&entry, &change).await;
            all &= stored.map_or_else(|error| error.is_not_found(), |_| true);
        }
        all
    }

    /// Stores a change of a set's status, and returns the status of a ReplicaSet as it is stored.
    pub(crate) async fn store_set_status(
        &mut self,
        entry: &SetEntry,
        change: &Value,
    ) -> Result<Option<Arc<Value>>, RequestError> {
        let patch =
            json!({"metadata": {"resourceVersion": entry.object.resource_version()}, "status": change});
        let name = &entry.set.name;
        let answer = self.requests.patch_status_of_set(&self.namespace, name, &patch).await;
        match &answer {
            // The watch will show what changed, or that the set is deleted.
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(error) => {
                self.ctx.metrics.write_failed("status");
                tracing::warn!(%error, set = name, "cannot store the status of a set");
            }
            Ok(_) => {}
        }
        let stored = answer?;
        let plain_status = stored.plain_status.clone();
        if let Some(entry) = SetEntry::of(stored) {
            self.record_set(Fact::Is(Arc::new(entry)));
        }
        Ok(plain_status)
    }
}

/// The status of a set, from its pods.
fn set_status(entry: &SetEntry, pods: &[Arc<PodEntry>], now: Timestamp) -> OrderedReplicaSetStatus {
    let own = || pods.iter().map(|pod| &pod.pod).filter(|pod| pod.set == entry.set.uid && !pod.finished);
    let active = || own().filter(|pod| !pod.terminating);
    let ready = || active().filter(|pod| pod.facts.ready);
    let available = active().filter(|pod| is_available(pod, entry.set.min_ready_seconds, now));
    OrderedReplicaSetStatus {
        observed_generation: entry.object.metadata.generation,
        replicas: Some(number(active().count())),
        ready_replicas: Some(number(ready().count())),
        available_replicas: Some(number(available.count())),
        terminating_replicas: Some(number(own().filter(|pod| pod.terminating).count())),
        selector: Some(entry.object.spec.selector.to_selector_string()),
    }
}

/// Whether a pod that is not terminating has been ready for so many seconds.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    let seconds = i64::from(min_ready_seconds.max(0));
    let since = pod.facts.ready_since;
    let since = since.and_then(|since| since.checked_add(SignedDuration::from_secs(seconds)).ok());
    pod.facts.ready && (seconds == 0 || since.is_some_and(|available| available <= now))
}

/// The paths of the fields that came back changed.
fn missing(sent: &Value, came: &Value, path: &str) -> Vec<String> {
    match (sent, came) {
        (Value::Object(sent), Value::Object(came)) => {
            let fields = sent.iter().flat_map(|(key, value)| {
                missing(value, came.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}"))
            });
            fields.collect()
        }
        (sent, came) if sent == came => Vec::new(),
        _ => vec![path.to_owned()],
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The JSON that is sent. A status is plain data: serialization cannot fail.
fn json_of(status: &impl serde::Serialize) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::missing;

    #[test]
    fn fields_that_are_not_stored_are_named_by_their_paths() {
        let sent = json!({"a": 1, "b": {"c": 2, "d": {"e": 3}}, "f": [1]});
        let table = [
            (json!({"a": 1, "b": {"c": 2, "d": {"e": 3}}, "f": [1]}), vec![]),
            (json!({"a": 1, "b": {"c": 2, "d": {"e": 3}}, "f": [1], "more": true}), vec![]),
            (json!({"b": {"c": 2, "d": {}}, "f": [1]}), vec!["status.a", "status.b.d.e"]),
            (json!({"a": 1, "b": {"c": 2}, "f": []}), vec!["status.b.d", "status.f"]),
        ];
        for (came, expected) in table {
            assert_eq!(missing(&sent, &came, "status"), expected, "{came}");
        }
    }
}
