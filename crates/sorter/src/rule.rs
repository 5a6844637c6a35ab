//! The rules of the order, by name.

use std::fmt;

/// The rule that decided between two pods, in the order of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// 0: the larger delete priority.
    DeletePriority,
    /// 1: not assigned to a node.
    Unassigned,
    /// 2: Pending before Unknown before Running.
    Phase,
    /// 3: not ready.
    NotReady,
    /// 4: the lower deletion cost.
    DeletionCost,
    /// 5: more related pods on its node.
    Rank,
    /// 6: ready for less time.
    ReadyTime,
    /// 7: more container restarts.
    Restarts,
    /// 7, second half: more sidecar restarts.
    SidecarRestarts,
    /// 8: newer.
    CreationTime,
    /// 9: the smaller UID.
    Uid,
}

impl Rule {
    /// The rule's number in the table of the order.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::DeletePriority => 0,
            Self::Unassigned => 1,
            Self::Phase => 2,
            Self::NotReady => 3,
            Self::DeletionCost => 4,
            Self::Rank => 5,
            Self::ReadyTime => 6,
            Self::Restarts | Self::SidecarRestarts => 7,
            Self::CreationTime => 8,
            Self::Uid => 9,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DeletePriority => "delete priority",
            Self::Unassigned => "unassigned",
            Self::Phase => "phase",
            Self::NotReady => "not ready",
            Self::DeletionCost => "deletion cost",
            Self::Rank => "pods on its node",
            Self::ReadyTime => "ready time",
            Self::Restarts => "restarts",
            Self::SidecarRestarts => "sidecar restarts",
            Self::CreationTime => "creation time",
            Self::Uid => "UID",
        })
    }
}
