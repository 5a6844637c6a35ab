//! The state of the model: its counts, and whether and how it has ended.

use ordereddeployment_api::names::condition;
use ordereddeployment_api::{Aborted, ConditionStatus, OrderedDeploymentStatus};
use ordereddeployment_planner::DryRun;

use super::Model;
use crate::scale_down::act_of;
use crate::{Counts, End};

impl Model<'_> {
    /// The number of pods now, as the controller counts them.
    pub(super) fn counts(&self) -> Counts {
        let act = act_of(&mut self.cluster.clone(), &DryRun::Accepted);
        let status = act.map(|act| act.status).unwrap_or_default();
        Counts {
            desired: self.cluster.deployment.spec.replicas,
            updated: status.updated_replicas.unwrap_or(0),
            available: status.available_replicas.unwrap_or(0),
        }
    }

    /// The abort of the current rollout.
    pub(super) fn aborted(&self) -> Option<&Aborted> {
        let status = self.cluster.deployment.stored_status();
        let revision = status.rollout.as_ref()?.revision;
        status.aborted.as_ref().filter(|aborted| aborted.revision == revision)
    }

    /// How an abort has ended: all pods are of the last complete revision and available.
    pub(super) fn rolled_back(&self) -> Option<End> {
        let aborted = self.aborted()?;
        let status = self.cluster.deployment.stored_status();
        let set =
            self.cluster.sets.iter().find(|set| set.hash == aborted.template_hash && !set.terminating)?;
        let desired = self.cluster.deployment.spec.replicas;
        let mut active = self.cluster.pods.iter().filter(|pod| !pod.terminating && !pod.finished);
        let all_back = active.all(|pod| pod.set == set.uid);
        let is_done = all_back && [status.replicas, status.available_replicas] == [Some(desired); 2];
        is_done.then_some(End::RolledBack { revision: aborted.revision, to: aborted.to })
    }

    pub(super) fn is_complete(&self) -> bool {
        let status = self.cluster.deployment.stored_status();
        let is_observed = status.observed_generation == self.cluster.deployment.metadata.generation;
        is_observed && is(status, condition::COMPLETE)
    }

    /// Why the rollout does not continue.
    pub(super) fn final_state(&self) -> End {
        if self.cluster.deployment.spec.paused {
            return End::Paused;
        }
        let status = self.cluster.deployment.stored_status();
        let stalled = status.condition(condition::STALLED).filter(|_| is(status, condition::STALLED));
        let found = stalled.or_else(|| status.condition(condition::COMPLETE));
        found.map_or(End::LimitReached, |found| End::Stalled {
            reason: found.reason.clone(),
            message: found.message.clone(),
        })
    }
}

fn is(status: &OrderedDeploymentStatus, type_: &str) -> bool {
    status.condition(type_).is_some_and(|found| found.status == ConditionStatus::True)
}
