//! The phase of a rollout, as it is shown.

use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{Aborted, ConditionStatus, Hold, OrderedDeploymentStatus};
use ordereddeployment_planner::Snapshot;

use crate::state::{Migration, aborted, suspended_revision};

/// The phase of the rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The controller has not started a rollout yet.
    Unobserved,
    /// All pods are updated and available.
    Complete,
    /// Pods of older revisions are replaced, or pods are missing.
    Rolling,
    /// The rollout to this revision is suspended at 0 replicas.
    Suspended(i64),
    /// Paused at a pause point.
    Held(Box<Hold>),
    /// The rollout was aborted: the pods are rolled back, or being rolled back.
    Aborted(Box<Aborted>),
    /// `spec.paused`.
    Paused,
    /// Its pods are being moved from or to a Deployment.
    Migrating(Migration),
    /// The spec or the cluster must be changed; the message says what.
    Stalled(String),
    /// The progress deadline is exceeded; the message says what is missing.
    DeadlineExceeded(String),
}

pub(super) fn phase(
    snapshot: &Snapshot,
    stored: &OrderedDeploymentStatus,
    counts: &OrderedDeploymentStatus,
) -> Phase {
    let is_true = |status: &OrderedDeploymentStatus, type_: &str| {
        status.condition(type_).filter(|found| found.status == ConditionStatus::True).cloned()
    };
    if stored.rollout.is_none() && stored.conditions.is_none() {
        return Phase::Unobserved;
    }
    if let Some(migration) = Migration::of(stored) {
        return Phase::Migrating(migration);
    }
    if let Some(aborted) = aborted(stored) {
        return Phase::Aborted(Box::new(aborted.clone()));
    }
    if let Some(hold) = &stored.hold {
        return Phase::Held(Box::new(hold.clone()));
    }
    if let Some(message) = deadline_exceeded(stored) {
        return Phase::DeadlineExceeded(message.to_owned());
    }
    if let Some(stalled) = is_true(stored, condition::STALLED) {
        return Phase::Stalled(stalled.message);
    }
    if snapshot.deployment.spec.paused {
        return Phase::Paused;
    }
    if is_true(counts, condition::COMPLETE).is_some() {
        return Phase::Complete;
    }
    suspended_revision(stored).map_or(Phase::Rolling, Phase::Suspended)
}

/// The message of the condition if the progress deadline is exceeded.
pub(super) fn deadline_exceeded(stored: &OrderedDeploymentStatus) -> Option<&str> {
    let progress = stored.condition(condition::PROGRESSING)?;
    let exceeded =
        progress.status == ConditionStatus::False && progress.reason == reason::PROGRESS_DEADLINE_EXCEEDED;
    exceeded.then_some(progress.message.as_str())
}
