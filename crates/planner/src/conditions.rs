//! The conditions, and the clock of the progress deadline. They describe the state and decide nothing.

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::{
    Condition, ConditionStatus, Hold, OrderedDeploymentStatus, PausePoint,
    limits::{self, cut},
    names::{condition, reason},
};

/// Truncates to whole seconds, as times are stored: both sides of a comparison must be truncated.
#[must_use]
pub fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Sets a condition. Its times change only with its status and content.
pub(crate) fn set(
    status: &mut OrderedDeploymentStatus,
    type_: &str,
    holds: ConditionStatus,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let mut message = message.to_owned();
    cut(&mut message, limits::MESSAGE);
    let mut new = Condition {
        type_: type_.to_owned(),
        status: holds,
        reason: reason.to_owned(),
        message,
        last_transition_time: seconds(now).into(),
        last_update_time: seconds(now).into(),
    };
    let conditions = status.conditions.get_or_insert_default();
    let Some(found) = conditions.iter_mut().find(|condition| condition.type_ == type_) else {
        conditions.push(new);
        return;
    };
    if found.status == new.status {
        new.last_transition_time = found.last_transition_time.clone();
        if found.reason == new.reason && found.message == new.message {
            new.last_update_time = found.last_update_time.clone();
        }
    }
    *found = new;
}

/// Records progress: the clock of the progress deadline restarts.
pub(crate) fn progressing_again(
    status: &mut OrderedDeploymentStatus,
    reason: &str,
    what: &str,
    now: Timestamp,
) {
    set(
        status,
        condition::PROGRESSING,
        ConditionStatus::True,
        reason,
        &format!("The rollout has {what}"),
        now,
    );
    let found = status.conditions.iter_mut().flatten().find(|found| found.type_ == condition::PROGRESSING);
    if let Some(found) = found {
        found.last_update_time = seconds(now).into();
    }
}

/// The rollout is held.
pub(crate) fn hold(status: &mut OrderedDeploymentStatus, hold: &Hold, name: &str, now: Timestamp) {
    let message = hold_message(hold, name);
    set(status, condition::HELD, ConditionStatus::True, reason::ROLLOUT_HELD, &message, now);
}

/// The rollout continues.
pub(crate) fn not_held(status: &mut OrderedDeploymentStatus, now: Timestamp) {
    let message = "No pause point holds the rollout";
    set(status, condition::HELD, ConditionStatus::False, reason::NOT_HELD, message, now);
    progressing_again(status, reason::ROLLOUT_RESUMED, "been resumed", now);
}

/// Where the rollout is held, and how to resume it.
pub(crate) fn hold_message(hold: &Hold, name: &str) -> String {
    let side = match hold.point {
        PausePoint::Before => "before",
        PausePoint::After => "after",
    };
    let node = hold.node.as_ref().map(|node| format!(" on node {node}")).unwrap_or_default();
    let until = match &hold.until {
        Some(until) => format!("until {}", until.0),
        None => format!("until it is resumed: kubectl ordered resume {name} {}", hold.label()),
    };
    let (pod, revision) = (&hold.pod, hold.revision);
    if let Some(declared) = &hold.declared {
        let point = declared.label();
        let next = if pod.is_empty() { String::new() } else { format!(". Next is pod {pod}{node}") };
        return format!("Paused at pause point {point}, rollout to revision {revision}, {until}{next}");
    }
    format!("Paused at pause point {pod} ({side}){node}, rollout to revision {revision}, {until}")
}

/// Reasons of `Progressing` while nothing is rolled out: the clock of the deadline restarts afterwards.
pub(crate) const STOPPED: [&str; 7] = [
    reason::ABORTED,
    reason::TEMPLATE_NOT_COMPARED,
    reason::ROLLOUT_HELD,
    reason::DEPLOYMENT_PAUSED,
    reason::INVALID_SPEC,
    reason::ADOPTING,
    reason::HANDING_BACK,
];

/// Whether the status says that the progress deadline has passed.
pub(crate) fn is_overdue(status: &OrderedDeploymentStatus) -> bool {
    let progressing = status.condition(condition::PROGRESSING);
    progressing.is_some_and(|progressing| progressing.reason == reason::PROGRESS_DEADLINE_EXCEEDED)
}

/// When the progress deadline passes, if its clock runs.
pub(crate) fn deadline(status: &OrderedDeploymentStatus, seconds: i32) -> Option<Timestamp> {
    let progressing = status.condition(condition::PROGRESSING)?;
    let reason = progressing.reason.as_str();
    let is_over = [reason::NEW_REPLICA_SET_AVAILABLE, reason::PROGRESS_DEADLINE_EXCEEDED].contains(&reason);
    if seconds == i32::MAX || is_over || STOPPED.contains(&reason) {
        return None;
    }
    progressing.last_update_time.0.checked_add(SignedDuration::from_secs(i64::from(seconds))).ok()
}

/// The message for fields that are not stored.
#[must_use]
pub fn unstored_message(fields: &[String]) -> String {
    format!(
        "The API server does not store these fields of the status: {}. Its CRDs are older than the \
         controller: update them",
        fields.join(", ")
    )
}

/// Sets the conditions that report that these fields are not stored.
pub fn report_unstored(status: &mut OrderedDeploymentStatus, fields: &[String], now: Timestamp) {
    let message = unstored_message(fields);
    set(status, condition::STALLED, ConditionStatus::True, reason::STATUS_NOT_STORED, &message, now);
    set(status, condition::RECONCILING, ConditionStatus::False, reason::STATUS_NOT_STORED, &message, now);
}
