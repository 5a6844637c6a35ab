//! What differs between OrderedDeployments and plain Deployments in a reconciliation.

use ordereddeployment_planner::{Decision, Snapshot, decide, decide_sets};
use ordereddeployment_wire::Family;

/// The kinds that are reconciled.
pub(crate) trait Kinds: Sync {
    /// Decides what is done next.
    fn decide(&self, snapshot: &Snapshot) -> Decision;

    /// Whether the controller creates, resizes, adopts and deletes the sets, and reports the deployment. For
    /// a plain Deployment the Deployment controller does.
    fn owns_sets(&self) -> bool;

    /// The message of the event of a created pod.
    fn created(&self, pod: &str) -> String;

    /// What failed when a pod could not be created.
    fn creating(&self) -> &'static str;

    /// The message of the event of a pod that was deleted for that purpose, by that rule.
    fn deleted(&self, pod: &str, purpose: &str, rule: &str) -> String;

    /// What failed when a pod could not be deleted or evicted.
    fn deleting(&self, doing: &str, pod: &str) -> String;
}

/// The kinds of a family.
pub(crate) fn kinds_of(family: Family) -> &'static dyn Kinds {
    match family {
        Family::Ordered => &Ordered,
        Family::Plain => &Plain,
    }
}

/// OrderedDeployments.
struct Ordered;

impl Kinds for Ordered {
    fn decide(&self, snapshot: &Snapshot) -> Decision {
        decide(snapshot)
    }

    fn owns_sets(&self) -> bool {
        true
    }

    fn created(&self, pod: &str) -> String {
        format!("Created pod {pod}")
    }

    fn creating(&self) -> &'static str {
        "creating a pod"
    }

    fn deleted(&self, pod: &str, purpose: &str, rule: &str) -> String {
        format!("Deleted pod {pod} for the {purpose} ({rule})")
    }

    fn deleting(&self, doing: &str, pod: &str) -> String {
        format!("{doing} pod {pod}")
    }
}

/// The ReplicaSets of plain Deployments. Messages begin with the words of the ReplicaSet controller, which
/// tools search for.
struct Plain;

impl Kinds for Plain {
    fn decide(&self, snapshot: &Snapshot) -> Decision {
        decide_sets(snapshot)
    }

    fn owns_sets(&self) -> bool {
        false
    }

    fn created(&self, pod: &str) -> String {
        format!("Created pod: {pod}")
    }

    fn creating(&self) -> &'static str {
        "creating"
    }

    fn deleted(&self, pod: &str, _purpose: &str, rule: &str) -> String {
        format!("Deleted pod: {pod} ({rule})")
    }

    fn deleting(&self, doing: &str, _pod: &str) -> String {
        doing.to_owned()
    }
}
