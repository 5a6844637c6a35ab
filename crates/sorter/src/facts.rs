//! The input of the order for one pod. The pod itself is not needed: its annotations are parsed once, before.

use std::sync::Arc;

use jiff::Timestamp;

/// A pod's phase as rule 2 compares it: the smallest is deleted first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Pending, and every other phase.
    #[default]
    Pending,
    /// The node does not report the pod's state any more.
    Unknown,
    /// At least one container runs.
    Running,
}

impl Phase {
    /// The phase with that name in a pod's status; any other name counts as Pending.
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

/// The input of the order for one pod.
///
/// The default is a pending, unassigned pod without a UID, for struct update syntax.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The pod's UID, the last criterion of the order.
    pub uid: Arc<str>,
    /// The node to which the pod is assigned.
    pub node: Option<Arc<str>>,
    /// Its phase.
    pub phase: Phase,
    /// Whether its condition Ready is true.
    pub ready: bool,
    /// Since when its condition Ready has its status; read only if `ready`.
    pub ready_since: Option<Timestamp>,
    /// Its creation time.
    pub created: Option<Timestamp>,
    /// The largest restart count of its containers.
    pub restarts: i32,
    /// The largest restart count of its restartable init containers (sidecars).
    pub sidecar_restarts: i32,
    /// The delete priority of its own annotation, if well-formed.
    pub priority: Option<i32>,
    /// The deletion cost of its own annotation, if well-formed.
    pub cost: Option<i32>,
}

/// A decimal int32 without a leading `+` and without a leading zero; `None` is malformed: it counts as
/// absent, and the reader of the annotation warns of it.
///
/// This is how Kubernetes documents and reads the pod deletion cost: it checks only the first character for
/// a leading zero, so `-0` is 0 and `-008` is -8. Both annotations follow it, so that every value that the
/// API server accepts as a cost is valid here.
#[must_use]
pub fn parse_int32(text: &str) -> Option<i32> {
    match text.as_bytes() {
        [b'0'] => Some(0),
        [b'-' | b'1'..=b'9', ..] => text.parse().ok(),
        _ => None,
    }
}
