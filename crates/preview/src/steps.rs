//! The result of a preview: steps, and how it ends, in the terms of the planner.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::Hold;
use ordereddeployment_planner::{Event, Purpose};
use ordereddeployment_sorter::Why;

/// A preview.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The begin.
    pub start: Timestamp,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// How it ends.
    pub end: End,
    /// When it ends.
    pub ended: Timestamp,
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// The time.
    pub at: Timestamp,
    /// What happens.
    pub action: Action,
}

/// What happens in a step.
#[derive(Clone, Debug)]
pub enum Action {
    /// The controller publishes this event.
    Event(Event),
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
        /// The purpose.
        purpose: Purpose,
        /// The pods, in order.
        pods: Vec<Deleted>,
    },
    /// The rollout is held.
    Held {
        /// The hold.
        hold: Hold,
        /// The pods when it begins.
        counts: Counts,
    },
    /// It continues: by the assumed resume of a user, or because the time of the pause is over.
    Resumed {
        /// The id of the hold.
        id: String,
        /// Whether the resume is an assumption.
        assumed: bool,
    },
}

/// The number of pods at a point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `replicas`.
    pub desired: i32,
    /// The pods of the current template.
    pub updated: i32,
    /// The available pods of all templates.
    pub available: i32,
}

/// A deleted pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Its name; a generated one for a pod that does not exist yet.
    pub name: String,
    /// Whether it does not exist yet.
    pub is_simulated: bool,
    /// Its node at that time.
    pub node: Option<Arc<str>>,
    /// Its priority at that time.
    pub priority: i32,
    /// Whether it was available.
    pub available: bool,
    /// Why it had its place in the order.
    pub why: Why,
}

/// How a preview ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every pod is of the current template and available, and none is surplus.
    Complete,
    /// The rollout is aborted, and all pods are available and of the last complete revision.
    RolledBack {
        /// The aborted revision.
        revision: i64,
        /// The last complete revision.
        to: i64,
    },
    /// It does not continue while `spec.paused` is set.
    Paused,
    /// It does not continue by itself: reason and message of the condition that says so.
    Stalled {
        /// The reason.
        reason: String,
        /// The message.
        message: String,
    },
    /// It is not complete at the limits of a preview.
    LimitReached,
}

impl Preview {
    /// The deleted pods, in order.
    pub fn deleted(&self) -> impl Iterator<Item = &Deleted> {
        self.steps.iter().flat_map(|step| match &step.action {
            Action::Delete { pods, .. } => pods.as_slice(),
            _ => &[],
        })
    }

    /// The number of created pods.
    #[must_use]
    pub fn created(&self) -> usize {
        let counts = self.steps.iter().map(|step| match step.action {
            Action::Create { count, .. } => count,
            _ => 0,
        });
        counts.sum()
    }

    /// The holds, in order.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.steps.iter().filter_map(|step| match &step.action {
            Action::Held { hold, .. } => Some(hold),
            _ => None,
        })
    }

    /// The time since the begin.
    #[must_use]
    pub fn after(&self, at: Timestamp) -> SignedDuration {
        at.duration_since(self.start)
    }
}
