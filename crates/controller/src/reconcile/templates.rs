//! Questions to the API server about the current template: whether it accepts a pod of it, and whether a
//! template without a known set equals the template of an existing one, spelled differently.
//!
//! The planner decides what to ask and what the answers mean. No answer is kept after its comparison.

use std::sync::Arc;

use ordereddeployment_api::names::reason;
use ordereddeployment_kubernetes::{DryRunAnswer, backoff, without_name};
use ordereddeployment_planner::{Answer, Comparison, ComparisonResult, DryRun, Snapshot};
use ordereddeployment_wire::{new_pod, new_set};
use tokio::time::Instant;

use crate::cache::entry::Entry;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::state::templates::{ComparisonRecord, Outcome};

impl Reconciler<'_> {
    /// Compares the current template with the templates of these sets.
    pub(crate) async fn compare_templates(&self, snapshot: &Snapshot, sets: &[Arc<str>]) -> ComparisonRecord {
        let deployment = Arc::clone(&self.state.deployment);
        let mut comparison = Comparison::of(snapshot, sets);
        let outcome = loop {
            let Some(object) = comparison.question() else { break Outcome::Known(comparison.verdict()) };
            let path = format!("/api/v1/namespaces/{}/podtemplates", self.namespace);
            let error = match self.requests.create_at(&path, &object, true).await {
                Ok(taken) => {
                    comparison.answered(&Answer::Taken(taken));
                    continue;
                }
                Err(error) => error,
            };
            match (error.code(), error.dry_run_answer()) {
                (Some(403), _) | (_, DryRunAnswer::Undecided(_)) => {
                    let message = format!(
                        "The API server does not compare templates, so that one that is only spelled \
                         differently is rolled out (the right it takes: create podtemplates): {error}"
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
        ComparisonRecord { template, sets: sets.iter().cloned().collect(), outcome }
    }

    /// Asks the API server by a dry run whether it would create a pod of the current template.
    pub(crate) async fn try_template(&self, hash: &str) -> DryRun {
        let deployment = Arc::clone(&self.state.deployment);
        let set_name = format!("{}-{hash}", self.name);
        let set = new_set(&deployment, &set_name, hash, 0, 0);
        // The set may not exist yet; an owner reference needs a UID, and gets the deployment's.
        let existing = self.observation.sets.iter().find(|entry| entry.set.hash == hash);
        let uid = existing.map_or(self.key.uid(), |entry| entry.uid());
        let name = self.ctx.names.pod(&set_name);
        let pod = new_pod(self.ctx.family, &set_name, uid, &set.spec.template, &name, &self.namespace);
        match self.requests.create_first_pod(&self.namespace, &pod, true).await {
            Ok((_, lost)) => {
                self.warn_of_lost(&lost);
                DryRun::Accepted
            }
            Err(error) => {
                let said = |words: &str| without_name(words, &name, &set_name);
                match error.dry_run_answer() {
                    DryRunAnswer::Refused(words) => DryRun::Refused(said(&words)),
                    DryRunAnswer::Undecided(words) => {
                        let words = said(&words);
                        let message =
                            format!("The dry run of a pod of the new template could not decide: {words}");
                        self.warn(reason::TEMPLATE_UNPROVEN, message);
                        DryRun::Accepted
                    }
                    DryRunAnswer::Retry => {
                        self.ctx.metrics.write_failed("dry-run");
                        let words = said(&error.to_string());
                        let message = format!(
                            "The dry run of a pod of the new template had no answer, and is made again: \
                             {words}"
                        );
                        self.warn(reason::TEMPLATE_UNPROVEN, message);
                        DryRun::NoAnswer(words)
                    }
                }
            }
        }
    }

    /// Says which fields of the template its pods come back without.
    pub(crate) fn warn_of_lost(&self, lost: &[String]) {
        if !lost.is_empty() {
            let message = format!(
                "Pods come back without these fields of the template: {}. The API server does not know them, \
                 their feature gate is off, or a webhook removes them",
                lost.join(", ")
            );
            self.warn(reason::UNKNOWN_FIELDS, message);
        }
    }

    fn no_answer(&self, message: String) -> Outcome {
        let before = self.state.templates.compared_to(&self.state.deployment.spec.template);
        let before = before.map(|record| &record.outcome);
        let (since, times) = match before {
            Some(Outcome::NoAnswer { since, times, .. }) => (*since, times.saturating_add(1)),
            _ => (self.ctx.clock.now(), 1),
        };
        Outcome::NoAnswer { since, message, times, again: Instant::now() + backoff::after_refusal(times) }
    }
}
