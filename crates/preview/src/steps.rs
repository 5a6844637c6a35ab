//! What a preview tells: steps, and what they end in. It is told in the words of the planner.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::Hold;
use ordereddeployment_planner::{Event, Purpose};
use ordereddeployment_sorter::Why;

/// The whole of it.
#[derive(Clone, Debug)]
pub struct Preview {
    /// When it begins.
    pub start: Timestamp,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// What it ends in.
    pub end: End,
    /// When.
    pub ended: Timestamp,
}

/// Something that happens.
#[derive(Clone, Debug)]
pub struct Step {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: What,
}

/// What happens in a step.
#[derive(Clone, Debug)]
pub enum What {
    /// The controller tells this in an event.
    Told(Event),
    /// Pods are created.
    Create {
        /// The name of their set.
        set: String,
        /// Its revision.
        revision: i64,
        /// How many.
        count: usize,
    },
    /// Pods of one priority are deleted, in parallel.
    Delete {
        /// What for.
        purpose: Purpose,
        /// The pods, in order.
        pods: Vec<Deleted>,
    },
    /// The rollout halts.
    Held(Hold),
    /// It goes on: somebody resumed it, as is assumed, or its time was over.
    Resumed {
        /// The id of the hold.
        id: String,
        /// Whether this is an assumption.
        assumed: bool,
    },
}

/// A pod that is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Its name; of a pod that does not exist yet, one made up.
    pub name: String,
    /// Whether it does not exist yet.
    pub made_up: bool,
    /// Its node then.
    pub node: Option<Arc<str>>,
    /// Its priority then.
    pub priority: i32,
    /// Whether it was available.
    pub available: bool,
    /// Why it goes before the next one; `None` for the last.
    pub why: Option<Why>,
}

/// What a preview ends in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every pod is of the current template and available, and none is left over.
    Complete,
    /// It does not go on while `spec.paused` is set.
    Paused,
    /// It does not go on by itself: reason and message of the condition that says so.
    Stuck {
        /// The reason.
        reason: String,
        /// The message.
        message: String,
    },
    /// It goes on for longer than anybody wants to know.
    Unending,
}

impl Preview {
    /// The pods deleted, in order.
    pub fn deleted(&self) -> impl Iterator<Item = &Deleted> {
        self.steps.iter().flat_map(|step| match &step.what {
            What::Delete { pods, .. } => pods.as_slice(),
            _ => &[],
        })
    }

    /// How many pods are created.
    #[must_use]
    pub fn created(&self) -> usize {
        let counts = self.steps.iter().map(|step| match step.what {
            What::Create { count, .. } => count,
            _ => 0,
        });
        counts.sum()
    }

    /// The halts, in order.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.steps.iter().filter_map(|step| match &step.what {
            What::Held(hold) => Some(hold),
            _ => None,
        })
    }

    /// How long after the beginning that is.
    #[must_use]
    pub fn after(&self, at: Timestamp) -> SignedDuration {
        at.duration_since(self.start)
    }
}
