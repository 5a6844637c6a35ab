//! The revisions of an OrderedDeployment: its sets, the newest first.

use jiff::Timestamp;
use kube::ResourceExt;
use ordereddeployment_api::names::annotation;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet, Template};
use ordereddeployment_planner as planner;
use ordereddeployment_wire::Family;

use super::state::is_owned;

/// A template of the revision history.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    pub(crate) number: i64,
    pub(crate) set: String,
    /// The annotation `kubernetes.io/change-cause`.
    pub(crate) cause: Option<String>,
    pub(crate) template: Template,
    pub(crate) created: Option<Timestamp>,
    pub(crate) pods: i32,
    /// Whether it has the template of the spec.
    pub(crate) current: bool,
    /// Whether it is the last other one that served: an abort, and an undo without a revision, go back to it.
    pub(crate) back: bool,
}

pub(crate) fn of<'a>(
    deployment: &OrderedDeployment,
    sets: impl IntoIterator<Item = &'a OrderedReplicaSet>,
) -> Vec<Revision> {
    let own: Vec<_> = sets.into_iter().filter(|set| is_owned(Family::Ordered, set, deployment)).collect();
    let mut read: Vec<_> = own.iter().map(|set| ordereddeployment_wire::set(set)).collect();
    planner::make_hashes_unique(&mut read);
    let back = planner::last_served(deployment, &read).map(|set| set.uid.clone());
    let both = own.into_iter().zip(read);
    let mut revisions: Vec<Revision> = both
        .map(|(found, set)| Revision {
            number: set.revision,
            cause: found.annotations().get(annotation::CHANGE_CAUSE).cloned(),
            pods: found.status.as_ref().and_then(|status| status.replicas).unwrap_or(0),
            current: planner::is_of(&set, &deployment.spec.template),
            back: back.as_ref() == Some(&set.uid),
            created: set.created,
            set: set.name,
            template: set.template,
        })
        .collect();
    revisions.sort_by(|first, second| (second.number, &second.set).cmp(&(first.number, &first.set)));
    revisions
}
