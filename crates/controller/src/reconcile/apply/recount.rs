//! Makes the disruption controller count the pods of budgets again after the sizes of the sets changed.
//!
//! It reads the sizes of the sets only when a pod or the budget changes (`updatePod` in Kubernetes'
//! `pkg/controller/disruption`), and it reads one set after the other. A sum that it reads between the writes
//! of two sets is wrong. Without another change of a pod, the budget keeps that sum for hours: it refuses
//! evictions that it could allow, or allows one too many. The write of an annotation is such a change.

use std::sync::Arc;

use ordereddeployment_api::names::annotation;
use ordereddeployment_planner::{Pod, SetChange};
use ordereddeployment_wire::PodView;
use serde_json::json;

use crate::cache::entry::PodEntry;
use crate::cache::expectations::Fact;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::record::Effect;
use crate::reconcile::report::is_available;

impl Reconciler<'_> {
    /// Remembers that the sizes of several sets are written one after the other. The disruption controller
    /// reads the size of a plain Deployment from the Deployment.
    pub(super) fn note_sizes(&mut self, changes: &[SetChange]) {
        let sizes = changes.iter().filter(|one| matches!(one, SetChange::Update { replicas: Some(_), .. }));
        self.state.writes.recount_at_rest |= self.ctx.owns_sets && sizes.count() > 1;
    }

    /// If the sizes of several sets were written and no pod is about to change, annotates a pod that a budget
    /// selects. A failure is not reported; the next reconciliation repeats the write.
    pub(crate) async fn recount_at_rest(&mut self) {
        if !self.state.writes.recount_at_rest || self.state.reporting.publishes_at.is_some() {
            return;
        }
        let (pods, now) = (&self.observation.pods, self.ctx.clock.now());
        let seconds = self.state.deployment.spec.min_ready_seconds;
        let rests = pods.iter().all(|entry| {
            let pod = &entry.pod;
            pod.finished || (!pod.terminating && is_available(pod, seconds, now))
        });
        if !rests {
            return;
        }
        let (budgets, beta) = match self.requests.budgets(&self.namespace).await {
            Ok(found) => found,
            Err(error) => return tracing::debug!(%error, "cannot list the disruption budgets"),
        };
        let selected = pods.iter().find(|entry| budgets.iter().any(|one| one.selects(&entry.labels, beta)));
        let Some(entry) = selected.map(Arc::clone) else {
            self.state.writes.recount_at_rest = false;
            return;
        };
        let effects = self.recount_budgets(&entry.pod).await;
        // Its effects do not interrupt.
        self.record(effects).ok();
    }

    /// Annotates the pod. If the write fails, the next refusal or the next reconciliation at rest repeats it.
    pub(super) async fn recount_budgets(&self, pod: &Pod) -> Vec<Effect> {
        let patch = json!({"metadata": {
            "uid": pod.facts.uid,
            "resourceVersion": pod.resource_version,
            "annotations": {annotation::BUDGET_RECOUNT: self.ctx.clock.now().to_string()},
        }});
        match self.requests.patch::<PodView>(&self.namespace, &pod.name, &patch).await {
            Ok(pod) => {
                let entry =
                    PodEntry::of(self.ctx.family, &pod).map(|entry| Effect::Pod(Fact::Is(Arc::new(entry))));
                entry.into_iter().chain([Effect::BudgetsRecounted]).collect()
            }
            Err(error) => {
                tracing::debug!(%error, pod = pod.name, "cannot annotate a pod for its disruption budget");
                Vec::new()
            }
        }
    }
}
