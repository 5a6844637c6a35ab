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
}

/// Clones share their state.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<watch::Sender<u8>>);

/// A bit for each watch.
const ALL: u8 = 0b1111;

impl Default for Readiness {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Readiness {
    /// Whether every watch has synced.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        *self.0.borrow() == ALL
    }

    /// Waits until every watch has synced.
    pub async fn wait(&self) {
        // The sender lives as long as `self`: it cannot be dropped meanwhile.
        let _ = self.0.subscribe().wait_for(|synced| *synced == ALL).await;
    }

    pub(crate) fn synced(&self, what: Watched) {
        self.0.send_modify(|synced| *synced |= 1 << (what as u8));
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
}
