//! The status: counts and conditions, of what was observed and not of what is expected.

use ordereddeployment_api::{
    Aborted,
    ConditionStatus::{self, False, True, Unknown},
    OrderedDeploymentStatus,
    names::{condition, reason},
};

use crate::conditions::seconds;
use crate::inventory::{Inventory, narrow};
use crate::phase::State;
use crate::pod_changes::PodChanges;
use crate::{FailureKind, conditions, template_comparison};

/// The status as of this decision.
pub(crate) fn status(state: &State<'_, '_>, changes: &PodChanges) -> OrderedDeploymentStatus {
    let inventory = state.inventory;
    let mut status = observed(inventory);
    status.blocked.clone_from(&changes.blocked);
    if let Some(hold) = &inventory.status.hold {
        conditions::hold(&mut status, hold, inventory.name(), inventory.snapshot.now);
    }
    rollout(state, changes, &mut status);
    available(inventory, &mut status);
    progressing(state, &mut status);
    complete(state, &mut status);
    failure(state, changes, &mut status);
    stalled(inventory, changes, &mut status);
    reconciling(state, &mut status);
    not_held(inventory, &mut status);
    status
}

/// What later decisions read of the rollout.
fn rollout(state: &State<'_, '_>, changes: &PodChanges, status: &mut OrderedDeploymentStatus) {
    let inventory = state.inventory;
    let is_over = state.points.is_empty()
        && inventory.old_count() == 0
        && !inventory.aborts()
        && !inventory.revision.needs_comparison()
        && (inventory.bounds.desired > 0 || inventory.active() == 0);
    let Some(rollout) = &mut status.rollout else { return };
    if let Some(scaling) = changes.scaling {
        rollout.scaling = Some(scaling);
        rollout.replicas = scaling.reached;
    }
    if inventory.aborts() && inventory.bounds.desired > 0 {
        // A retry has only those points that were ahead without replicas since.
        rollout.points = Some(Vec::new());
    }
    if is_over {
        rollout.completed = true;
        rollout.points = Some(Vec::new());
        rollout.pause = None;
        status.passed = None;
    }
}

/// The status during a migration, when nothing is done: the counts and the reason.
pub(crate) fn migrating(inventory: &Inventory<'_>, reason: &str, message: &str) -> OrderedDeploymentStatus {
    let now = inventory.snapshot.now;
    let mut status = observed(inventory);
    // Pods that are not adopted yet, or are released already, still serve.
    conditions::set(&mut status, condition::AVAILABLE, Unknown, reason, message, now);
    conditions::set(&mut status, condition::PROGRESSING, Unknown, reason, message, now);
    conditions::set(&mut status, condition::COMPLETE, False, reason, message, now);
    conditions::set(&mut status, condition::STALLED, False, reason, message, now);
    conditions::set(&mut status, condition::RECONCILING, True, reason, message, now);
    not_held(inventory, &mut status);
    status
}

/// The condition of an object that is not held.
fn not_held(inventory: &Inventory<'_>, status: &mut OrderedDeploymentStatus) {
    if status.hold.is_none() {
        let message = "No pause point holds the rollout";
        conditions::set(status, condition::HELD, False, reason::NOT_HELD, message, inventory.snapshot.now);
    }
}

/// The status with the counts and the generation as of this decision.
fn observed(inventory: &Inventory<'_>) -> OrderedDeploymentStatus {
    let mut status = counted(inventory);
    status.observed_generation = inventory.snapshot.deployment.metadata.generation;
    status
}

/// The status with the counts as of this decision. Only a report says that a generation is observed.
pub(crate) fn counted(inventory: &Inventory<'_>) -> OrderedDeploymentStatus {
    let mut status = inventory.status.clone();
    let narrow = |number: i64| Some(narrow(number));
    status.replicas = narrow(inventory.active());
    status.updated_replicas = narrow(inventory.with_spec_template());
    status.ready_replicas = narrow(inventory.ready);
    status.available_replicas = narrow(inventory.available);
    status.unavailable_replicas = narrow((inventory.bounds.desired - inventory.available).max(0));
    status.terminating_replicas = narrow(inventory.terminating());
    status.selector = Some(inventory.spec.selector.to_selector_string());
    status
}

/// The status for a spec that breaks a rule that the API server did not check: nothing is done.
pub(crate) fn invalid(
    inventory: &Inventory<'_>,
    violations: &[ordereddeployment_api::Violation],
) -> OrderedDeploymentStatus {
    let mut status = inventory.status.clone();
    status.observed_generation = inventory.snapshot.deployment.metadata.generation;
    let all: Vec<_> = violations.iter().map(ToString::to_string).collect();
    let message = format!("The spec is invalid; nothing is done until it is corrected: {}", all.join("; "));
    let now = inventory.snapshot.now;
    let mut say =
        |type_, holds| conditions::set(&mut status, type_, holds, reason::INVALID_SPEC, &message, now);
    say(condition::STALLED, True);
    say(condition::COMPLETE, False);
    say(condition::PROGRESSING, False);
    say(condition::RECONCILING, False);
    // These conditions describe pods and holds, which do not change.
    for type_ in [condition::AVAILABLE, condition::HELD] {
        if inventory.status.condition(type_).is_none() {
            conditions::set(&mut status, type_, Unknown, reason::INVALID_SPEC, &message, now);
        }
    }
    status
}

fn available(inventory: &Inventory<'_>, status: &mut OrderedDeploymentStatus) {
    // Recreate has no floor: it deletes all old pods first. Otherwise all pods are expected.
    let floor = if inventory.recreate() { inventory.bounds.desired } else { inventory.bounds.floor };
    let (holds, reason, message) = if inventory.available >= floor {
        (True, reason::MINIMUM_REPLICAS_AVAILABLE, "Enough pods are available")
    } else {
        (False, reason::MINIMUM_REPLICAS_UNAVAILABLE, "Too few pods are available")
    };
    conditions::set(status, condition::AVAILABLE, holds, reason, message, inventory.snapshot.now);
}

/// The message about invalid pause points.
fn invalid_points(inventory: &Inventory<'_>) -> String {
    let all: Vec<_> = inventory.invalid_points.iter().map(ToString::to_string).collect();
    format!("The pause points are invalid; no rollout goes on until they are corrected: {}", all.join("; "))
}

/// The message while there is no answer.
const NOT_COMPARED: &str = "Whether the template differs from those of the sets is not known yet";

/// The message of a rollout that is over.
const WHOLE: &str = "Every pod is of the current template and available";

/// The message while `spec.paused` is set.
const PAUSED: &str = "The rollout is paused (spec.paused)";

/// Why the clock of the deadline does not run, if it does not: the condition Progressing.
fn stopped(state: &State<'_, '_>) -> Option<(ConditionStatus, &'static str, String)> {
    let inventory = state.inventory;
    if let Some(aborted) = inventory.aborted {
        return Some((False, reason::ABORTED, abort_message(inventory, aborted)));
    }
    if state.is_whole && !inventory.spec.paused {
        return Some((True, reason::NEW_REPLICA_SET_AVAILABLE, WHOLE.to_owned()));
    }
    if state.is_held && !inventory.invalid_points.is_empty() {
        return Some((Unknown, reason::INVALID_SPEC, invalid_points(inventory)));
    }
    if inventory.spec.paused {
        return Some((Unknown, reason::DEPLOYMENT_PAUSED, PAUSED.to_owned()));
    }
    if inventory.revision.needs_comparison() {
        return Some((Unknown, reason::TEMPLATE_NOT_COMPARED, NOT_COMPARED.to_owned()));
    }
    let is_suspended = inventory.bounds.desired == 0 && !state.points.is_empty();
    // Recreate makes no updated pod beside an old one.
    let are_there = inventory.recreate() && inventory.old_count() > 0
        || inventory.updated_available >= state.points.limit.min(inventory.bounds.desired);
    let is_held = inventory.status.hold.is_some() && are_there;
    let stands = is_suspended || is_held || state.points.waits_at(inventory).is_some();
    stands.then(|| (Unknown, reason::ROLLOUT_HELD, "The rollout is paused at a pause point".to_owned()))
}

/// As in a Deployment (`syncRolloutStatus` in `pkg/controller/deployment/progress.go`), with a clock that a
/// hold stops.
fn progressing(state: &State<'_, '_>, status: &mut OrderedDeploymentStatus) {
    let inventory = state.inventory;
    let now = inventory.snapshot.now;
    let type_ = condition::PROGRESSING;
    if let Some((holds, reason, message)) = stopped(state) {
        conditions::set(status, type_, holds, reason, &message, now);
        return;
    }
    let before = inventory.status;
    // Forged counts can have any value.
    let stored = |count: Option<i32>| i64::from(count.unwrap_or(0));
    let old_before = stored(before.replicas) - stored(before.updated_replicas);
    let old = inventory.old_count();
    // The replacement of a failed pod is no progress: repeated failures would restart the clock forever.
    let grown = status.updated_replicas > before.updated_replicas && inventory.backoff.message.is_none();
    let progressed = grown
        || old < old_before
        || status.ready_replicas > before.ready_replicas
        || status.available_replicas > before.available_replicas;
    // Scaling or a lost pod after completion is no rollout, as in a Deployment: the clock does not run.
    let found = status.condition(type_).map(|found| found.reason.as_str());
    let rests = found == Some(reason::NEW_REPLICA_SET_AVAILABLE) && old == 0 && inventory.has_served();
    let begins = found.is_none_or(|found| conditions::STOPPED.contains(&found));
    if (progressed && !rests) || begins {
        conditions::progressing_again(status, reason::REPLICA_SET_UPDATED, "made progress", now);
    } else if let Some(deadline) = conditions::deadline(status, inventory.spec.progress_deadline_seconds)
        && deadline <= seconds(now)
    {
        let waits = unscheduled(inventory).map(|waits| format!(": {waits}")).unwrap_or_default();
        let message = format!("No progress for {} seconds{waits}", inventory.spec.progress_deadline_seconds);
        conditions::set(status, type_, False, reason::PROGRESS_DEADLINE_EXCEEDED, &message, now);
    }
}

/// What an abort does, and how it ends.
fn abort_message(inventory: &Inventory<'_>, aborted: &Aborted) -> String {
    let name = inventory.name();
    let Aborted { revision, to, reason, .. } = aborted;
    let desired = inventory.bounds.desired;
    let progress = if inventory.current.is_none() {
        format!("The set of revision {to} is gone, and no pod is created or deleted")
    } else {
        let available = inventory.updated_available;
        format!("{available} of {desired} pods of revision {to} are available")
    };
    format!(
        "The rollout to revision {revision} was aborted, back to revision {to}: {reason}. {progress}. Change \
         the template, or start the rollout again with kubectl ordered retry {name}"
    )
}

/// The message about unschedulable pods, if there are any.
fn unscheduled(inventory: &Inventory<'_>) -> Option<String> {
    let mut waiting = inventory.updated().iter().filter(|ranked| ranked.pod.unscheduled.is_some());
    let first = waiting.next()?.pod;
    let why = first.unscheduled.as_deref().unwrap_or_default();
    let more = match waiting.count() {
        0 => String::new(),
        others => format!(", nor {others} more"),
    };
    Some(format!("pod {} cannot be scheduled{more} ({why})", first.name))
}

fn complete(state: &State<'_, '_>, status: &mut OrderedDeploymentStatus) {
    let inventory = state.inventory;
    let (holds, reason, message) = if !inventory.invalid_points.is_empty() {
        (False, reason::INVALID_SPEC, invalid_points(inventory))
    } else if state.is_complete() {
        (True, reason::ROLLOUT_COMPLETE, WHOLE.to_owned())
    } else if let Some(aborted) = inventory.aborted {
        (False, reason::ABORTED, abort_message(inventory, aborted))
    } else if inventory.revision.needs_comparison() {
        (False, reason::TEMPLATE_NOT_COMPARED, NOT_COMPARED.to_owned())
    } else {
        (False, reason::ROLLOUT_IN_PROGRESS, goes_on(state).to_owned())
    };
    conditions::set(status, condition::COMPLETE, holds, reason, &message, inventory.snapshot.now);
}

/// Why a rollout that nothing stops is not complete.
fn goes_on(state: &State<'_, '_>) -> &'static str {
    if state.is_whole {
        "Every pod is of the current template and available, but its OrderedReplicaSet does not record that \
         yet"
    } else {
        "Pods are missing, unavailable or of an older template"
    }
}

fn failure(state: &State<'_, '_>, changes: &PodChanges, status: &mut OrderedDeploymentStatus) {
    let inventory = state.inventory;
    let refused =
        inventory.snapshot.failure.as_ref().map(|failure| (failure.what.reason(), &failure.message));
    let unproven = changes.awaiting_dry_run.as_ref().map(|message| (reason::TEMPLATE_UNPROVEN, message));
    let failed = inventory.backoff.message.as_ref().filter(|_| !state.is_complete());
    let failed = failed.map(|message| (reason::PODS_FAILED, message));
    let type_ = condition::REPLICA_FAILURE;
    if let Some((reason, message)) = refused.or(unproven).or(failed) {
        conditions::set(status, type_, True, reason, message, inventory.snapshot.now);
    } else if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != type_);
    }
}

/// As kstatus defines it: `True` means failed, also past the deadline, as of a Deployment.
fn stalled(inventory: &Inventory<'_>, changes: &PodChanges, status: &mut OrderedDeploymentStatus) {
    let now = inventory.snapshot.now;
    let late = status.condition(condition::PROGRESSING);
    let late = late.filter(|late| late.reason == reason::PROGRESS_DEADLINE_EXCEEDED);
    let late = late.map(|late| (reason::PROGRESS_DEADLINE_EXCEEDED, late.message.clone()));
    let ambiguous = inventory.snapshot.failure.as_ref().filter(|one| one.what == FailureKind::EvictAmbiguous);
    let ambiguous = ambiguous.map(|failure| (failure.what.reason(), failure.message.clone()));
    let invalid = (!inventory.invalid_points.is_empty()).then(|| invalid_points(inventory));
    let invalid = invalid.map(|message| (reason::INVALID_SPEC, message));
    let found = changes.stalled.as_ref().map(|(reason, message)| (*reason, message.clone()));
    let aborted = inventory.aborted.map(|aborted| (reason::ABORTED, abort_message(inventory, aborted)));
    if let Some((reason, message)) =
        aborted.or(invalid).or(template_comparison::unanswered(inventory)).or(found).or(ambiguous).or(late)
    {
        conditions::set(status, condition::STALLED, True, reason, &message, now);
    } else {
        let message = "Nothing stands in the way";
        conditions::set(status, condition::STALLED, False, reason::NOT_STALLED, message, now);
    }
}

/// As kstatus defines it: `True` means that the pods do not match the spec yet. Never `True` together with
/// `Stalled`, so that the result does not depend on the order in which a reader checks them.
fn reconciling(state: &State<'_, '_>, status: &mut OrderedDeploymentStatus) {
    let inventory = state.inventory;
    let (holds, reason, message) =
        if let Some(stalled) = status.condition(condition::STALLED).filter(|found| found.status == True) {
            (False, stalled.reason.clone(), "Nothing goes on: see the condition Stalled".to_owned())
        } else if state.is_complete() {
            (False, reason::ROLLOUT_COMPLETE.to_owned(), WHOLE.to_owned())
        } else if inventory.revision.needs_comparison() {
            (True, reason::TEMPLATE_NOT_COMPARED.to_owned(), NOT_COMPARED.to_owned())
        } else if let Some(hold) = &inventory.status.hold {
            (True, reason::ROLLOUT_HELD.to_owned(), conditions::hold_message(hold, inventory.name()))
        } else if inventory.spec.paused {
            (True, reason::DEPLOYMENT_PAUSED.to_owned(), PAUSED.to_owned())
        } else {
            (True, reason::ROLLOUT_IN_PROGRESS.to_owned(), goes_on(state).to_owned())
        };
    conditions::set(status, condition::RECONCILING, holds, &reason, &message, inventory.snapshot.now);
}
