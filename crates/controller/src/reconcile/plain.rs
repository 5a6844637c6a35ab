//! What is stored for plain Deployments and ReplicaSets: the statuses of sets, and the state of a rollout.
//!
//! A status has the fields that the built-in ReplicaSet controller computes (`calculateStatus` in Kubernetes'
//! `pkg/controller/replicaset/replica_set_utils.go`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use kube::ResourceExt;
use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_api::names::{annotation, condition, reason};
use ordereddeployment_planner::{Act, FailureKind, pauses, whole_seconds};
use ordereddeployment_wire::{PlainDeployment, rollout_state};
use serde_json::{Map, Value, json};

use crate::cache::entry::{Entry, PodEntry, SetEntry};
use crate::error::Error;
use crate::reconcile::merge_patch::diff;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::report::{StatusWrite, is_available};
use crate::reconcile::state::live::LiveReadReason;

impl Reconciler<'_> {
    /// Stores the state of a Deployment's rollout, and `spec.paused` with it, in one write that fails if
    /// another client wrote since the last read.
    pub(crate) async fn store_rollout_state(
        &mut self,
        status: &OrderedDeploymentStatus,
    ) -> Result<StatusWrite, Error> {
        let before = self.status();
        if before == *status {
            return Ok(StatusWrite::Yes);
        }
        let version = self.state.deployment.resource_version();
        let mut patch = json!({"metadata": {
            "resourceVersion": version,
            "annotations": {annotation::ROLLOUT_STATE: rollout_state(status)},
        }});
        if let Some(paused) = pauses(&before, status) {
            patch["spec"] = json!({"paused": paused});
        }
        let write = self.ctx.begin_write(&self.state.deployment);
        let answer = self.requests.patch_whole::<PlainDeployment>(&self.namespace, &self.name, &patch).await;
        let stored = self.stored(write, answer.map(|PlainDeployment(stored)| stored), "update")?;
        Ok(if stored.is_some() { StatusWrite::Yes } else { StatusWrite::Conflict })
    }

    /// Reports that the API server does not store the pause of a plain Deployment. Pods beyond the size wait.
    pub(crate) async fn report_unstored_pause(&mut self, error: &Error) {
        let Error::StoreStatus(cause) = error else { return };
        let is_refused =
            cause.code().is_some_and(|code| (400..500).contains(&code) && ![409, 429].contains(&code));
        // Anything else may be over in a moment. A webhook that is down answers with 500, again and again.
        let is_repeated = self.state.failures.in_a_row > 0 && !cause.is_conflict();
        if self.ctx.owns_sets || error.is_not_leading() || !(is_refused || is_repeated) {
            return;
        }
        self.warn(reason::PAUSE_NOT_STORED, format!("Cannot pause or resume the rollout: {error}"));
        let wait =
            format!("Pods beyond the size of the set wait: cannot pause or resume the rollout: {error}");
        let now = self.ctx.clock.now();
        let too_many = |entry: &&Arc<SetEntry>| {
            let active = Counts::of(entry, &self.observation.pods, now).active;
            active > usize::try_from(entry.set.replicas).unwrap_or(0)
        };
        let sets = self.observation.sets.iter().filter(too_many);
        let held_back = sets.map(|entry| (Arc::clone(entry.uid()), wait.clone())).collect();
        self.report_plain_sets(&Act { held_back, ..Act::default() }).await;
    }

    /// Stores the status of each set that differs. Returns whether all are stored.
    pub(crate) async fn report_plain_sets(&mut self, act: &Act) -> bool {
        let mut all = true;
        for entry in self.observation.sets.clone() {
            let Some(old) = entry.plain_status.clone() else { continue };
            let status = self.plain_status(&entry, &old, act);
            let Some(change) = diff(&old, &status) else { continue };
            let is_only_terminating =
                change.as_object().is_some_and(|it| it.keys().all(|key| key == TERMINATING));
            if is_only_terminating && !self.ctx.stores_terminating.load(Ordering::Relaxed) {
                continue;
            }
            self.ctx.reports.sending(entry.key(), &status);
            match self.store_set_status(&entry, &change).await {
                Ok(stored) => {
                    // Kubernetes before 1.33, or without the feature gate, drops the field. Every write asks
                    // again: two versions can be behind one address.
                    let is_kept = stored.is_some_and(|stored| stored.get(TERMINATING).is_some());
                    self.ctx.stores_terminating.store(is_kept, Ordering::Relaxed);
                }
                Err(error) if error.is_not_found() => self.ctx.reports.remove(entry.key()),
                Err(error) => {
                    if error.is_conflict() {
                        self.state.live.ask(LiveReadReason::Conflict);
                    }
                    all = false;
                }
            }
        }
        all
    }

    fn plain_status(&self, entry: &SetEntry, old: &Value, act: &Act) -> Value {
        let now = self.ctx.clock.now();
        let pods = &self.observation.pods;
        let counts = Counts::of(entry, pods, now);
        let mut status = counts.fields();
        status.insert("observedGeneration".to_owned(), json!(entry.object.metadata.generation));
        let size = usize::try_from(entry.set.replicas).unwrap_or(0);
        let failure = self.state.failures.current.as_ref().filter(|failure| match failure.what {
            FailureKind::Create => counts.active < size,
            FailureKind::Delete => counts.active > size,
            FailureKind::Claim | FailureKind::Evict | FailureKind::EvictAmbiguous => false,
        });
        let unclaimed = self.state.claims.message(|set| set == Some(entry.uid()));
        let unclaimed = unclaimed.as_deref().map(|message| (FailureKind::Claim.reason(), message));
        let failure =
            unclaimed.or_else(|| failure.map(|failure| (failure.what.reason(), failure.message.as_str())));
        let waits = act.held_back.get(entry.uid()).map(|message| (reason::ROLLOUT_HELD, message.as_str()));
        let wanted = [(condition::REPLICA_FAILURE, failure), (condition::PODS_HELD_BACK, waits)];
        let conditions = conditions(old, &wanted, now);
        if !conditions.is_empty() {
            status.insert("conditions".to_owned(), conditions.into());
        }
        Value::Object(status)
    }
}

/// The field that API servers store since 1.33.
const TERMINATING: &str = "terminatingReplicas";

/// The pods of a set, as its status counts them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    active: usize,
    fully_labeled: usize,
    ready: usize,
    available: usize,
    terminating: usize,
}

impl Counts {
    fn of(entry: &SetEntry, pods: &[Arc<PodEntry>], now: Timestamp) -> Self {
        let labels = entry.template().labels();
        let mut counts = Self::default();
        for pod in pods.iter().filter(|pod| pod.owner() == entry.key() && !pod.pod.finished) {
            if pod.pod.terminating {
                // `FilterClaimedPods`: those that left the selector do not count.
                counts.terminating += usize::from(entry.object.spec.selector.matches(&pod.labels));
                continue;
            }
            counts.active += 1;
            counts.fully_labeled +=
                usize::from(labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value)));
            counts.ready += usize::from(pod.pod.facts.ready);
            counts.available += usize::from(is_available(&pod.pod, entry.set.min_ready_seconds, now));
        }
        counts
    }

    /// The fields as the API server stores them: 0 is absent in all but two.
    fn fields(&self) -> Map<String, Value> {
        let numbers = [
            ("fullyLabeledReplicas", self.fully_labeled),
            ("readyReplicas", self.ready),
            ("availableReplicas", self.available),
        ];
        let numbers = numbers.into_iter().filter(|(_, number)| *number > 0);
        let always = [("replicas", self.active), (TERMINATING, self.terminating)];
        let fields = always.into_iter().chain(numbers);
        fields.map(|(key, number)| (key.to_owned(), json!(number))).collect()
    }
}

/// The conditions of a set: those of `wanted` with a reason and a message, and other clients'.
fn conditions(old: &Value, wanted: &[(&str, Option<(&'static str, &str)>)], now: Timestamp) -> Vec<Value> {
    let old = old.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let type_of =
        |condition: &Value| condition.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut by_type: BTreeMap<&str, Value> = BTreeMap::new();
    for (type_, content) in wanted {
        let Some((reason, message)) = content else { continue };
        let known = old.iter().find(|condition| type_of(condition) == *type_);
        let since = known.and_then(|known| known.get("lastTransitionTime")).cloned();
        by_type.insert(
            type_,
            json!({
                "type": type_, "status": "True", "reason": reason, "message": message,
                "lastTransitionTime": since.unwrap_or_else(|| json!(whole_seconds(now))),
            }),
        );
    }
    let is_ours = |condition: &Value| wanted.iter().any(|(type_, _)| type_of(condition) == *type_);
    // In their places, so that nothing is written if nothing changes.
    let mut conditions: Vec<Value> = old
        .iter()
        .filter_map(|condition| match by_type.remove(type_of(condition).as_str()) {
            Some(ours) => Some(ours),
            None if is_ours(condition) => None,
            None => Some(condition.clone()),
        })
        .collect();
    conditions.extend(by_type.into_values());
    conditions
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{Counts, conditions};

    #[test]
    fn zero_is_absent_except_for_the_replicas() {
        let counts = Counts { active: 2, ready: 1, ..Counts::default() };
        let fields = json!({"replicas": 2, "readyReplicas": 1, "terminatingReplicas": 0});
        assert_eq!(Value::Object(counts.fields()), fields);
        let fields = json!({"replicas": 0, "terminatingReplicas": 0});
        assert_eq!(Value::Object(Counts::default().fields()), fields);
    }

    #[test]
    fn conditions_keep_their_time_and_those_of_other_clients_stay() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let none = json!({});
        let first = conditions(&none, &[("A", Some(("Reason", "one"))), ("B", None)], at(10));
        assert_eq!(
            first,
            [json!({"type": "A", "status": "True", "reason": "Reason", "message": "one",
                    "lastTransitionTime": "1970-01-01T00:00:10Z"})]
        );
        let other = json!({"type": "Other", "status": "False"});
        let old = json!({"conditions": [first[0], other]});
        let second = conditions(&old, &[("A", Some(("Reason", "two")))], at(20));
        assert_eq!(
            (&second[0]["message"], &second[0]["lastTransitionTime"]),
            (&json!("two"), &json!("1970-01-01T00:00:10Z"))
        );
        assert_eq!(second[1], other);
        assert_eq!(conditions(&old, &[("A", None)], at(30)), [other]);
    }
}
