//! Health: whether the process can reconcile (readiness), and whether it still runs (liveness).
//!
//! Ready: every watch has shown its first complete list, and neither a watch nor the leader election has failed for
//! [`GRACE`]. Alive: the main task has run within [`STUCK`].

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
    /// A bit for each watch whose first list is still missing.
    missing: watch::Sender<u16>,
    /// The current failures: since when each lasts, and its last occurrence.
    failing: Mutex<BTreeMap<String, (Instant, Instant)>>,
    /// What a controller of this process waits for, by its name. The process is ready nevertheless.
    notes: Mutex<BTreeMap<&'static str, String>>,
    /// When the main task ran last; `None` before it starts.
    beat: Mutex<Option<Instant>>,
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
            missing: watch::Sender::new(missing),
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
        let _ = self.0.missing.subscribe().wait_for(|missing| missing & bits(family) == 0).await;
    }

    /// Waits until every watch of this process has synced.
    pub(crate) async fn synced_whole(&self) {
        let _ = self.0.missing.subscribe().wait_for(|missing| *missing == 0).await;
    }

    pub(crate) fn synced(&self, what: Watched) {
        self.0.missing.send_modify(|missing| *missing &= !what.bit());
    }

    /// Records a failure that affects readiness, by a name for messages.
    pub(crate) fn fails(&self, what: &str) {
        let now = Instant::now();
        let mut failing = self.0.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.retain(|_, (_, last)| now.duration_since(*last) < RECENT);
        failing.entry(what.to_owned()).or_insert((now, now)).1 = now;
    }

    /// Records a success of the same.
    pub(crate) fn works(&self, what: &str) {
        self.0.failing.lock().unwrap_or_else(PoisonError::into_inner).remove(what);
    }

    /// Why the process is not ready, if it is not.
    #[must_use]
    pub fn unready(&self) -> Option<String> {
        if *self.0.missing.borrow() != 0 {
            return Some("not every watch has synced yet".to_owned());
        }
        let failing = self.0.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let fails = |(since, last): &(Instant, Instant)| since.elapsed() >= GRACE && last.elapsed() < RECENT;
        let (what, (since, _)) = failing.iter().find(|(_, times)| fails(times))?;
        Some(format!("{what} has failed for {} s", since.elapsed().as_secs()))
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
