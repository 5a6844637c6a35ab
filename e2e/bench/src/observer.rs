//! The pods of a row, as a watch shows them: every change of every pod, in the order of the commits.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};
use kube_runtime::watcher::{self, Event};
use scenarios::is_ready;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::workload::REVISION;

/// How long a row may take.
pub const LIMIT: Duration = Duration::from_secs(900);

/// A pod.
#[derive(Clone, Debug)]
pub struct Observed {
    pub revision: u32,
    pub ready: bool,
    pub terminating: bool,
}

/// How many pods there are, and the extremes since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many pods are not terminating.
    active: usize,
    /// How many of them are ready.
    ready: usize,
    /// The least number of ready pods.
    pub least_ready: usize,
    /// The largest number of active pods.
    pub most_active: usize,
}

impl Tally {
    fn count(&mut self) {
        self.least_ready = self.least_ready.min(self.ready);
        self.most_active = self.most_active.max(self.active);
    }
}

/// All pods so far, and when they changed.
#[derive(Debug, Default)]
pub struct State {
    pods: BTreeMap<String, Observed>,
    /// How many active pods are ready, by revision.
    ready: BTreeMap<u32, usize>,
    /// The counts of all pods.
    pub tally: Tally,
    /// Names of old pods, in the order in which their deletion began.
    pub deletions: Vec<String>,
    changed: Option<Instant>,
    error: Option<String>,
}

impl State {
    /// How many active pods are of that revision and ready.
    pub fn ready_of(&self, revision: u32) -> usize {
        self.ready.get(&revision).copied().unwrap_or_default()
    }

    /// How many pods exist, terminating ones included.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// The names of all pods.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.pods.keys()
    }

    /// A pod as the watch shows it now; `None`: it is gone. Counts are adjusted, since a row may have many
    /// pods.
    pub fn change(&mut self, name: String, now: Option<Observed>) {
        self.changed = Some(Instant::now());
        let before = match now.clone() {
            Some(now) => self.pods.insert(name.clone(), now),
            None => self.pods.remove(&name),
        };
        let active = |pod: Option<Observed>| pod.filter(|pod| !pod.terminating);
        let (before, now) = (active(before), active(now));
        if let Some(pod) = &before
            && pod.revision == 1
            && now.is_none()
        {
            self.deletions.push(name);
        }
        if let Some(pod) = &before {
            *self.ready.entry(pod.revision).or_default() -= usize::from(pod.ready);
            self.tally.active -= 1;
            self.tally.ready -= usize::from(pod.ready);
        }
        if let Some(pod) = &now {
            *self.ready.entry(pod.revision).or_default() += usize::from(pod.ready);
            self.tally.active += 1;
            self.tally.ready += usize::from(pod.ready);
        }
        self.tally.count();
    }

    /// Resets what is counted: a new phase of the row begins.
    pub fn reset(&mut self) {
        self.deletions.clear();
        self.tally = Tally { least_ready: self.tally.ready, most_active: self.tally.active, ..self.tally };
    }
}

fn observed(pod: &Pod) -> Observed {
    Observed {
        revision: pod.labels().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or_default(),
        ready: is_ready(pod),
        terminating: pod.metadata.deletion_timestamp.is_some(),
    }
}

/// A watch of the pods of one namespace. Dropping it ends the watch.
pub struct Observer {
    state: watch::Sender<State>,
    task: JoinHandle<()>,
}

impl Observer {
    /// Starts to observe.
    pub fn start(client: &Client, namespace: &str) -> Self {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let state = watch::Sender::new(State::default());
        let sender = state.clone();
        let task = tokio::spawn(async move {
            let events = watcher::watcher(pods, watcher::Config::default());
            pin_mut!(events);
            while let Some(event) = events.next().await {
                sender.send_modify(|state| match event {
                    Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                        state.change(pod.name_any(), Some(observed(&pod)));
                    }
                    Ok(Event::Delete(pod)) => state.change(pod.name_any(), None),
                    Ok(Event::Init | Event::InitDone) => {}
                    // A second list would hide deletions.
                    Err(error) => state.error = Some(error.to_string()),
                });
            }
        });
        Self { state, task }
    }

    /// Begins a new phase of the row.
    pub fn reset(&self) {
        self.state.send_modify(State::reset);
    }

    /// Reads the state.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.borrow())
    }

    /// Waits until the state satisfies this. Returns when the last change was observed.
    pub async fn until(&self, what: &str, wanted: impl Fn(&State) -> bool) -> Result<Instant> {
        let mut state = self.state.subscribe();
        let wait = state.wait_for(|state| state.error.is_some() || wanted(state));
        let found = tokio::time::timeout(LIMIT, wait).await;
        let found = found.with_context(|| format!("{what}: not within {} s", LIMIT.as_secs()))??;
        if let Some(error) = &found.error {
            bail!("the watch of pods failed: {error}");
        }
        Ok(found.changed.unwrap_or_else(Instant::now))
    }

    /// Waits until all of these pods of the first revision are ready.
    pub async fn until_created(&self, pods: usize) -> Result<Instant> {
        self.until("all pods are ready", |state| state.ready_of(1) == pods).await
    }

    /// Waits until all pods are of the second revision and ready, and no others exist.
    pub async fn until_replaced(&self, pods: usize) -> Result<Instant> {
        self.until("all pods are replaced", |state| state.ready_of(2) == pods && state.len() == pods).await
    }

    /// Waits until more than this number of pods of that revision are ready. Returns the number.
    pub async fn more_ready(&self, revision: u32, than: usize) -> Result<usize> {
        self.until("another pod is ready", |state| state.ready_of(revision) > than).await?;
        Ok(self.read(|state| state.ready_of(revision)))
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
pub mod tests {
    use super::{Observed, State};

    pub fn pod(revision: u32, ready: bool, terminating: bool) -> Observed {
        Observed { revision, ready, terminating }
    }

    #[test]
    fn counts_follow_the_pods() {
        let mut state = State::default();
        state.change("a".to_owned(), Some(pod(1, true, false)));
        state.change("b".to_owned(), Some(pod(1, true, false)));
        state.reset();
        for (name, now) in [
            ("c", Some(pod(2, true, false))),
            ("a", Some(pod(1, true, true))),
            ("a", None),
            ("b", None),
            ("d", Some(pod(2, false, false))),
            ("d", None),
        ] {
            state.change(name.to_owned(), now);
        }
        assert_eq!(state.deletions, ["a", "b"]);
        assert_eq!((state.ready_of(1), state.ready_of(2), state.len()), (0, 1, 1));
        assert_eq!((state.tally.least_ready, state.tally.most_active), (1, 3));
    }
}
