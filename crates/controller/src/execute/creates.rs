//! Creates pods, in batches that double as long as all goes well.

use std::collections::BTreeSet;

use futures::future::join_all;
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{EventType, Hindrance, new_pod};

use super::{Halt, worst};
use crate::entry::{Entry, PodEntry};
use crate::memory::Due;
use crate::reconcile::Pass;

/// The largest batch.
const LARGEST: usize = 500;

/// The most pods that one act creates of one set. Then the object is looked at anew: whoever asked for two billion pods by
/// mistake must be able to take it back.
const MOST: usize = 1000;

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

impl Pass<'_> {
    pub(super) async fn create_pods(&mut self, hash: &str, count: usize) -> Result<(), Halt> {
        let sets = self.sets();
        let set = sets.iter().find(|entry| entry.set.hash == hash && !entry.is_terminating());
        let Some(set) = set else {
            tracing::warn!(hash, "no set for the pods to create");
            return Err(Halt::DecideAgain);
        };
        let known = self.pods(&sets);
        let mut taken: BTreeSet<String> = known.iter().map(|entry| entry.pod.name.clone()).collect();
        for batch in batches(count.min(MOST)) {
            let names: Vec<String> = (0..batch)
                .map(|_| {
                    let name = self.ctx.names.pod(&set.set.name, |name| taken.contains(name));
                    taken.insert(name.clone());
                    name
                })
                .collect();
            self.look()?;
            self.create_batch(set, &names).await?;
        }
        if count > MOST { Err(Halt::Unfinished) } else { Ok(()) }
    }

    async fn create_batch(&mut self, set: &crate::entry::SetEntry, names: &[String]) -> Result<(), Halt> {
        let template = &set.object.spec.template;
        let answers = join_all(names.iter().map(|name| {
            let pod = new_pod(&set.set.name, set.uid(), template, name, &self.namespace);
            let (calls, namespace) = (&self.ctx.calls, &self.namespace);
            async move { calls.create_pod(namespace, &pod, false).await }
        }))
        .await;
        let mut halt = None;
        let now = self.ctx.clock.now();
        for (name, answer) in names.iter().zip(answers) {
            match answer {
                Ok(view) => {
                    self.ctx.metrics.pod_creations.inc();
                    self.memory.succeeded(Hindrance::Create);
                    if let Some(entry) = PodEntry::of(&view) {
                        self.memory.pods.present(entry, now);
                    }
                    let message = format!("Created pod {name}");
                    let deployment = &self.memory.deployment;
                    self.ctx.events.tell_of(
                        deployment,
                        EventType::Normal,
                        reason::SUCCESSFUL_CREATE,
                        message,
                    );
                }
                // The names are random: it is rather ours, made by a request that something on the way repeated.
                Err(error) if error.is_already_there() => {
                    self.memory.due = Some(Due::Unknown);
                    halt.get_or_insert(Halt::DecideAgain);
                }
                Err(error) => {
                    let message = without_name(&error.to_string(), name, &set.set.name);
                    let failed = self.failed(Hindrance::Create, "create", "creating a pod", &error, message);
                    worst(&mut halt, failed);
                }
            }
        }
        halt.map_or(Ok(()), Err)
    }
}

/// Words about a pod without the random part of its name, so that equal failures read alike and are told as one.
pub(crate) fn without_name(words: &str, pod: &str, set: &str) -> String {
    words.replace(pod, &format!("{set}-"))
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
            (2000, &[1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500, 489]),
        ];
        for (count, expected) in table {
            assert_eq!(batches(count).collect::<Vec<_>>(), expected, "{count}");
        }
    }
}
