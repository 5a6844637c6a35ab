//! Errors of requests, and what they mean for the state in memory.

use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;

use crate::client::fence::NotLeading;

/// The longest wait that an answer may ask for: a wrong answer delays a rollout and does not stop it.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Why one request failed. Clones are for the objects that wait for one list.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// There was no answer in time: the request may or may not have been processed.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The API server refused the request, or failed.
    #[error("{}", words(.0))]
    Answered(Box<Status>),
    /// The request was not sent, or its answer not awaited: this process is not the leader, or stands aside.
    #[error("this process is not the leader, or stands aside for another controller")]
    NotLeading,
    /// The request did not reach the API server, or its answer did not arrive.
    #[error("{}", with_causes(&**.0))]
    Transport(Arc<kube::Error>),
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Answered(status),
            other if is_fenced(&other) => Self::NotLeading,
            other => Self::Transport(Arc::new(other)),
        }
    }
}

impl RequestError {
    /// The status code of the answer, if there was one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Answered(status) => Some(status.code),
            Self::TimedOut(_) | Self::Transport(_) | Self::NotLeading => None,
        }
    }

    /// How long the answer asks to wait before the next request. Refused evictions have their own backoff.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let Self::Answered(status) = self else { return None };
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let asks = seconds > 0 && self.refusal().is_none();
        asks.then(|| Duration::from_secs(seconds.into()).min(LONGEST_WAIT))
    }

    /// Whether the answer is 404.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether that object does not exist. Other answers have this code too.
    #[must_use]
    pub fn says_gone(&self, name: &str) -> bool {
        matches!(self, Self::Answered(status) if status.code == 404
            && status.details.as_ref().is_some_and(|details| details.name == name))
    }

    /// Whether there is an object of that name already.
    #[must_use]
    pub fn is_already_there(&self) -> bool {
        matches!(self, Self::Answered(status) if status.code == 409 && status.reason == "AlreadyExists")
    }

    /// Whether nothing can be created in the namespace any more.
    #[must_use]
    pub fn says_namespace_terminates(&self) -> bool {
        let Self::Answered(status) = self else { return false };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        status.code == 403 && causes.any(|cause| cause.reason == "NamespaceTerminating")
    }

    /// Whether it refuses an object because of fields that the API server does not know.
    #[must_use]
    pub fn is_of_unknown_fields(&self) -> bool {
        matches!(self, Self::Answered(status)
            if status.code == 400 && status.message.contains("strict decoding error"))
    }

    /// Whether the object has another version or UID than the request names.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409) && !self.is_already_there()
    }

    /// Whether the request may have been processed nevertheless: only a live read shows it.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.code().is_none_or(|code| code >= 500) && self.refusal().is_none()
    }

    /// The refusal in this answer to an eviction, if a disruption budget refused it.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        let Self::Answered(status) = self else { return None };
        let details = status.details.as_ref();
        let causes: Vec<&str> = details
            .into_iter()
            .flat_map(|details| &details.causes)
            .filter(|cause| cause.reason == "DisruptionBudget")
            .map(|cause| cause.message.as_str())
            .collect();
        match status.code {
            429 if !causes.is_empty() => Some(Refusal::Named(causes.join("; "))),
            429 if status.message.contains("disruption budget") => Some(Refusal::Unnamed(words(status))),
            // A budget with an invalid status; the message begins with its name.
            403 if details.is_some_and(|details| details.kind.starts_with("poddisruptionbudget")) => {
                Some(Refusal::Named(words(status)))
            }
            500 if status.message.contains("more than one PodDisruptionBudget") => Some(Refusal::Several),
            _ => None,
        }
    }

    /// What this answer to a dry-run create means for the template.
    #[must_use]
    pub fn dry_run_answer(&self) -> DryRunAnswer {
        let message = self.to_string();
        let undecided = ["exceeded quota", "does not support dry run"];
        match self.code() {
            Some(400 | 403) if undecided.iter().any(|words| message.contains(words)) => {
                DryRunAnswer::Undecided(message)
            }
            Some(400 | 403 | 422) => DryRunAnswer::Refused(message),
            _ => DryRunAnswer::Retry,
        }
    }
}

/// Whether the fence has stopped the request.
fn is_fenced(error: &kube::Error) -> bool {
    let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |cause| cause.source());
    causes.any(<dyn std::error::Error>::is::<NotLeading>)
}

/// What the answer to a dry-run create means for a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRunAnswer {
    /// No pod can be created from it.
    Refused(String),
    /// The API server could not decide, for a reason that is not in the template.
    Undecided(String),
    /// No result yet.
    Retry,
}

/// The disruption budgets in an answer that refuses an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The message names the budget.
    Named(String),
    /// The message does not name it.
    Unnamed(String),
    /// Several budgets select the pod, which the eviction API does not support.
    Several,
}

/// The message with those of its causes that it does not repeat: `client error (Connect)` alone names none.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(found) = cause {
        let words = found.to_string();
        if !message.contains(&words) {
            message = format!("{message}: {words}");
        }
        cause = found.source();
    }
    message
}

fn words(status: &Status) -> String {
    match status.message.as_str() {
        "" => format!("{} {}", status.code, status.reason),
        message => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::core::Status;
    use serde_json::json;

    use super::{DryRunAnswer, Refusal, RequestError};

    fn answer(code: u16, reason: &str, message: &str) -> RequestError {
        let mut status = Status::failure(message, reason);
        status.code = code;
        RequestError::Answered(Box::new(status))
    }

    #[test]
    fn only_a_refusal_of_the_pod_itself_refuses_a_template() {
        type Answer = fn(String) -> DryRunAnswer;
        let (refused, undecided): (Answer, Answer) = (DryRunAnswer::Refused, DryRunAnswer::Undecided);
        let retry: Answer = |_| DryRunAnswer::Retry;
        for (code, words, expected) in [
            (422, "spec.containers[0].image: Required value", refused),
            (400, "strict decoding error", refused),
            (403, "violates PodSecurity", refused),
            (403, "pods \"a\" is forbidden: exceeded quota: q", undecided),
            (400, "admission webhook \"w\" does not support dry run", undecided),
            (429, "slow down", retry),
            (500, "failed calling webhook", retry),
            (503, "busy", retry),
        ] {
            assert_eq!(
                answer(code, "", words).dry_run_answer(),
                expected(words.to_owned()),
                "{code} {words}"
            );
        }
        assert_eq!(RequestError::TimedOut(Duration::from_secs(10)).dry_run_answer(), DryRunAnswer::Retry);
    }

    #[test]
    fn an_outcome_is_unknown_without_an_answer_and_after_a_servers_failure() {
        assert!(RequestError::TimedOut(Duration::from_secs(10)).is_outcome_unknown());
        for code in [500, 502, 503, 504] {
            assert!(answer(code, "", "").is_outcome_unknown(), "{code}");
        }
        for code in [400, 403, 404, 409, 422, 429] {
            assert!(!answer(code, "", "").is_outcome_unknown(), "{code}");
        }
    }

    #[test]
    fn a_name_that_is_taken_is_not_a_conflict() {
        assert!(answer(409, "AlreadyExists", "").is_already_there());
        assert!(!answer(409, "AlreadyExists", "").is_conflict());
        assert!(answer(409, "Conflict", "").is_conflict());
    }

    #[test]
    fn only_budgets_refuse_evictions_and_the_outcome_of_a_refusal_is_known() {
        let named = |code: u16, details| {
            let status = json!({
                "status": "Failure", "code": code, "reason": "r", "message": "No.", "details": details,
            });
            RequestError::Answered(serde_json::from_value(status).unwrap())
        };
        let cause = |reason| json!({"causes": [{"reason": reason, "message": "The disruption budget web"}]});
        let several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does \
                       not support.";
        let table = [
            (named(429, cause("DisruptionBudget")), Some(Refusal::Named("The disruption budget web".into()))),
            (named(429, cause("Other")), None),
            (
                answer(429, "TooManyRequests", "Cannot evict: disruption budget."),
                Some(Refusal::Unnamed("Cannot evict: disruption budget.".into())),
            ),
            (answer(429, "TooManyRequests", "Too many requests, please try again later."), None),
            (named(403, json!({"kind": "poddisruptionbudgets"})), Some(Refusal::Named("No.".into()))),
            (named(403, json!({"kind": "pods"})), None),
            (answer(500, "", several), Some(Refusal::Several)),
        ];
        for (error, expected) in table {
            assert_eq!(error.refusal(), expected, "{error:?}");
            assert!(!error.is_outcome_unknown(), "{error:?}");
        }
        assert_eq!(answer(500, "", "failed calling webhook").refusal(), None);
    }

    #[test]
    fn an_answer_without_a_message_shows_its_code() {
        assert_eq!(answer(403, "Forbidden", "").to_string(), "403 Forbidden");
    }
}
