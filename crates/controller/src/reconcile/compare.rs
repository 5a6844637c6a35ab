//! Compare: whether a template that no set is known to have is that of one, spelled differently. The API server is asked.
//!
//! What to ask and what the answers mean is the planner's. Nothing is stored here, and no answer outlives its comparison.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{Answer, Comparison, ComparisonResult};
use tokio::time::Instant;

use crate::cache::entry::{Entry, SetEntry};
use crate::client::error::DryRunAnswer;
use crate::reconcile::compared::{ComparisonRecord, Outcome};
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::state::ObjectState;
use crate::runtime::backoff;

impl ObjectState {
    /// What is known of the current template, where there are these sets.
    pub(crate) fn compared(
        &self,
        sets: &[Arc<SetEntry>],
        now: Timestamp,
        instant: Instant,
    ) -> ComparisonResult {
        let Some(verdict) = self.comparison_record() else { return ComparisonResult::Not };
        match &verdict.outcome {
            Outcome::Known(compared) => {
                let mut usable = sets.iter().filter(|set| !set.is_terminating());
                let is_of_all = usable.all(|set| verdict.sets.contains(set.uid()));
                if is_of_all { compared.clone() } else { ComparisonResult::Not }
            }
            Outcome::NoAnswer { since, message, again, .. } if instant < *again => {
                let wait = SignedDuration::try_from(*again - instant).unwrap_or(SignedDuration::ZERO);
                let again = now.checked_add(wait).unwrap_or(now);
                // By a clock that is set back nothing was asked in the future.
                ComparisonResult::NoAnswer { since: (*since).min(now), again, message: message.clone() }
            }
            Outcome::NoAnswer { .. } => ComparisonResult::Not,
        }
    }

    fn comparison_record(&self) -> Option<&ComparisonRecord> {
        self.verdict.as_ref().filter(|verdict| verdict.template.same_as(&self.deployment.spec.template))
    }
}

impl Reconciler<'_> {
    /// Compares the current template with those of these sets.
    pub(crate) async fn compare_templates(&mut self, sets: &[Arc<str>]) {
        let deployment = Arc::clone(&self.state.deployment);
        let mut comparison = Comparison::of(&self.observe(), sets);
        let outcome = loop {
            let Some(object) = comparison.question() else { break Outcome::Known(comparison.verdict()) };
            let error = match self.requests.dry_run_template(&self.namespace, &object).await {
                Ok(taken) => {
                    comparison.answered(&Answer::Taken(taken));
                    continue;
                }
                Err(error) => error,
            };
            match (error.code(), error.dry_run_answer()) {
                (Some(403), _) | (_, DryRunAnswer::Undecided(_)) => {
                    let message = format!(
                        "The API server does not compare templates, so that one that is only spelled differently is rolled \
                         out (the right it takes: create podtemplates): {error}"
                    );
                    self.warn(reason::COMPARED_AS_WRITTEN, message);
                    break Outcome::Known(ComparisonResult::New);
                }
                (_, DryRunAnswer::Refused(_)) => comparison.answered(&Answer::Refused),
                (_, DryRunAnswer::Retry) => {
                    tracing::warn!(%error, name = self.name, "cannot compare the template");
                    break self.no_answer(error.to_string());
                }
            }
        };
        let template = deployment.spec.template.clone();
        self.state.verdict =
            Some(ComparisonRecord { template, sets: sets.iter().cloned().collect(), outcome });
    }

    fn no_answer(&self, message: String) -> Outcome {
        let before = self.state.comparison_record().map(|verdict| &verdict.outcome);
        let (since, times) = match before {
            Some(Outcome::NoAnswer { since, times, .. }) => (*since, times.saturating_add(1)),
            _ => (self.ctx.clock.now(), 1),
        };
        Outcome::NoAnswer { since, message, times, again: Instant::now() + backoff::after_refusal(times) }
    }
}
