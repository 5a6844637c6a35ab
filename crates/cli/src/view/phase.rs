//! The phase of a rollout, from the object alone. Pure functions: no server, no clock.

use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{
    Aborted, Blocked, Condition, ConditionStatus, Hold, OrderedDeployment, OrderedDeploymentStatus,
    PausePoint,
};

use crate::terminal::style::{Paint, Style};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The controller has not observed this spec yet.
    Unobserved,
    /// The spec or the cluster must be changed; the message says what.
    Stalled(String),
    /// The progress deadline is exceeded; the message says what is missing.
    DeadlineExceeded(String),
    /// The rollout was aborted: the pods are rolled back, or being rolled back.
    Aborted(Box<Aborted>),
    Held(Box<Hold>),
    /// All pods are updated and available.
    Complete,
    /// `spec.paused`.
    Paused,
    Rolling,
    Suspended(i64),
    /// Its pods are being moved from or to a Deployment. The controller does nothing else.
    Migrating(Migration),
}

/// A move of the pods from a Deployment, or back to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    back: bool,
    /// The message of the condition: what the controller waits for.
    pub(crate) message: String,
}

impl Migration {
    pub(crate) fn of(status: &OrderedDeploymentStatus) -> Option<Self> {
        let progress = status.condition(condition::PROGRESSING)?;
        let back = progress.reason == reason::HANDING_BACK;
        (back || progress.reason == reason::ADOPTING)
            .then(|| Self { back, message: progress.message.clone() })
    }

    pub(crate) fn label(&self) -> &'static str {
        if self.back { "Handing back" } else { "Adopting" }
    }

    /// The command that finishes it.
    pub(crate) fn command(&self, name: &str, flags: &str) -> String {
        let back = if self.back { " --back" } else { "" };
        format!("kubectl ordered adopt deployment/{name}{back}{flags}")
    }
}

impl Phase {
    pub(crate) fn of(deployment: &OrderedDeployment) -> Self {
        deployment.status.as_ref().map_or(Self::Unobserved, |status| Self::with(deployment, status))
    }

    /// The phase with these counts: those of the status, or newer ones. All else is from the status.
    pub(crate) fn with(deployment: &OrderedDeployment, counts: &OrderedDeploymentStatus) -> Self {
        let Some(status) = &deployment.status else { return Self::Unobserved };
        let generation = deployment.metadata.generation.unwrap_or(0);
        if status.observed_generation.unwrap_or(0) < generation {
            return Self::Unobserved;
        }
        let is_true = |condition: &&Condition| condition.status == ConditionStatus::True;
        if let Some(migration) = Migration::of(status) {
            return Self::Migrating(migration);
        }
        if let Some(aborted) = aborted(status) {
            return Self::Aborted(Box::new(aborted.clone()));
        }
        if let Some(message) = deadline_exceeded(status) {
            return Self::DeadlineExceeded(message.to_owned());
        }
        if let Some(stalled) = status.condition(condition::STALLED).filter(is_true) {
            return Self::Stalled(stalled.message.clone());
        }
        if let Some(hold) = &status.hold {
            return Self::Held(Box::new(hold.clone()));
        }
        if counts.condition(condition::COMPLETE).as_ref().is_some_and(is_true) {
            return Self::Complete;
        }
        if deployment.spec.paused {
            return Self::Paused;
        }
        suspended_revision(status).map_or(Self::Rolling, Self::Suspended)
    }

    pub(crate) fn mark(&self, style: Style) -> (&'static str, Paint) {
        match self {
            Self::Complete => (style.pick("✔", "*"), Paint::Good),
            Self::Rolling => (style.pick("↻", "~"), Paint::Title),
            Self::Migrating(_) => (style.pick("↻", "~"), Paint::Warn),
            Self::Held(_) | Self::Paused | Self::Suspended(_) => (style.pick("‖", "="), Paint::Warn),
            Self::Stalled(_) | Self::DeadlineExceeded(_) | Self::Aborted(_) => {
                (style.pick("✖", "!"), Paint::Bad)
            }
            Self::Unobserved => (style.pick("◌", "~"), Paint::Warn),
        }
    }

    /// A label for a column, with the pod or the name of the pause point.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Unobserved => "Waiting for controller".to_owned(),
            Self::Stalled(_) | Self::DeadlineExceeded(_) => "Failed".to_owned(),
            Self::Aborted(_) => "Aborted".to_owned(),
            Self::Held(hold) => format!("Paused at {}", hold.label()),
            Self::Complete => "Complete".to_owned(),
            Self::Paused => "Paused".to_owned(),
            Self::Rolling => "Rolling".to_owned(),
            Self::Suspended(_) => "Suspended".to_owned(),
            Self::Migrating(migration) => migration.label().to_owned(),
        }
    }
}

/// The pause point of a hold with its id: `pause point web-1 (web-1@4)`.
pub(crate) fn pause_point(hold: &Hold) -> String {
    format!("pause point {} ({})", hold.label(), hold.id)
}

fn deadline_exceeded(status: &OrderedDeploymentStatus) -> Option<&str> {
    let progress = status.condition(condition::PROGRESSING)?;
    let exceeded =
        progress.status == ConditionStatus::False && progress.reason == reason::PROGRESS_DEADLINE_EXCEEDED;
    exceeded.then_some(progress.message.as_str())
}

pub(crate) fn aborted(status: &OrderedDeploymentStatus) -> Option<&Aborted> {
    let revision = status.rollout.as_ref()?.revision;
    status.aborted.as_ref().filter(|aborted| aborted.revision == revision)
}

/// `rolled back from revision 4 to 3 (by request)`, or `rolling back` until all its pods are available.
pub(crate) fn rolled_back(aborted: &Aborted, is_done: bool) -> String {
    let Aborted { revision, to, reason, .. } = aborted;
    let verb = if is_done { "rolled back" } else { "rolling back" };
    format!("{verb} from revision {revision} to {to} ({reason})")
}

/// The revision of a suspended rollout: it was scaled to 0 replicas while pause points were ahead.
pub(crate) fn suspended_revision(status: &OrderedDeploymentStatus) -> Option<i64> {
    let rollout = status.rollout.as_ref().filter(|rollout| !rollout.completed)?;
    let is_ahead = rollout.points.as_ref().is_some_and(|points| !points.is_empty());
    (is_ahead && status.replicas == Some(0)).then_some(rollout.revision)
}

/// That the rollout to this revision is suspended, and how it continues.
pub(crate) fn suspended(revision: i64) -> String {
    format!(
        "the rollout to revision {revision} is suspended at 0 replicas: when replicas grows, it continues \
         where it was"
    )
}

/// The pause point at which the rollout is blocked, and the message of the condition.
pub(crate) fn blocked(status: &OrderedDeploymentStatus) -> Option<(&Blocked, &str)> {
    let stalled = status.condition(condition::STALLED)?;
    let stands = [reason::BLOCKED, reason::WAITS_AT_PAUSE_POINT].contains(&stalled.reason.as_str());
    let is_blocked = stalled.status == ConditionStatus::True && stands;
    Some((status.blocked.as_ref().filter(|_| is_blocked)?, &stalled.message))
}

pub(crate) fn side(point: PausePoint) -> &'static str {
    match point {
        PausePoint::Before => "before",
        PausePoint::After => "after",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Phase;
    use crate::testing::{condition, observed_state, paused_before, pod};

    fn phase(status: &Value) -> Phase {
        Phase::of(&observed_state(4, "web:2", status, &[]).deployment)
    }

    fn with(type_: &str, status: &str, reason: &str) -> Value {
        json!({"observedGeneration": 2, "conditions": [condition(type_, status, reason, "why")]})
    }

    #[test]
    fn the_status_of_an_older_generation_is_not_used() {
        assert_eq!(phase(&Value::Null), Phase::Unobserved);
        let mut old = with("Complete", "True", "RolloutComplete");
        assert_eq!(phase(&old), Phase::Complete);
        old["observedGeneration"] = 1.into();
        assert_eq!(phase(&old), Phase::Unobserved);
    }

    #[test]
    fn a_failure_takes_precedence_over_a_hold() {
        let mut paused = paused_before(&pod("web:1", "cccccccc", "n2"));
        paused["conditions"] = with("Progressing", "False", "ProgressDeadlineExceeded")["conditions"].take();
        assert_eq!(phase(&paused), Phase::DeadlineExceeded("why".to_owned()));
        assert_eq!(phase(&with("Stalled", "True", "TemplateRefused")), Phase::Stalled("why".to_owned()));
        assert_eq!(phase(&with("Progressing", "False", "Other")), Phase::Rolling);
    }
}
