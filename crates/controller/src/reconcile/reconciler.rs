//! One reconciliation of one OrderedDeployment: the data that its steps work on.

use std::sync::Arc;

use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_api::names::reason;
use ordereddeployment_kubernetes::{Notice, Worker};
use ordereddeployment_planner::{Event, EventType, Regarding};
use ordereddeployment_wire::NamespacedUid;

use crate::cache::entry::Entry;
use crate::objects::{Objects, single_set};
use crate::reconcile::context::Context;
use crate::reconcile::observation::Observation;
use crate::reconcile::state::ObjectState;

/// How many conflicts on writes of sets and of the status one reconciliation may meet without a failure.
const CONFLICTS: usize = 5;

/// One reconciliation.
pub(crate) struct Reconciler<'a> {
    pub(crate) ctx: &'a Context,
    pub(crate) worker: Worker,
    pub(crate) requests: Objects,
    /// The state in memory of the object.
    pub(crate) state: &'a mut ObjectState,
    /// Its sets and pods, as this round sees them.
    pub(crate) observation: Observation,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) key: NamespacedUid,
    /// Whether everything was read live since the last act.
    pub(crate) live: bool,
    /// Whether another client changed an object to adopt or release: it is read again at once.
    pub(crate) raced: bool,
    /// The same, for the whole reconciliation.
    pub(crate) has_raced: bool,
    /// During how many own writes the watch showed a change of another client, which queued nothing.
    pub(crate) missed: usize,
    /// How often a create failed in this reconciliation because of the name of an unknown object.
    pub(crate) taken: usize,
    /// How many writes of sets and of the status met a conflict in this reconciliation.
    pub(crate) conflicts: usize,
}

impl Reconciler<'_> {
    pub(crate) fn status(&self) -> OrderedDeploymentStatus {
        self.state.deployment.status.clone().unwrap_or_default()
    }

    /// Updates the object from the watch cache. Returns whether there is anything to do for it: it exists,
    /// and is not being deleted. The sets of a plain Deployment keep their sizes.
    pub(crate) fn refresh(&mut self) -> bool {
        let Some(cached) = self.ctx.cached(&self.name, &self.key) else { return false };
        self.state.refresh(cached);
        !self.ctx.owns_sets || self.state.deployment.metadata.deletion_timestamp.is_none()
    }

    /// The sets and pods as they are known now.
    pub(crate) fn observe(&self) -> Observation {
        Observation::of(&self.key, &self.ctx.cache(), self.state)
    }

    /// Whether another client's write can explain a conflict, so that a live read resolves it. More than
    /// [`CONFLICTS`] in one reconciliation have another cause.
    pub(crate) fn may_conflict(&self) -> bool {
        self.conflicts < CONFLICTS
    }

    pub(crate) fn warn(&self, reason: &'static str, message: String) {
        let (type_, regarding) = (EventType::Warning, Regarding::Deployment);
        self.publish(&[Event { type_, reason, message, regarding }]);
    }

    /// Publishes an event about the pods of a set. For an OrderedDeployment it is about the object itself;
    /// for a plain ReplicaSet about the set, as the ReplicaSet controller publishes it.
    pub(crate) fn publish_about_set(
        &self,
        set: &str,
        type_: EventType,
        reason: &'static str,
        message: String,
    ) {
        let regarding = match self.observation.set(set).filter(|_| !self.ctx.owns_sets) {
            Some(entry) => Regarding::Set { name: entry.set.name.clone(), uid: Arc::clone(entry.uid()) },
            None => Regarding::Deployment,
        };
        self.publish(&[Event { type_, reason, message, regarding }]);
    }

    /// Publishes the events of a decision.
    pub(crate) fn publish(&self, events: &[Event]) {
        for event in events {
            let resume = match event.reason {
                reason::PAUSE_POINT_RESUMED => Some("accepted"),
                reason::RESUME_IGNORED => Some("ignored"),
                _ => None,
            };
            if let Some(result) = resume {
                self.ctx.metrics.resumes.with_label_values(&[result]).inc();
            }
            self.ctx.events.publish(self.notice(event));
        }
    }

    /// An event, about its object. A ReplicaSet without a Deployment is its own deployment.
    pub(crate) fn notice(&self, event: &Event) -> Notice {
        let family = self.ctx.family;
        let (kind, name, uid) = match (&event.regarding, single_set(&self.name)) {
            (Regarding::Deployment, Some(single)) => (family.set_kind(), single, self.key.uid()),
            (Regarding::Deployment, None) => (family.deployment_kind(), &*self.name, self.key.uid()),
            (Regarding::Set { name, uid }, _) => (family.set_kind(), &**name, uid),
            (Regarding::Pod { name, uid }, _) => ("Pod", &**name, uid),
        };
        let api_version = if kind == "Pod" { "v1" } else { family.api_version() };
        Notice {
            namespace: self.namespace.clone(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: uid.to_string(),
            type_: match event.type_ {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            },
            reason: event.reason,
            message: event.message.clone(),
        }
    }
}
