//! The pods of a row as a watch shows them, and the promises that every run must keep.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};
use kube_runtime::watcher::{self, Event};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::contender::REVISION;

/// How long a row may take.
const LIMIT: Duration = Duration::from_secs(900);

/// A pod.
#[derive(Clone, Debug)]
struct Observed {
    revision: u32,
    ready: bool,
    terminating: bool,
}

/// All pods so far, and when they changed.
#[derive(Clone, Debug, Default)]
pub struct State {
    pods: BTreeMap<String, Observed>,
    /// Names of old pods, in the order in which their deletion began, with its time.
    pub deletions: Vec<(String, Instant)>,
    /// How many pods of the second revision were created, ready or not.
    pub created: usize,
    /// The least number of available pods.
    pub least_available: usize,
    /// The largest number of pods that are not terminating.
    pub most_active: usize,
    error: Option<String>,
}

impl State {
    fn active(&self) -> impl Iterator<Item = &Observed> {
        self.pods.values().filter(|pod| !pod.terminating)
    }

    /// How many active pods are of that revision and ready.
    pub fn ready_of(&self, revision: u32) -> usize {
        self.active().filter(|pod| pod.revision == revision && pod.ready).count()
    }

    /// Whether no pod exists, not even a terminating one.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// How many pods exist, terminating ones included.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// The names of all pods.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.pods.keys()
    }

    fn apply(&mut self, pod: &Pod) {
        let observed = observed(pod);
        let before = self.pods.insert(pod.name_any(), observed.clone());
        let was_there = before.as_ref().is_some_and(|before| !before.terminating);
        if observed.revision == 2 && before.is_none() {
            self.created += 1;
        }
        if observed.revision == 1 && observed.terminating && was_there {
            self.deletions.push((pod.name_any(), Instant::now()));
        }
        self.count();
    }

    fn remove(&mut self, pod: &Pod) {
        let before = self.pods.remove(&pod.name_any());
        if before.is_some_and(|before| before.revision == 1 && !before.terminating) {
            self.deletions.push((pod.name_any(), Instant::now()));
        }
        self.count();
    }

    fn count(&mut self) {
        self.least_available = self.least_available.min(self.active().filter(|pod| pod.ready).count());
        self.most_active = self.most_active.max(self.active().count());
    }
}

fn observed(pod: &Pod) -> Observed {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    Observed {
        revision: pod.labels().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or_default(),
        ready: conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True"),
        terminating: pod.metadata.deletion_timestamp.is_some(),
    }
}

/// A watch of the pods of one namespace.
pub struct Observer {
    state: Arc<watch::Sender<State>>,
    task: JoinHandle<()>,
}

impl Observer {
    /// Starts to observe.
    pub fn start(client: &Client, namespace: &str) -> Self {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let state = Arc::new(watch::Sender::new(State::default()));
        let sender = Arc::clone(&state);
        let task = tokio::spawn(async move {
            let events = watcher::watcher(pods, watcher::Config::default());
            pin_mut!(events);
            while let Some(event) = events.next().await {
                sender.send_modify(|state| match event {
                    Ok(Event::Apply(pod) | Event::InitApply(pod)) => state.apply(&pod),
                    Ok(Event::Delete(pod)) => state.remove(&pod),
                    Ok(Event::Init | Event::InitDone) => {}
                    // A second list would hide deletions.
                    Err(error) => state.error = Some(error.to_string()),
                });
            }
        });
        Self { state, task }
    }

    /// Resets what is counted: from now on, a new phase of the row is observed.
    pub fn reset(&self) {
        self.state.send_modify(|state| {
            state.deletions.clear();
            state.created = 0;
            (state.least_available, state.most_active) = (usize::MAX, 0);
            state.count();
        });
    }

    /// Waits until the state satisfies this. Returns it, and when.
    pub async fn until(&self, what: &str, wanted: impl Fn(&State) -> bool) -> Result<(State, Instant)> {
        let mut state = self.state.subscribe();
        let wait = state.wait_for(|state| state.error.is_some() || wanted(state));
        let found = tokio::time::timeout(LIMIT, wait).await;
        let found = found.with_context(|| format!("{what}: not within {} s", LIMIT.as_secs()))??.clone();
        if let Some(error) = &found.error {
            bail!("the watch of pods failed: {error}");
        }
        Ok((found, Instant::now()))
    }

    /// Waits until that pod is ready.
    pub async fn until_ready(&self, name: &str) -> Result<()> {
        self.until(name, |state| state.pods.get(name).is_some_and(|pod| pod.ready)).await.map(drop)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
