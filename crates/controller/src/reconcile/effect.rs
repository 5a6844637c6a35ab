//! What a request has shown. Requests themselves change nothing that is remembered: [`record`](super::record) does, from these.

use std::sync::Arc;

use ordereddeployment_planner::{Failure, FailureKind, Purpose, Target};

use crate::cache::entry::{PodEntry, SetEntry};
use crate::cache::expectations::Fact;
use crate::client::error::RequestError;
use crate::reconcile::state::LiveReadReason;

/// A write that failed.
#[derive(Debug)]
pub(crate) struct WriteFailure {
    pub(crate) kind: FailureKind,
    /// The verb, for metrics. `None`: the API server did not fail, its answer was of no use.
    pub(crate) verb: Option<&'static str>,
    /// The message of the event.
    pub(crate) event: String,
    /// The message of the condition.
    pub(crate) message: String,
    /// Whether the write may have been carried out all the same.
    pub(crate) outcome_unknown: bool,
}

impl WriteFailure {
    /// A request that was answered with that error.
    pub(crate) fn of(
        kind: FailureKind,
        verb: &'static str,
        doing: &str,
        error: &RequestError,
        message: String,
    ) -> Self {
        let event = format!("Error {doing}: {message}");
        Self { kind, verb: Some(verb), event, message, outcome_unknown: error.is_outcome_unknown() }
    }
}

/// What happened, or was learned.
#[derive(Debug)]
pub(crate) enum Effect {
    Set(Box<Fact<SetEntry>>),
    Pod(Fact<PodEntry>),
    /// A set was created.
    SetCreated,
    /// A pod was created; its entry, where it came back as one of ours.
    PodCreated(Option<PodEntry>),
    /// The pod of that name came back as it was sent.
    PodAccepted(String),
    /// The deletion of a pod was accepted. `terminating`: it runs on for a while.
    PodDeleted {
        target: Target,
        purpose: Purpose,
        entry: Option<Arc<PodEntry>>,
        terminating: bool,
        /// Its age by that of the pods that remain.
        age_ratio: Option<f64>,
    },
    /// An eviction was accepted.
    Evicted,
    /// An eviction was refused, while so many pods were ready.
    EvictionRefused {
        uid: Arc<str>,
        ready: usize,
        kind: FailureKind,
        message: String,
    },
    /// An eviction that was refused a moment ago was not asked for again.
    StillRefused(Failure),
    /// A create was answered that its name is taken, and nothing is known to have it.
    NameTaken,
    /// A set of another owner has that name.
    SetNameTaken(String),
    /// What was created for that owner came back changed, so that it is not its own.
    Altered {
        owner: Arc<str>,
        message: String,
    },
    /// A dry run for that owner came back unchanged.
    Unaltered(Arc<str>),
    /// A write met a newer version.
    Conflict,
    /// Everything must be read live before the next decision.
    LiveReadDue(LiveReadReason),
    /// A write failed: the act ends.
    Failed(WriteFailure),
    /// Something is not as it was when the decision was made: the act ends.
    DecideAgain,
}
