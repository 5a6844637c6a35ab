//! What one pass over one OrderedDeployment works on. Its steps are in `observe`, `execute` and `report`, their order is in
//! `reconcile`.

use std::sync::Arc;

use ordereddeployment_api::OrderedDeploymentStatus;

use crate::client::requests::Requests;
use crate::reconcile::state::ObjectState;
use crate::runtime::context::Context;

/// One pass.
pub(crate) struct Reconciler<'a> {
    pub(crate) ctx: &'a Context,
    pub(crate) requests: Requests,
    pub(crate) state: &'a mut ObjectState,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: Arc<str>,
    /// Whether everything was read live since the last thing that was done.
    pub(crate) live: bool,
    /// Whether what was to be claimed had been changed by somebody else: it is read again at once.
    pub(crate) raced: bool,
    /// The same at any time in this pass.
    pub(crate) has_raced: bool,
    /// How often creates were answered in this pass that their names are taken, and nothing was seen that has them.
    pub(crate) taken: usize,
    /// How many writes of sets and of the status have met a conflict in this pass.
    pub(crate) conflicts: usize,
    /// What the act under way was decided on: the generation, and who asks to go on.
    pub(crate) decided_on: (i64, Option<String>),
}

impl Reconciler<'_> {
    pub(crate) fn status(&self) -> OrderedDeploymentStatus {
        self.state.deployment.status.clone().unwrap_or_default()
    }

    /// Takes in what the watch shows of the object by now. Whether it is there and not being deleted.
    pub(crate) fn is_cached(&mut self) -> bool {
        let Some(shown) = self.ctx.cached(&self.namespace, &self.name, &self.uid) else { return false };
        self.state.refresh(shown);
        self.state.deployment.metadata.deletion_timestamp.is_none()
    }
}
