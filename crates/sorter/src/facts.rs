//! What the order reads of one pod. Never the pod itself: annotations are parsed once, before.

use std::sync::Arc;

use jiff::Timestamp;

/// A pod's phase as rule 2 compares it: the first is deleted first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Pending, and every phase that is not one of the others.
    #[default]
    Pending,
    /// The node no longer reports about the pod.
    Unknown,
    /// At least one container runs.
    Running,
}

impl Phase {
    /// The phase of that name in a pod's status; any other name counts as Pending.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "Running" => Self::Running,
            "Unknown" => Self::Unknown,
            _ => Self::Pending,
        }
    }

    /// The name in a pod's status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Unknown => "Unknown",
            Self::Running => "Running",
        }
    }
}

/// What the order reads of one pod.
///
/// The default is a pending, unassigned pod without a UID: a start for struct update syntax.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The pod's UID, the last word of the order.
    pub uid: Arc<str>,
    /// The node it is assigned to.
    pub node: Option<Arc<str>>,
    /// Its phase.
    pub phase: Phase,
    /// Whether its condition Ready is true.
    pub ready: bool,
    /// Since when its condition Ready has its status; read only where `ready`.
    pub ready_since: Option<Timestamp>,
    /// Its creation time.
    pub created: Option<Timestamp>,
    /// The largest restart count of its containers.
    pub restarts: i32,
    /// The largest restart count of its restartable init containers (sidecars).
    pub sidecar_restarts: i32,
    /// The delete priority of its own annotation, where well-formed.
    pub priority: Option<i32>,
    /// The deletion cost of its own annotation, where well-formed.
    pub cost: Option<i32>,
}
