//! Creates pods, in batches that double as long as all goes well.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use kube::ResourceExt;
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{EventType, FailureKind};
use ordereddeployment_wire::{PodView, new_pod};

use super::{Interrupt, MOST, worst};
use crate::cache::entry::{Entry, PodEntry, SetEntry};
use crate::client::error::RequestError;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::state::LiveReadReason;
use crate::runtime::pod_names::without_name;

/// The largest batch.
const LARGEST: usize = 100;

/// The sizes of the batches in which so many pods are created.
pub(crate) fn batches(count: usize) -> impl Iterator<Item = usize> {
    let mut left = count;
    let mut next = 1;
    std::iter::from_fn(move || {
        let batch = left.min(next);
        left -= batch;
        next = (next * 2).min(LARGEST);
        (batch > 0).then_some(batch)
    })
}

impl Reconciler<'_> {
    pub(super) async fn create_pods(&mut self, hash: &str, count: usize) -> Result<(), Interrupt> {
        let sets = self.sets();
        let set = sets.iter().find(|entry| entry.set.hash == hash && !entry.is_terminating());
        let Some(set) = set else {
            tracing::warn!(hash, "no set for the pods to create");
            return Err(Interrupt::DecideAgain);
        };
        if !set.object.spec.selector.matches(&set.template().labels()) {
            return Err(self.not_selecting(&set.set.name));
        }
        let known = self.pods(&sets);
        let mut taken: BTreeSet<String> = known.iter().map(|entry| entry.pod.name.clone()).collect();
        if self.state.altered_creates.contains_key(set.uid()) {
            self.try_pod(set).await?;
        }
        for batch in batches(count.min(MOST)) {
            let names: Vec<String> = (0..batch)
                .map(|_| {
                    let name = self.ctx.names.pod(&set.set.name, |name| taken.contains(name));
                    taken.insert(name.clone());
                    name
                })
                .collect();
            self.check_still_wanted()?;
            self.check_object_exists(batch).await?;
            self.create_batch(set, &names).await?;
        }
        if count > MOST { Err(Interrupt::Unfinished) } else { Ok(()) }
    }

    async fn create_batch(&mut self, set: &SetEntry, names: &[String]) -> Result<(), Interrupt> {
        let template = &set.template();
        let answers = join_all(names.iter().map(|name| {
            let pod = new_pod(&set.set.name, set.uid(), template, name, &self.namespace);
            let (requests, namespace) = (&self.requests, &self.namespace);
            async move { requests.create_pod(namespace, &pod, false).await }
        }))
        .await;
        let (mut halt, taken_before) = (None, self.taken > 0);
        let now = self.ctx.clock.now();
        if answers.iter().any(|answer| answer.as_ref().is_err_and(RequestError::is_already_there)) {
            // The names are random: it is rather ours, made by a request that something on the way repeated.
            self.taken += 1;
            self.state.live_read = Some(LiveReadReason::Unknown);
        }
        for (name, answer) in names.iter().zip(answers) {
            match answer {
                Ok(view) => {
                    self.ctx.metrics.pod_creations.inc();
                    self.state.created += 1;
                    if let Some(entry) = PodEntry::of(&view) {
                        self.state.pods.present(entry, now);
                    }
                    if let Some(change) = change_of(set, &view) {
                        worst(&mut halt, self.altered(set.uid(), &format!("Pod {name}"), &change));
                        continue;
                    }
                    self.state.succeeded(FailureKind::Create);
                    let message = format!("Created pod {name}");
                    let deployment = &self.state.deployment;
                    self.ctx.events.publish_message(
                        deployment,
                        EventType::Normal,
                        reason::SUCCESSFUL_CREATE,
                        message,
                    );
                }
                Err(error) if error.is_already_there() && !taken_before => {
                    halt.get_or_insert(Interrupt::DecideAgain);
                }
                Err(error) => {
                    let message = without_name(&error.to_string(), name, &set.set.name);
                    let failed =
                        self.failed(FailureKind::Create, "create", "creating a pod", &error, message);
                    worst(&mut halt, failed);
                }
            }
        }
        halt.map_or(Ok(()), Err)
    }
}

impl Reconciler<'_> {
    /// Asks whether a pod of this set would come back as its own, where the last one did not: nothing that is made counts before.
    async fn try_pod(&mut self, set: &SetEntry) -> Result<(), Interrupt> {
        let name = self.ctx.names.pod(&set.set.name, |_| false);
        let pod = new_pod(&set.set.name, set.uid(), &set.template(), &name, &self.namespace);
        match self.requests.create_pod(&self.namespace, &pod, true).await {
            Ok(view) if change_of(set, &view).is_none() => {
                self.state.altered_creates.remove(set.uid());
                Ok(())
            }
            Ok(_) => Err(self.still_altered(set.uid())),
            Err(error) => {
                let message = without_name(&error.to_string(), &name, &set.set.name);
                Err(self.failed(FailureKind::Create, "create", "trying a pod", &error, message))
            }
        }
    }

    /// Somebody changed a set so that no pod of it would be its own.
    fn not_selecting(&mut self, set: &str) -> Interrupt {
        let message = format!(
            "set {set} does not select the pods of its own template: delete it, and another one comes"
        );
        self.halts(format!("Error creating pods: {message}"), message)
    }

    /// Ends the act, where what somebody makes of objects keeps it from going on: the event, and the message of the condition.
    pub(super) fn halts(&mut self, told: String, message: String) -> Interrupt {
        self.warn(FailureKind::Create.reason(), told);
        Interrupt::Failed(self.state.failed(FailureKind::Create, message, self.ctx.clock.now()))
    }

    /// What was created came back as another's.
    pub(super) fn altered(&mut self, owner: &Arc<str>, what: &str, change: &str) -> Interrupt {
        let message = format!(
            "{what} was created, but came back {change}, as if a mutating webhook had changed it. No other one is created before a \
             dry run comes back unchanged"
        );
        self.state.altered_creates.insert(Arc::clone(owner), message);
        self.still_altered(owner)
    }

    /// What would be created still comes back as another's.
    pub(super) fn still_altered(&mut self, owner: &Arc<str>) -> Interrupt {
        let message = self.state.altered_creates.get(owner).cloned().unwrap_or_default();
        self.ctx.metrics.write_failed("create");
        self.halts(message.clone(), message)
    }
}

/// What keeps a pod that was created for this set from being its own.
fn change_of(set: &SetEntry, pod: &PodView) -> Option<String> {
    if pod.set_uid() != Some(&**set.uid()) {
        return Some("without its owner reference".to_owned());
    }
    let selector = &set.object.spec.selector;
    let matches = selector.matches(pod.labels());
    (!matches).then(|| format!("without the labels that its set selects ({})", selector.to_selector_string()))
}

#[cfg(test)]
mod tests {
    use super::batches;

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
            assert_eq!(batches(count).collect::<Vec<_>>(), expected, "{count}");
        }
    }
}
