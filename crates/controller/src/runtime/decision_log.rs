//! Tells whoever asked for it what each decision was made of. It never changes a decision, and keeps nothing.

use std::fmt;
use std::sync::Arc;

use ordereddeployment_planner::{Decision, Snapshot};

type Listener = dyn Fn(&Snapshot, &Decision) + Send + Sync;

/// Where decisions are told as they are made, before anything is done: for audits, which hold what was asked of a server
/// against what was known then. Every object in an [`Snapshot`] carries its resourceVersion.
#[derive(Clone, Default)]
pub struct DecisionLog(Option<Arc<Listener>>);

impl DecisionLog {
    /// Tells this listener. It is called from within a pass, so it must not wait.
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
