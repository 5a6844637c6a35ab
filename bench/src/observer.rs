//! The pods of a row as a watch shows them, and the promises that every run must keep.

use std::collections::BTreeMap;
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
#[derive(Clone, Copy, Debug)]
struct Observed {
    revision: u32,
    ready: bool,
    terminating: bool,
}

/// All pods so far, and when they changed.
#[derive(Clone, Debug, Default)]
pub struct State {
    pods: BTreeMap<String, Observed>,
    /// How many pods are not terminating.
    active: usize,
    /// How many of them are ready, by revision.
    ready: BTreeMap<u32, usize>,
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
    /// How many active pods are of that revision and ready.
    pub fn ready_of(&self, revision: u32) -> usize {
        self.ready.get(&revision).copied().unwrap_or_default()
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

    /// A pod as the watch shows it now; `None`: it is gone. Counts are adjusted, since a row may have many pods.
    fn change(&mut self, name: String, now: Option<Observed>) {
        let before = match now {
            Some(now) => self.pods.insert(name.clone(), now),
            None => self.pods.remove(&name),
        };
        let active = |pod: Option<Observed>| pod.filter(|pod| !pod.terminating);
        if let Some(pod) = active(before) {
            self.active -= 1;
            *self.ready.entry(pod.revision).or_default() -= usize::from(pod.ready);
            if pod.revision == 1 && active(now).is_none() {
                self.deletions.push((name, Instant::now()));
            }
        }
        if let Some(pod) = active(now) {
            self.active += 1;
            *self.ready.entry(pod.revision).or_default() += usize::from(pod.ready);
        }
        if before.is_none() && now.is_some_and(|pod| pod.revision == 2) {
            self.created += 1;
        }
        self.count();
    }

    fn count(&mut self) {
        self.least_available = self.least_available.min(self.ready.values().sum());
        self.most_active = self.most_active.max(self.active);
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

#[cfg(test)]
mod tests {
    use super::{Observed, State};

    #[test]
    fn counts_follow_the_pods() {
        let pod = |revision, ready, terminating| Some(Observed { revision, ready, terminating });
        let mut state = State::default();
        for (name, now) in [
            ("a", pod(1, false, false)),
            ("a", pod(1, true, false)),
            ("b", pod(1, true, false)),
            ("c", pod(2, true, false)),
            ("a", pod(1, true, true)),
            ("a", None),
            ("b", None),
        ] {
            state.change(name.to_owned(), now);
        }
        let deleted: Vec<&str> = state.deletions.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(deleted, ["a", "b"]);
        assert_eq!((state.ready_of(1), state.ready_of(2), state.len()), (0, 1, 1));
        assert_eq!((state.created, state.most_active), (1, 3));
    }
}
