//! Creates pods in batches that double as long as all creates succeed (slow start).

use std::sync::Arc;

use futures::{StreamExt, stream};
use kube::ResourceExt;
use ordereddeployment_api::names::reason;
use ordereddeployment_kubernetes::{RequestError, without_name};
use ordereddeployment_planner::FailureKind;
use ordereddeployment_wire::{PodView, new_pod};
use serde_json::Value;

use crate::cache::entry::{Entry, PodEntry, SetEntry};
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::record::{Effect, WriteFailure};
use crate::reconcile::state::live::LiveReadReason;

/// The largest batch.
const LARGEST: usize = 100;

/// How many creates are sent at once. Each needs a connection of its own, with a TLS handshake.
const PARALLEL: usize = 25;

/// The creates of one set, in batches that double.
#[derive(Debug)]
pub(super) struct Batches {
    /// How many pods are not sent yet.
    pub(super) left: usize,
    /// The size of the next batch, if as many are left.
    pub(super) next: usize,
}

impl Batches {
    pub(super) fn of(count: usize, next: usize) -> Self {
        Self { left: count, next }
    }

    /// Takes the next batch. Returns its size; 0 if there is none.
    pub(super) fn take(&mut self) -> usize {
        let batch = self.left.min(self.next);
        self.left -= batch;
        self.next = (self.next * 2).min(LARGEST);
        batch
    }
}

impl Reconciler<'_> {
    /// Whether no pod of the set is there, so that the API server may refuse its template. The template of a
    /// plain Deployment is checked when it is stored, and that of an abort has run before.
    pub(super) fn is_first_of(&self, set: &SetEntry) -> bool {
        let status = self.state.deployment.status.as_ref();
        let aborts = status.is_some_and(|status| status.aborted.is_some());
        let has_pods = self.observation.pods.iter().any(|entry| entry.pod.set == *set.uid());
        self.ctx.owns_sets && !aborts && !has_pods
    }

    /// Creates a pod. The first one of a template is refused for unknown fields, if there are others.
    async fn create_one(&self, pod: &Value, is_first: bool) -> Result<PodView, RequestError> {
        if !is_first {
            return self.requests.create::<PodView>(&self.namespace, pod, false).await;
        }
        match self.requests.create_first_pod(&self.namespace, pod, false).await {
            Ok((pod, lost)) => {
                self.warn_of_lost(&lost);
                Ok(pod)
            }
            Err(error) if error.is_of_unknown_fields() && self.observation.pods.is_empty() => {
                let message =
                    format!("Pods are created without fields that the API server does not know: {error}");
                self.warn(reason::UNKNOWN_FIELDS, message);
                self.requests.create::<PodView>(&self.namespace, pod, false).await
            }
            Err(error) => Err(error),
        }
    }

    /// Creates that many pods, in parallel.
    pub(super) async fn create_batch(&self, set: &SetEntry, count: usize, is_first: bool) -> Vec<Effect> {
        let names: Vec<String> = (0..count).map(|_| self.ctx.names.pod(&set.set.name)).collect();
        let template = &set.template();
        let requests: Vec<_> = names
            .iter()
            .map(|name| {
                let pod = new_pod(self.ctx.family, &set.set.name, set.uid(), template, name, &self.namespace);
                async move { self.create_one(&pod, is_first).await }
            })
            .collect();
        let answers: Vec<_> = stream::iter(requests).buffered(PARALLEL).collect().await;
        let mut effects = Vec::new();
        if answers.iter().any(|answer| answer.as_ref().is_err_and(RequestError::is_already_there)) {
            // Names are random: most likely the pod is ours, created by a request that a proxy repeated.
            effects.extend([Effect::NameTaken, Effect::LiveReadDue(LiveReadReason::Unknown)]);
        }
        let taken_before = self.taken > 0;
        let doing = if self.ctx.owns_sets { "creating a pod" } else { "creating" };
        for (name, answer) in names.into_iter().zip(answers) {
            match answer {
                Ok(view) => {
                    effects.push(Effect::PodCreated(PodEntry::of(self.ctx.family, &view)));
                    match change_of(set, &view) {
                        Some(change) => effects.extend(altered(set.uid(), &format!("Pod {name}"), &change)),
                        None => effects.push(Effect::PodAccepted { set: Arc::clone(set.uid()), name }),
                    }
                }
                Err(error) if error.is_already_there() && !taken_before => effects.push(Effect::DecideAgain),
                Err(error) => {
                    let message = without_name(&error.to_string(), &name, &set.set.name);
                    effects.push(create_failed(set, doing, &error, message));
                }
            }
        }
        effects
    }

    /// Checks by a dry run whether a pod of this set comes back unchanged, after the last one did not.
    pub(super) async fn try_pod(&self, set: &SetEntry) -> Vec<Effect> {
        let name = self.ctx.names.pod(&set.set.name);
        let pod = new_pod(self.ctx.family, &set.set.name, set.uid(), &set.template(), &name, &self.namespace);
        match self.requests.create::<PodView>(&self.namespace, &pod, true).await {
            Ok(view) if change_of(set, &view).is_none() => {
                vec![Effect::Unaltered(Arc::clone(set.uid()))]
            }
            Ok(_) => vec![self.still_altered(set.uid())],
            Err(error) => {
                let message = without_name(&error.to_string(), &name, &set.set.name);
                vec![create_failed(set, "trying a pod", &error, message)]
            }
        }
    }

    /// Objects created for that owner still come back changed.
    pub(super) fn still_altered(&self, owner: &str) -> Effect {
        let message = self.state.writes.altered_creates.get(owner).cloned().unwrap_or_default();
        altered_failure(message)
    }
}

/// Fails if the template of the set was changed so that its selector matches no pod of it.
pub(super) fn selects_no_pod(set: &SetEntry) -> Option<Effect> {
    if set.object.spec.selector.matches(&set.template().labels()) {
        return None;
    }
    let name = &set.set.name;
    let message =
        format!("set {name} does not select the pods of its own template: delete it, and another one comes");
    let event = format!("Error creating pods: {message}");
    Some(Effect::Failed(WriteFailure::unusable(None, event, message)))
}

/// An object created for that owner came back changed, so that it is not the owner's.
pub(super) fn altered(owner: &Arc<str>, what: &str, change: &str) -> [Effect; 2] {
    let message = format!(
        "{what} was created, but came back {change}, as if a mutating webhook had changed it. No other one \
         is created before a dry run comes back unchanged"
    );
    let owner = Arc::clone(owner);
    [Effect::Altered { owner, message: message.clone() }, altered_failure(message)]
}

fn altered_failure(message: String) -> Effect {
    Effect::Failed(WriteFailure::unusable(Some("create"), message.clone(), message))
}

fn create_failed(set: &SetEntry, doing: &str, error: &RequestError, message: String) -> Effect {
    let failure = WriteFailure::of(FailureKind::Create, "create", doing, error, message);
    Effect::Failed(WriteFailure { set: Some(Arc::clone(set.uid())), ..failure })
}

/// The change that prevents a pod created for this set from belonging to it.
fn change_of(set: &SetEntry, pod: &PodView) -> Option<String> {
    if set.family().set_key(&pod.metadata).as_ref() != Some(set.key()) {
        return Some("without its owner reference".to_owned());
    }
    let selector = &set.object.spec.selector;
    let matches = selector.matches(pod.labels());
    (!matches).then(|| format!("without the labels that its set selects ({})", selector.to_selector_string()))
}

#[cfg(test)]
mod tests {
    use super::Batches;

    #[test]
    fn batches_double_up_to_the_largest() {
        let table: [(usize, &[usize]); 5] = [
            (0, &[]),
            (1, &[1]),
            (4, &[1, 2, 1]),
            (10, &[1, 2, 4, 3]),
            (500, &[1, 2, 4, 8, 16, 32, 64, 100, 100, 100, 73]),
        ];
        for (count, expected) in table {
            let mut batches = Batches::of(count, 1);
            let sizes = std::iter::from_fn(|| Some(batches.take()).filter(|batch| *batch > 0));
            assert_eq!(sizes.collect::<Vec<_>>(), expected, "{count}");
        }
    }
}
