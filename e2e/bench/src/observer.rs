//! The pods of a row, as a watch shows them: every change of every pod, in the order of the commits.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube_runtime::watcher::{self, Event};
use scenarios::{TestCluster, is_ready};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::workload::REVISION;

/// How long a row may take.
pub const LIMIT: Duration = Duration::from_secs(900);

/// A pod.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    pub revision: u32,
    pub ready: bool,
    pub terminating: bool,
}

/// All pods so far, and when they changed.
#[derive(Debug, Default)]
pub struct State {
    /// All pods, terminating ones included.
    pub pods: BTreeMap<String, Observed>,
    /// How many pods are ready and not terminating, by revision.
    ready: BTreeMap<u32, usize>,
    /// How many pods are not terminating.
    active: usize,
    /// The least number of ready pods since the last reset.
    pub least_ready: usize,
    /// The largest number of active pods since the last reset.
    pub most_active: usize,
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

    /// A pod as the watch shows it now; `None`: it is gone. Counts are adjusted, since a row may have many
    /// pods.
    pub fn change(&mut self, name: &str, now: Option<Observed>) {
        self.changed = Some(Instant::now());
        let before = match now {
            Some(now) => self.pods.insert(name.to_owned(), now),
            None => self.pods.remove(name),
        };
        let is_active = |pod: &Observed| !pod.terminating;
        let (before, now) = (before.filter(is_active), now.filter(is_active));
        if let Some(pod) = before {
            *self.ready.entry(pod.revision).or_default() -= usize::from(pod.ready);
            self.active -= 1;
            if pod.revision == 1 && now.is_none() {
                self.deletions.push(name.to_owned());
            }
        }
        if let Some(pod) = now {
            *self.ready.entry(pod.revision).or_default() += usize::from(pod.ready);
            self.active += 1;
        }
        self.least_ready = self.least_ready.min(self.ready.values().sum());
        self.most_active = self.most_active.max(self.active);
    }

    /// Resets what is counted: a new phase of the row begins.
    pub fn reset(&mut self) {
        self.deletions.clear();
        (self.least_ready, self.most_active) = (self.ready.values().sum(), self.active);
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
    _task: JoinSet<()>,
}

impl Observer {
    /// Starts to observe.
    pub fn start(test_cluster: &TestCluster) -> Self {
        let events = watcher::watcher(test_cluster.api::<Pod>(), watcher::Config::default());
        let state = watch::Sender::new(State::default());
        let sender = state.clone();
        let mut task = JoinSet::new();
        task.spawn(events.for_each(move |event| {
            sender.send_modify(|state| match event {
                Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                    state.change(&pod.name_any(), Some(observed(&pod)));
                }
                Ok(Event::Delete(pod)) => state.change(&pod.name_any(), None),
                Ok(Event::Init | Event::InitDone) => {}
                // A second list would hide deletions.
                Err(error) => state.error = Some(error.to_string()),
            });
            std::future::ready(())
        }));
        Self { state, _task: task }
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
    async fn until(&self, what: &str, wanted: impl Fn(&State) -> bool) -> Result<Instant> {
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
        let are_replaced = |state: &State| state.ready_of(2) == pods && state.pods.len() == pods;
        self.until("all pods are replaced", are_replaced).await
    }

    /// Waits until more than this number of pods of the second revision are ready. Returns the number.
    pub async fn more_ready(&self, than: usize) -> Result<usize> {
        self.until("another pod is ready", |state| state.ready_of(2) > than).await?;
        Ok(self.read(|state| state.ready_of(2)))
    }
}

#[cfg(test)]
pub mod tests {
    use super::{Observed, State};

    pub const fn pod(revision: u32, ready: bool, terminating: bool) -> Observed {
        Observed { revision, ready, terminating }
    }

    #[test]
    fn counts_follow_the_pods() {
        let mut state = State::default();
        state.change("a", Some(pod(1, true, false)));
        state.change("b", Some(pod(1, true, false)));
        state.reset();
        for (name, now) in [
            ("c", Some(pod(2, true, false))),
            ("a", Some(pod(1, true, true))),
            ("a", None),
            ("b", None),
            ("d", Some(pod(2, false, false))),
            ("d", None),
        ] {
            state.change(name, now);
        }
        assert_eq!(state.deletions, ["a", "b"]);
        assert_eq!((state.ready_of(1), state.ready_of(2), state.pods.len()), (0, 1, 1));
        assert_eq!((state.least_ready, state.most_active), (1, 3));
    }
}
