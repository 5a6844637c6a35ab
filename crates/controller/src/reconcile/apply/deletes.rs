//! Deletes or evicts pods, each only in the state that the decision was made for.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use ordereddeployment_kubernetes::{Budget, ObjectVersion, Refusal, RequestError};
use ordereddeployment_planner::{FailureKind, Pod, Purpose, Target};
use tokio::time::Instant;

use crate::cache::entry::PodEntry;
use crate::cache::expectations::Fact;
use crate::objects::Objects;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::record::{Effect, WriteFailure, word_for};
use crate::reconcile::state::live::LiveReadReason;
use ordereddeployment_wire::PodView;

/// How often a delete is retried with a newer version, if nothing relevant to the decision changed.
const RETRIES: usize = 5;

/// The result of one delete.
#[derive(Debug)]
enum Outcome {
    /// Accepted: the pod is terminating.
    Terminating,
    /// Accepted: the pod is gone at once.
    Deleted,
    /// The pod was gone before.
    Gone,
    /// The pod differs from the decision.
    Changed(Option<Arc<PodEntry>>),
    /// Refused, or failed; the verb.
    Failed(&'static str, RequestError),
}

impl Reconciler<'_> {
    /// How many pods are ready and not terminating.
    pub(super) fn ready_pods(&self) -> usize {
        let pods = self.observation.pods.iter();
        pods.filter(|entry| entry.pod.facts.ready && !entry.pod.terminating).count()
    }

    /// Deletes these pods, in parallel.
    pub(super) async fn delete_batch(&self, targets: &[&Target], purpose: Purpose) -> Vec<Effect> {
        let outcomes = join_all(targets.iter().map(|target| self.delete(target, purpose, false))).await;
        let outcomes = targets.iter().zip(outcomes);
        outcomes.flat_map(|(target, outcome)| self.effects_of(target, purpose, outcome)).collect()
    }

    /// Evicts a pod, unless a recent refusal is still valid.
    pub(super) async fn evict(&self, target: &Target, purpose: Purpose, ready: usize) -> Vec<Effect> {
        if let Some(failure) = self.state.failures.refusal(target.uid(), ready, Instant::now()) {
            return vec![Effect::StillRefused(failure.clone())];
        }
        let outcome = self.delete(target, purpose, true).await;
        let refusal = match &outcome {
            Outcome::Failed(_, error) => error.refusal(),
            _ => None,
        };
        let Some(refusal) = refusal else {
            let accepted = matches!(outcome, Outcome::Terminating | Outcome::Deleted | Outcome::Gone);
            let mut effects = if accepted { vec![Effect::Evicted] } else { Vec::new() };
            effects.extend(self.effects_of(target, purpose, outcome));
            return effects;
        };
        let entry = self.observation.pod(target.uid());
        let labels = entry.map(|entry| entry.labels.clone()).unwrap_or_default();
        let (kind, message) = explain(&self.requests, &self.namespace, target.name(), &labels, refusal).await;
        let mut effects =
            if self.state.writes.recount_due { self.recount_budgets(&target.pod).await } else { Vec::new() };
        effects.push(Effect::EvictionRefused { uid: Arc::clone(target.uid()), ready, kind, message });
        effects
    }

    fn effects_of(&self, target: &Target, purpose: Purpose, outcome: Outcome) -> Vec<Effect> {
        match outcome {
            Outcome::Terminating | Outcome::Deleted => {
                let terminating = matches!(outcome, Outcome::Terminating);
                let entry = self.observation.pod(target.uid()).cloned();
                vec![Effect::PodDeleted { target: target.clone(), purpose, entry, terminating }]
            }
            Outcome::Gone => vec![Effect::Pod(Fact::Gone(self.key.sibling(Arc::clone(target.uid()))))],
            Outcome::Changed(fresh) => {
                let shown = match fresh {
                    Some(fresh) => Effect::Pod(Fact::Is(fresh)),
                    // The pod has no controller now: the watch or the next live read shows it.
                    None => Effect::LiveReadDue(LiveReadReason::Conflict),
                };
                vec![shown, Effect::DecideAgain]
            }
            Outcome::Failed(verb, error) => {
                let doing = if verb == "evict" { "evicting" } else { "deleting" };
                let pod = if self.ctx.owns_sets { format!(" pod {}", target.name()) } else { String::new() };
                let doing = format!("{doing}{pod}");
                let message = error.to_string();
                let failure = WriteFailure::of(FailureKind::Delete, verb, &doing, &error, message);
                let set = Some(Arc::clone(&target.pod.set));
                vec![Effect::Failed(WriteFailure { set, ..failure })]
            }
        }
    }

    async fn delete(&self, target: &Target, purpose: Purpose, evict: bool) -> Outcome {
        let (requests, namespace, name) = (&self.requests, &self.namespace, target.name());
        let verb = if evict { "evict" } else { "delete" };
        let decided = self.observation.pod(target.uid());
        let mut version = target.pod.resource_version.clone();
        let mut conflict = None;
        for attempt in 0.. {
            // The API server counts the budget down before it compares the version of an eviction: a conflict
            // blocks the budget for two minutes (`pkg/registry/core/pod/storage/eviction.go`).
            if evict || conflict.is_some() {
                let fresh = match requests.get::<PodView>(Some(namespace), name).await {
                    Ok(fresh) => fresh.filter(|pod| pod.metadata.uid.as_deref() == Some(&**target.uid())),
                    Err(error) => return Outcome::Failed(verb, error),
                };
                let Some(fresh) = fresh else { return Outcome::Gone };
                let entry = PodEntry::of(self.ctx.family, &fresh);
                // A pod with other labels may have to be released instead.
                let is_same = matches!((decided, &entry), (Some(decided), Some(entry))
                    if decided.labels == entry.labels && counts_as_same(&target.pod, &entry.pod));
                match (entry, conflict) {
                    // The conflict is not about the pod: a webhook, for instance, can refuse with this code.
                    (_, Some(error)) if is_same && attempt > RETRIES => return Outcome::Failed(verb, error),
                    (Some(entry), _) if is_same => version.clone_from(&entry.pod.resource_version),
                    (entry, _) => return Outcome::Changed(entry.map(Arc::new)),
                }
            }
            let object = ObjectVersion { namespace, name, uid: target.uid(), version: &version };
            let answer = if evict {
                requests.evict_pod(&object, word_for(purpose)).await.map(|()| false)
            } else {
                requests.delete_pod(&object, word_for(purpose)).await
            };
            conflict = match answer {
                Ok(true) => return Outcome::Deleted,
                Ok(false) => return Outcome::Terminating,
                Err(error) if error.says_gone(name) => return Outcome::Gone,
                Err(error) if error.is_conflict() => Some(error),
                Err(error) => return Outcome::Failed(verb, error),
            };
        }
        Outcome::Changed(None)
    }
}

/// Whether a delete that was decided for one version is correct for the other: same UID, priority,
/// pause keys, owner, node and availability.
fn counts_as_same(decided: &Pod, fresh: &Pod) -> bool {
    let (one, other) = (&decided.facts, &fresh.facts);
    one.uid == other.uid
        && one.priority == other.priority
        && decided.point == fresh.point
        && decided.set == fresh.set
        && one.node == other.node
        // Time alone makes a ready pod available, and never the reverse.
        && (one.ready, one.ready_since) == (other.ready, other.ready_since)
        && (decided.terminating, decided.finished) == (fresh.terminating, fresh.finished)
}

/// The failure kind of a refused eviction, and a sentence with the names of the budgets.
async fn explain(
    requests: &Objects,
    namespace: &str,
    pod: &str,
    labels: &BTreeMap<String, String>,
    refusal: Refusal,
) -> (FailureKind, String) {
    let waiting = format!("Waiting to evict pod {pod}");
    let (names, counted) = match requests.budgets(namespace).await {
        Ok((mut budgets, beta)) => {
            budgets.retain(|budget| budget.selects(labels, beta));
            let counts = budgets.iter().any(|budget| budget.counts(pod));
            (names(&budgets), if counts { COUNTED } else { "" })
        }
        // The refusal is valid; without permission to list budgets the message says so.
        Err(error) => (format!("which ones is not known: {error}"), ""),
    };
    match refusal {
        Refusal::Named(words) => (FailureKind::Evict, format!("{waiting}: {words}{counted}")),
        Refusal::Unnamed(words) => (FailureKind::Evict, format!("{waiting}: {words} ({names}){counted}")),
        Refusal::Several => {
            let why = "and the API server evicts no pod that has several: only one may select it";
            (
                FailureKind::EvictAmbiguous,
                format!("{waiting}: it is selected by several budgets ({names}), {why}"),
            )
        }
    }
}

/// Why a budget refuses an eviction after one that failed: it is counted before the versions are compared.
const COUNTED: &str =
    ". The budget counts an eviction of this pod that was not carried out, for two minutes at most";

/// The budgets as text for messages.
fn names(budgets: &[Budget]) -> String {
    let mut names: Vec<_> = budgets.iter().map(Budget::name).collect();
    names.sort_unstable();
    match names.as_slice() {
        [] => "no PodDisruptionBudget selects it any more".to_owned(),
        [name] => format!("PodDisruptionBudget {name}"),
        names => format!("PodDisruptionBudgets {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use ordereddeployment_api::PausePoint;
    use ordereddeployment_planner::{Pod, Point};

    use super::counts_as_same;
    use crate::testing::pod;

    #[test]
    fn a_delete_is_retried_only_if_nothing_relevant_changed() {
        let decided = pod("a", 1).pod;
        let unchanged: [fn(&mut Pod); 3] = [
            |pod| pod.resource_version = "2".into(),
            |pod| pod.facts.restarts = 3,
            |pod| pod.facts.cost = Some(1),
        ];
        for change in unchanged {
            let mut fresh = (*decided).clone();
            change(&mut fresh);
            assert!(counts_as_same(&decided, &fresh), "{fresh:?}");
        }
        let changed: [fn(&mut Pod); 8] = [
            |pod| pod.facts.uid = "b".into(),
            |pod| pod.facts.priority = Some(1),
            |pod| pod.point = Point::At { side: PausePoint::Before, duration: Ok(None) },
            |pod| pod.point = Point::Malformed,
            |pod| pod.set = "s2".into(),
            |pod| pod.facts.node = Some("n1".into()),
            |pod| pod.facts.ready = true,
            |pod| pod.terminating = true,
        ];
        for change in changed {
            let mut fresh = (*decided).clone();
            change(&mut fresh);
            assert!(!counts_as_same(&decided, &fresh), "{fresh:?}");
        }
    }
}
