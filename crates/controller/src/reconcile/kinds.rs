//! What differs between OrderedDeployments and plain Deployments in a reconciliation.

use ordereddeployment_planner::{Decision, Snapshot, decide, decide_sets};
use ordereddeployment_wire::Family;

/// The kinds that are reconciled. Messages about plain Deployments begin with the words of the ReplicaSet
/// controller, which tools search for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds(pub(crate) Family);

impl Kinds {
    /// Decides what is done next.
    pub(crate) fn decide(self, snapshot: &Snapshot) -> Decision {
        match self.0 {
            Family::Ordered => decide(snapshot),
            Family::Plain => decide_sets(snapshot),
        }
    }

    /// Whether the controller creates, resizes, adopts and deletes the sets, and reports the deployment. For
    /// a plain Deployment the Deployment controller does.
    pub(crate) fn owns_sets(self) -> bool {
        self.0 == Family::Ordered
    }

    /// The message of the event of a created pod.
    pub(crate) fn created(self, pod: &str) -> String {
        match self.0 {
            Family::Ordered => format!("Created pod {pod}"),
            Family::Plain => format!("Created pod: {pod}"),
        }
    }

    /// What failed when a pod could not be created.
    pub(crate) fn creating(self) -> &'static str {
        match self.0 {
            Family::Ordered => "creating a pod",
            Family::Plain => "creating",
        }
    }

    /// The message of the event of a pod that was deleted for that purpose, by that rule.
    pub(crate) fn deleted(self, pod: &str, purpose: &str, rule: &str) -> String {
        match self.0 {
            Family::Ordered => format!("Deleted pod {pod} for the {purpose} ({rule})"),
            Family::Plain => format!("Deleted pod: {pod} ({rule})"),
        }
    }

    /// What failed when a pod could not be deleted or evicted.
    pub(crate) fn deleting(self, doing: &str, pod: &str) -> String {
        match self.0 {
            Family::Ordered => format!("{doing} pod {pod}"),
            Family::Plain => doing.to_owned(),
        }
    }
}
