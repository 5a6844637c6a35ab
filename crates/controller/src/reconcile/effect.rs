//! The effects of requests. Requests themselves do not change the state in memory: [`record`](super::record)
//! applies the effects.

use std::sync::Arc;

use ordereddeployment_planner::{Failure, FailureKind, Purpose, Target};

use crate::cache::entry::{PodEntry, SetEntry};
use crate::cache::expectations::Fact;
use crate::reconcile::state::live::LiveReadReason;
use ordereddeployment_kubernetes::RequestError;

/// Why a write failed, if nobody can do anything about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silent {
    /// This process is not the leader any more, or stands aside.
    NotLeading,
    /// Nothing can be created in the namespace, and the object goes with it.
    NamespaceTerminates,
}

/// A write that failed.
#[derive(Debug)]
pub(crate) struct WriteFailure {
    pub(crate) kind: FailureKind,
    /// The UID of the set whose pods are written.
    pub(crate) set: Option<Arc<str>>,
    /// The verb, for metrics. `None`: the API server did not fail, but its answer could not be used.
    pub(crate) verb: Option<&'static str>,
    /// The message of the event.
    pub(crate) event: String,
    /// The message of the condition.
    pub(crate) message: String,
    /// Whether the write may have been stored nevertheless.
    pub(crate) outcome_unknown: bool,
    /// Nobody can do anything about it: the act ends without an event.
    pub(crate) silent: Option<Silent>,
}

impl WriteFailure {
    /// A request that failed with that error.
    pub(crate) fn of(
        kind: FailureKind,
        verb: &'static str,
        doing: &str,
        error: &RequestError,
        message: String,
    ) -> Self {
        let event = format!("Error {doing}: {message}");
        Self {
            kind,
            set: None,
            verb: Some(verb),
            event,
            message,
            outcome_unknown: error.is_outcome_unknown(),
            silent: match error {
                RequestError::NotLeading => Some(Silent::NotLeading),
                error if error.says_namespace_terminates() => Some(Silent::NamespaceTerminates),
                _ => None,
            },
        }
    }

    /// An answer that cannot be used: the request succeeded, but the object is not as it was sent.
    pub(crate) fn unusable(verb: Option<&'static str>, event: String, message: String) -> Self {
        Self {
            kind: FailureKind::Create,
            set: None,
            verb,
            event,
            message,
            outcome_unknown: false,
            silent: None,
        }
    }
}

/// What a request did or showed.
#[derive(Debug)]
pub(crate) enum Effect {
    Set(Fact<SetEntry>),
    Pod(Fact<PodEntry>),
    /// A set was created.
    SetCreated,
    /// A pod was created; its entry, if it came back as one of ours.
    PodCreated(Option<PodEntry>),
    /// The pod of that name came back unchanged, for the set with that UID.
    PodAccepted {
        set: Arc<str>,
        name: String,
    },
    /// The API server accepted the deletion of a pod. `terminating`: it still runs for its grace period.
    PodDeleted {
        target: Target,
        purpose: Purpose,
        entry: Option<Arc<PodEntry>>,
        terminating: bool,
    },
    /// An eviction was accepted.
    Evicted,
    /// An eviction was refused while that many pods were ready.
    EvictionRefused {
        uid: Arc<str>,
        ready: usize,
        kind: FailureKind,
        message: String,
    },
    /// A pod was annotated, so that its budget is counted again.
    BudgetsRecounted,
    /// An eviction that was refused a moment ago was not repeated.
    StillRefused(Failure),
    /// A create failed because the name exists, although no known object has it.
    NameTaken,
    /// A set of another owner has that name.
    SetNameTaken(String),
    /// An object that was created for that owner came back changed, so that it is not the owner's.
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
    /// An object differs from the snapshot of the decision: the act ends.
    DecideAgain,
}

impl Effect {
    /// A write met a newer version, which a live read shows before the next decision.
    pub(crate) fn conflict() -> Vec<Self> {
        vec![Self::Conflict, Self::LiveReadDue(LiveReadReason::Conflict), Self::DecideAgain]
    }
}

/// A purpose, for metrics and User-Agents.
pub(super) fn word_for(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Rollout => "rollout",
        Purpose::Scale => "scale",
    }
}
