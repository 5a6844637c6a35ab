//! Health: whether the process can reconcile (readiness), and whether it still runs (liveness).
//!
//! Ready: every watch has shown its first complete list, and neither a watch that is not open nor the leader
//! election has failed for [`GRACE`]. Alive: the main task has run within [`STUCK`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// How long a failure may last before the process is not ready: longer than a restart of an API server.
const GRACE: Duration = Duration::from_secs(30);
/// How long a failure counts after its last occurrence, if no success follows. A watch is retried sooner.
const RECENT: Duration = Duration::from_secs(120);
/// A watch that was open for that long has worked.
const WORKS: Duration = Duration::from_secs(10);
/// How often the main task reports that it runs.
const BEAT: Duration = Duration::from_secs(1);
/// How long after its last report the main task counts as stuck.
const STUCK: Duration = Duration::from_secs(30);

/// A watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watched {
    /// The controller that it is for.
    pub controller: &'static str,
    /// The resource, for metrics and messages.
    pub resource: &'static str,
    /// Whether the controller works without it, if it is not permitted. The process is not ready then.
    pub optional: bool,
}

/// The name of the watch of that resource.
#[must_use]
pub fn watch_of(resource: &str) -> String {
    format!("the watch of {resource}")
}

/// The health of the process. Clones share their state.
#[derive(Clone, Debug)]
pub struct Health(Arc<State>);

#[derive(Debug)]
struct State {
    missing: watch::Sender<Missing>,
    /// The current failures.
    failing: Mutex<BTreeMap<String, Failing>>,
    /// What a controller of this process waits for, by its name. The process is ready nevertheless.
    notes: Mutex<BTreeMap<&'static str, String>>,
    /// When the main task ran last; `None` before it starts.
    beat: Mutex<Option<Instant>>,
}

/// Watches whose first list is still missing.
#[derive(Clone, Debug)]
struct Missing {
    all: BTreeSet<Watched>,
    /// Those that the controllers wait for.
    awaited: BTreeSet<Watched>,
}

/// Something that fails.
#[derive(Clone, Copy, Debug)]
struct Failing {
    since: Instant,
    last: Instant,
    /// Since when the watch is open again.
    open: Option<Instant>,
}

impl Health {
    /// The health of a process with these watches.
    #[must_use]
    pub fn of(watches: impl IntoIterator<Item = Watched>) -> Self {
        let all: BTreeSet<_> = watches.into_iter().collect();
        Self(Arc::new(State {
            missing: watch::Sender::new(Missing { awaited: all.clone(), all }),
            failing: Mutex::default(),
            notes: Mutex::default(),
            beat: Mutex::default(),
        }))
    }

    /// Waits until every watch of that controller has synced.
    pub async fn synced_of(&self, controller: &str) {
        let of_it = |awaited: &BTreeSet<Watched>| awaited.iter().any(|what| what.controller == controller);
        // The sender lives as long as `self`: it cannot be dropped meanwhile.
        let _ = self.0.missing.subscribe().wait_for(|missing| !of_it(&missing.awaited)).await;
    }

    /// Waits until every watch of this process has synced.
    pub(crate) async fn synced_whole(&self) {
        let _ = self.0.missing.subscribe().wait_for(|missing| missing.awaited.is_empty()).await;
    }

    /// This watch has shown a complete list.
    pub fn synced(&self, what: Watched) {
        self.0.missing.send_modify(|missing| {
            missing.all.remove(&what);
            missing.awaited.remove(&what);
        });
    }

    /// The list is not permitted. If the watch is optional, the controllers go on without it after a while.
    /// An API server that starts refuses everything for a moment.
    pub fn is_forbidden(&self, what: Watched) {
        let lasts = |failing: &Failing| failing.since.elapsed() >= GRACE;
        let failing = self.0.failing.lock();
        let lasts = failing.get(&watch_of(what.resource)).is_some_and(lasts);
        if lasts && what.optional {
            self.0.missing.send_modify(|missing| _ = missing.awaited.remove(&what));
        }
    }

    /// Records a failure that affects readiness, by a name for messages.
    pub fn fails(&self, what: &str) {
        let now = Instant::now();
        let mut failing = self.0.failing.lock();
        failing.retain(|_, failing| now.duration_since(failing.last) < RECENT);
        let begun = Failing { since: now, last: now, open: None };
        let failing = failing.entry(what.to_owned()).or_insert(begun);
        if failing.open.is_some_and(|open| now.duration_since(open) >= WORKS) {
            *failing = begun;
        }
        (failing.last, failing.open) = (now, None);
    }

    /// Records that this watch is open again. It has to stay open for a while to begin anew.
    pub fn opened(&self, what: &str) {
        let mut failing = self.0.failing.lock();
        if let Some(failing) = failing.get_mut(what) {
            failing.open = Some(Instant::now());
        }
    }

    /// Records a success of the same.
    pub fn works(&self, what: &str) {
        self.0.failing.lock().remove(what);
    }

    /// Why the process is not ready, if it is not.
    #[must_use]
    pub fn unready(&self) -> Option<String> {
        let failing = self.0.failing.lock();
        let fails = |failing: &Failing| {
            failing.since.elapsed() >= GRACE && failing.last.elapsed() < RECENT && failing.open.is_none()
        };
        if let Some((what, failing)) = failing.iter().find(|(_, failing)| fails(failing)) {
            return Some(format!("{what} has failed for {} s", failing.since.elapsed().as_secs()));
        }
        let missing = self.0.missing.borrow();
        let missing: Vec<_> = missing.all.iter().map(|what| what.resource).collect();
        (!missing.is_empty()).then(|| format!("not every watch has synced yet: {}", missing.join(", ")))
    }

    /// Records what a controller waits for; `None`: nothing.
    pub fn note(&self, controller: &'static str, note: Option<String>) {
        let mut notes = self.0.notes.lock();
        match note {
            Some(note) => _ = notes.insert(controller, note),
            None => _ = notes.remove(controller),
        }
    }

    /// What controllers wait for, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.0.notes.lock().values().cloned().collect()
    }

    /// Reports periodically that the task that polls this future runs. It never ends.
    pub async fn beats(&self) {
        loop {
            *self.0.beat.lock() = Some(Instant::now());
            sleep(BEAT).await;
        }
    }

    /// Why the process counts as stuck, if it does.
    #[must_use]
    pub fn stuck(&self) -> Option<String> {
        let beat = *self.0.beat.lock();
        let since = beat.map(|beat| beat.elapsed()).filter(|since| *since >= STUCK)?;
        Some(format!("the controller has not run for {} s", since.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{GRACE, Health, RECENT, STUCK, Watched};

    fn watched(controller: &'static str, resource: &'static str) -> Watched {
        Watched { controller, resource, optional: resource == "nodes" }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_ready_once_every_watch_has_synced() {
        let (pods, sets, other) = (watched("one", "pods"), watched("one", "sets"), watched("other", "pods"));
        let health = Health::of([pods, sets, other]);
        for what in [pods, pods, sets] {
            assert!(tokio::time::timeout(GRACE, health.synced_of("one")).await.is_err());
            health.synced(what);
            assert!(health.unready().is_some());
        }
        health.synced_of("one").await;
        health.synced(other);
        assert_eq!(health.unready(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_optional_watch_that_is_not_permitted_is_awaited_for_a_while() {
        let nodes = watched("one", "nodes");
        let health = Health::of([nodes]);
        for _ in 0..2 {
            health.fails("the watch of nodes");
            health.is_forbidden(nodes);
            assert!(tokio::time::timeout(GRACE / 2, health.synced_of("one")).await.is_err());
        }
        health.fails("the watch of nodes");
        health.is_forbidden(nodes);
        health.synced_of("one").await;
        assert!(health.unready().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_not_ready_while_something_fails_for_long() {
        let health = Health::of([]);
        health.fails("the watch of pods");
        assert_eq!(health.unready(), None, "a moment is forgiven");
        tokio::time::sleep(GRACE / 2).await;
        health.fails("the watch of pods");
        tokio::time::sleep(GRACE / 2).await;
        assert_eq!(health.unready().as_deref(), Some("the watch of pods has failed for 30 s"));
        health.opened("the watch of pods");
        assert_eq!(health.unready(), None, "it is open");
        health.fails("the watch of pods");
        assert!(health.unready().is_some(), "it failed at once");
        health.works("the watch of pods");
        assert_eq!(health.unready(), None);
        health.fails("the watch of nodes");
        tokio::time::sleep(GRACE).await;
        assert!(health.unready().is_some());
        tokio::time::sleep(RECENT).await;
        assert_eq!(health.unready(), None, "it has not failed again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_run_is_stuck() {
        let health = Health::of([]);
        tokio::time::sleep(2 * STUCK).await;
        assert_eq!(health.stuck(), None, "it has not started: a standby waits to become the leader");
        let beating = tokio::spawn({
            let health = health.clone();
            async move { health.beats().await }
        });
        tokio::time::sleep(2 * STUCK).await;
        assert_eq!(health.stuck(), None);
        beating.abort();
        tokio::time::sleep(STUCK + Duration::from_secs(1)).await;
        assert!(health.stuck().is_some());
    }
}
