//! Health: whether the process can reconcile (readiness), and whether it still runs (liveness).
//!
//! Ready: every watch has shown its first complete list, and neither a watch that is not open nor the leader election has failed
//! for [`GRACE`]. Alive: the main task has run within [`STUCK`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ordereddeployment_wire::Family;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// How long a failure may last before the process is not ready: longer than a restart of an API server.
const GRACE: Duration = Duration::from_secs(30);
/// How long a failure counts after its last occurrence, if no success follows. A watch that fails is retried sooner.
const RECENT: Duration = Duration::from_secs(120);
/// A watch that was open for that long has worked.
const WORKS: Duration = Duration::from_secs(10);
/// How often the main task reports that it runs.
const BEAT: Duration = Duration::from_secs(1);
/// How long after its last report the main task counts as stuck.
const STUCK: Duration = Duration::from_secs(30);

/// The watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    Deployments,
    Sets,
    Pods,
    Nodes,
    /// All watches of the controller `nodecosts`.
    NodeCosts,
    PlainDeployments,
    PlainSets,
    PlainPods,
    PlainNodes,
}

impl Watched {
    /// The watches of the controller of this family: of deployments, sets, pods and nodes.
    pub(crate) fn of(family: Family) -> [Self; 4] {
        match family {
            Family::Ordered => [Self::Deployments, Self::Sets, Self::Pods, Self::Nodes],
            Family::Plain => [Self::PlainDeployments, Self::PlainSets, Self::PlainPods, Self::PlainNodes],
        }
    }

    fn bit(self) -> u16 {
        1 << (self as u16)
    }

    /// The name of the resource, for metrics and messages.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::Deployments => "ordereddeployments",
            Self::Sets => "orderedreplicasets",
            Self::PlainDeployments => "deployments",
            Self::PlainSets => "replicasets",
            Self::Pods | Self::PlainPods => "pods",
            Self::Nodes | Self::PlainNodes => "nodes",
            Self::NodeCosts => "nodecosts",
        }
    }

    /// All of them.
    const ALL: [Self; 9] = [
        Self::Deployments,
        Self::Sets,
        Self::Pods,
        Self::Nodes,
        Self::NodeCosts,
        Self::PlainDeployments,
        Self::PlainSets,
        Self::PlainPods,
        Self::PlainNodes,
    ];
}

/// The name of the watch of that resource.
pub(crate) fn watch_of(resource: &str) -> String {
    format!("the watch of {resource}")
}

/// The bits of the watches of this family.
fn bits(family: Family) -> u16 {
    Watched::of(family).into_iter().map(Watched::bit).sum()
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

/// Watches whose first list is still missing, with a bit for each.
#[derive(Clone, Copy, Debug)]
struct Missing {
    all: u16,
    /// Those that the controllers wait for.
    awaited: u16,
}

/// Something that fails.
#[derive(Clone, Copy, Debug)]
struct Failing {
    since: Instant,
    last: Instant,
    /// Since when the watch is open again.
    open: Option<Instant>,
}

impl Default for Health {
    fn default() -> Self {
        Self::of(&[Family::Ordered], false)
    }
}

impl Health {
    /// The health of a process that runs these controllers.
    #[must_use]
    pub fn of(families: &[Family], node_costs: bool) -> Self {
        let of_families = families.iter().fold(0, |all, family| all | bits(*family));
        let missing = of_families | if node_costs { Watched::NodeCosts.bit() } else { 0 };
        Self(Arc::new(State {
            missing: watch::Sender::new(Missing { all: missing, awaited: missing }),
            failing: Mutex::default(),
            notes: Mutex::default(),
            beat: Mutex::default(),
        }))
    }

    /// Waits until every watch of the OrderedDeployment controller has synced.
    pub async fn synced_all(&self) {
        self.synced_of(Family::Ordered).await;
    }

    /// Waits until every watch of the controller of this family has synced.
    pub(crate) async fn synced_of(&self, family: Family) {
        // The sender lives as long as `self`: it cannot be dropped meanwhile.
        let _ = self.0.missing.subscribe().wait_for(|missing| missing.awaited & bits(family) == 0).await;
    }

    /// Waits until every watch of this process has synced.
    pub(crate) async fn synced_whole(&self) {
        let _ = self.0.missing.subscribe().wait_for(|missing| missing.awaited == 0).await;
    }

    pub(crate) fn synced(&self, what: Watched) {
        self.0.missing.send_modify(|missing| {
            missing.all &= !what.bit();
            missing.awaited &= !what.bit();
        });
    }

    /// The list is not permitted. Nodes are read for node rules only: after a while the controllers go on without them, and the process is
    /// not ready. An API server that starts refuses everything for a moment.
    pub(crate) fn is_forbidden(&self, what: Watched) {
        let lasts = |failing: &Failing| failing.since.elapsed() >= GRACE;
        let failing = self.0.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let lasts = failing.get(&watch_of(what.resource())).is_some_and(lasts);
        if lasts && matches!(what, Watched::Nodes | Watched::PlainNodes) {
            self.0.missing.send_modify(|missing| missing.awaited &= !what.bit());
        }
    }

    /// Records a failure that affects readiness, by a name for messages.
    pub(crate) fn fails(&self, what: &str) {
        let now = Instant::now();
        let mut failing = self.0.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.retain(|_, failing| now.duration_since(failing.last) < RECENT);
        let begun = Failing { since: now, last: now, open: None };
        let failing = failing.entry(what.to_owned()).or_insert(begun);
        if failing.open.is_some_and(|open| now.duration_since(open) >= WORKS) {
            *failing = begun;
        }
        (failing.last, failing.open) = (now, None);
    }

    /// Records that this watch is open again. It has to stay open for a while to begin anew.
    pub(crate) fn opened(&self, what: &str) {
        let mut failing = self.0.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failing) = failing.get_mut(what) {
            failing.open = Some(Instant::now());
        }
    }

    /// Records a success of the same.
    pub(crate) fn works(&self, what: &str) {
        self.0.failing.lock().unwrap_or_else(PoisonError::into_inner).remove(what);
    }

    /// Why the process is not ready, if it is not.
    #[must_use]
    pub fn unready(&self) -> Option<String> {
        let failing = self.0.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let fails = |failing: &Failing| {
            failing.since.elapsed() >= GRACE && failing.last.elapsed() < RECENT && failing.open.is_none()
        };
        if let Some((what, failing)) = failing.iter().find(|(_, failing)| fails(failing)) {
            return Some(format!("{what} has failed for {} s", failing.since.elapsed().as_secs()));
        }
        let missing = *self.0.missing.borrow();
        let missing = Watched::ALL.into_iter().filter(|what| missing.all & what.bit() != 0);
        let missing: Vec<_> = missing.map(Watched::resource).collect();
        (!missing.is_empty()).then(|| format!("not every watch has synced yet: {}", missing.join(", ")))
    }

    /// Records what a controller waits for; `None`: nothing.
    pub(crate) fn note(&self, controller: &'static str, note: Option<String>) {
        let mut notes = self.0.notes.lock().unwrap_or_else(PoisonError::into_inner);
        match note {
            Some(note) => _ = notes.insert(controller, note),
            None => _ = notes.remove(controller),
        }
    }

    /// What controllers wait for, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.0.notes.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Reports periodically that the task that polls this future runs. It never ends.
    pub async fn beats(&self) {
        loop {
            *self.0.beat.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            sleep(BEAT).await;
        }
    }

    /// Why the process counts as stuck, if it does.
    #[must_use]
    pub fn stuck(&self) -> Option<String> {
        let beat = *self.0.beat.lock().unwrap_or_else(PoisonError::into_inner);
        let since = beat.map(|beat| beat.elapsed()).filter(|since| *since >= STUCK)?;
        Some(format!("the controller has not run for {} s", since.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{GRACE, Health, RECENT, STUCK, Watched};

    #[test]
    fn it_is_ready_once_every_watch_has_synced() {
        let health = Health::default();
        for what in [Watched::Pods, Watched::Nodes, Watched::Pods, Watched::Deployments] {
            health.synced(what);
            assert!(health.unready().is_some());
        }
        health.synced(Watched::Sets);
        assert_eq!(health.unready(), None);
    }

    #[test]
    fn only_watches_of_running_controllers_are_awaited() {
        let health = Health::of(&[], true);
        assert!(health.unready().is_some());
        health.synced(Watched::NodeCosts);
        assert_eq!(health.unready(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_not_ready_while_something_fails_for_long() {
        let health = Health::of(&[], false);
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
        let health = Health::default();
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
