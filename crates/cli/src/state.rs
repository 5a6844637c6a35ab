//! Where an OrderedDeployment stands, by its status alone. Pure: it reads no server and no clock.

use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, Hold, OrderedDeployment, OrderedDeploymentStatus, PausePoint};

use crate::style::{Paint, Style};

/// Where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The controller has not answered to this spec yet.
    Unseen,
    /// Nothing goes on until somebody changes something: what.
    Failed(String),
    /// Halted at a pause point.
    Held(Box<Hold>),
    /// Every pod is of the current template and available.
    Complete,
    /// `spec.paused`.
    Paused,
    /// Pods come and go.
    Rolling,
    /// Its pods change hands with a Deployment, and nothing else is done.
    Moving(Moving),
}

/// Pods that change hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moving {
    /// To a Deployment, not from one.
    back: bool,
    /// What is waited for.
    pub(crate) message: String,
}

impl Moving {
    pub(crate) fn of(status: &OrderedDeploymentStatus) -> Option<Self> {
        let progress = status.condition(condition::PROGRESSING)?;
        let back = progress.reason == reason::HANDING_BACK;
        (back || progress.reason == reason::ADOPTING)
            .then(|| Self { back, message: progress.message.clone() })
    }

    pub(crate) fn words(&self) -> &'static str {
        if self.back { "Handing back" } else { "Adopting" }
    }

    /// What ends it.
    pub(crate) fn command(&self, name: &str, flags: &str) -> String {
        let back = if self.back { " --back" } else { "" };
        format!("kubectl ordered adopt deployment/{name}{back}{flags}")
    }
}

impl State {
    pub(crate) fn of(deployment: &OrderedDeployment) -> Self {
        let Some(status) = &deployment.status else { return Self::Unseen };
        let generation = deployment.metadata.generation.unwrap_or(0);
        if status.observed_generation.unwrap_or(0) < generation {
            return Self::Unseen;
        }
        let found = |type_: &str, wanted: ConditionStatus| {
            status.condition(type_).filter(|condition| condition.status == wanted)
        };
        if let Some(moving) = Moving::of(status) {
            return Self::Moving(moving);
        }
        if let Some(stalled) = found(condition::STALLED, ConditionStatus::True) {
            return Self::Failed(stalled.message.clone());
        }
        let late = found(condition::PROGRESSING, ConditionStatus::False)
            .filter(|progress| progress.reason == reason::PROGRESS_DEADLINE_EXCEEDED);
        if let Some(late) = late {
            return Self::Failed(late.message.clone());
        }
        if let Some(hold) = status.hold.as_ref().filter(|hold| hold.deleted != Some(false)) {
            return Self::Held(Box::new(hold.clone()));
        }
        if found(condition::COMPLETE, ConditionStatus::True).is_some() {
            return Self::Complete;
        }
        if deployment.spec.paused { Self::Paused } else { Self::Rolling }
    }

    /// How it is, at a glance: a mark, and its colour.
    pub(crate) fn mark(&self, style: Style) -> (&'static str, Paint) {
        match self {
            Self::Complete => (style.pick("✔", "*"), Paint::Good),
            Self::Rolling => (style.pick("↻", "~"), Paint::Title),
            Self::Moving(_) => (style.pick("↻", "~"), Paint::Warn),
            Self::Held(_) | Self::Paused => (style.pick("‖", "="), Paint::Warn),
            Self::Failed(_) => (style.pick("✖", "!"), Paint::Bad),
            Self::Unseen => (style.pick("◌", "~"), Paint::Warn),
        }
    }

    /// One word for a column, with the pod of a hold.
    pub(crate) fn word(&self) -> String {
        match self {
            Self::Unseen => "Unseen".to_owned(),
            Self::Failed(_) => "Failed".to_owned(),
            Self::Held(hold) => format!("Held {} {}", side(hold.point), hold.pod),
            Self::Complete => "Complete".to_owned(),
            Self::Paused => "Paused".to_owned(),
            Self::Rolling => "Rolling".to_owned(),
            Self::Moving(moving) => moving.words().to_owned(),
        }
    }
}

/// On which side of its pod a point lies, in a word.
pub(crate) fn side(point: PausePoint) -> &'static str {
    match point {
        PausePoint::Before => "before",
        PausePoint::After => "after",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::State;
    use crate::testing::{held_before, pod, seen};

    fn state(status: &Value) -> State {
        State::of(&seen(4, "web:2", status, &[]).deployment)
    }

    fn with(type_: &str, status: &str, reason: &str) -> Value {
        let now = "2030-01-01T12:00:00Z";
        json!({"observedGeneration": 2, "conditions": [{
            "type": type_, "status": status, "reason": reason, "message": "why",
            "lastTransitionTime": now, "lastUpdateTime": now,
        }]})
    }

    #[test]
    fn a_status_of_an_older_spec_says_nothing_of_this_one() {
        assert_eq!(state(&Value::Null), State::Unseen);
        let mut old = with("Complete", "True", "RolloutComplete");
        assert_eq!(state(&old), State::Complete);
        old["observedGeneration"] = 1.into();
        assert_eq!(state(&old), State::Unseen);
    }

    #[test]
    fn pods_that_change_hands_are_told_with_what_ends_it() {
        for (reason, words, command) in [
            ("Adopting", "Adopting", "kubectl ordered adopt deployment/web -n shop"),
            ("HandingBack", "Handing back", "kubectl ordered adopt deployment/web --back -n shop"),
        ] {
            let found = state(&with("Progressing", "Unknown", reason));
            assert_eq!(found.word(), words);
            let State::Moving(moving) = found else { panic!("{found:?}") };
            assert_eq!(
                (moving.message.as_str(), moving.command("web", " -n shop")),
                ("why", command.to_owned())
            );
        }
    }

    #[test]
    fn a_hold_is_one_once_its_pod_of_after_is_deleted() {
        let mut held = held_before(&pod("web:1", "cccccccc", "n2"));
        assert!(matches!(state(&held), State::Held(_)));
        held["hold"]["point"] = "After".into();
        held["hold"]["deleted"] = false.into();
        assert_eq!(state(&held), State::Rolling);
        held["hold"]["deleted"] = true.into();
        assert!(matches!(state(&held), State::Held(_)));
    }

    #[test]
    fn a_failure_counts_before_the_hold_it_happened_in() {
        let mut held = held_before(&pod("web:1", "cccccccc", "n2"));
        held["conditions"] = with("Progressing", "False", "ProgressDeadlineExceeded")["conditions"].take();
        assert_eq!(state(&held), State::Failed("why".to_owned()));
        assert_eq!(state(&with("Stalled", "True", "TemplateRefused")), State::Failed("why".to_owned()));
        assert_eq!(state(&with("Progressing", "False", "Other")), State::Rolling);
    }
}
