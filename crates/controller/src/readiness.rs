//! Whether every watch has shown its first whole list. Nothing is decided and no readiness is claimed before.

use std::sync::Arc;

use tokio::sync::watch;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    Deployments,
    Sets,
    Pods,
    Nodes,
    /// All that the controller of deletion costs watches.
    NodeCosts,
}

/// Clones share their state: a bit for each watch that is still missing.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<watch::Sender<u8>>);

/// The watches of OrderedDeployments.
const ORDERED: u8 = 0b1111;

impl Default for Readiness {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(ORDERED)))
    }
}

impl Readiness {
    /// Of a process that runs these controllers.
    #[must_use]
    pub fn of(ordered: bool, node_costs: bool) -> Self {
        let missing = if ordered { ORDERED } else { 0 } | (u8::from(node_costs) << Watched::NodeCosts as u8);
        Self(Arc::new(watch::Sender::new(missing)))
    }

    /// Whether every watch has synced.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        *self.0.borrow() == 0
    }

    /// Waits until every watch of OrderedDeployments has synced.
    pub async fn wait(&self) {
        // The sender lives as long as `self`: it cannot be dropped meanwhile.
        let _ = self.0.subscribe().wait_for(|missing| missing & ORDERED == 0).await;
    }

    pub(crate) fn synced(&self, what: Watched) {
        self.0.send_modify(|missing| *missing &= !(1 << (what as u8)));
    }
}

#[cfg(test)]
mod tests {
    use super::{Readiness, Watched};

    #[test]
    fn it_is_ready_once_every_watch_has_synced() {
        let readiness = Readiness::default();
        for what in [Watched::Pods, Watched::Nodes, Watched::Pods, Watched::Deployments] {
            readiness.synced(what);
            assert!(!readiness.is_ready());
        }
        readiness.synced(Watched::Sets);
        assert!(readiness.is_ready());
    }

    #[test]
    fn only_what_runs_is_waited_for() {
        let readiness = Readiness::of(false, true);
        assert!(!readiness.is_ready());
        readiness.synced(Watched::NodeCosts);
        assert!(readiness.is_ready());
    }
}
