//! Reports each decision and its snapshot to a listener. It never changes a decision and stores nothing.

use std::fmt;
use std::sync::Arc;

use ordereddeployment_planner::{Decision, Snapshot};

type Listener = dyn Fn(&Snapshot, &Decision) + Send + Sync;

/// Receives decisions as they are made, before any write: for audits that compare the requests to the API
/// server with what was known at that time. Every object in a [`Snapshot`] carries its resourceVersion.
#[derive(Clone, Default)]
pub struct DecisionLog(Option<Arc<Listener>>);

impl DecisionLog {
    /// Reports to this listener. It is called during a reconciliation, so it must not block.
    #[must_use]
    pub fn to(listener: impl Fn(&Snapshot, &Decision) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    pub(crate) fn record(&self, snapshot: &Snapshot, decision: &Decision) {
        if let Some(listener) = &self.0 {
            listener(snapshot, decision);
        }
    }
}

impl fmt::Debug for DecisionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DecisionLog")
    }
}
