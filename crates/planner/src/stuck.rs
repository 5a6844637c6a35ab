//! Reports pods that should be gone by now and that block creates: their node may be dead.

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::PodReplacementPolicy;
use ordereddeployment_api::names::reason;

use crate::inventory::Inventory;
use crate::phase::{Phase, State};
use crate::pod_changes::{PodChanges, recreate_waits};
use crate::{Pod, rollout};

/// How long after its deletionTimestamp a pod may exist before it is reported.
const TOLERATED: SignedDuration = SignedDuration::from_secs(15);

/// Reason and message if creates wait only for a pod that does not terminate.
pub(crate) fn blocked(state: &State<'_, '_>, changes: &PodChanges) -> Option<(&'static str, String)> {
    let inventory = state.inventory;
    if !changes.creates.is_empty() || !changes.deletes.is_empty() || !is_waited_for(state) {
        return None;
    }
    let now = inventory.snapshot.now;
    let mut overdue: Vec<_> = overdue(inventory).filter(|(_, at)| *at <= now).collect();
    overdue.sort_by(|(one, at), (other, then)| (at, &one.name).cmp(&(then, &other.name)));
    let (first, _) = overdue.first()?;
    let node = first.facts.node.as_deref().map(|node| format!(" on node {node}")).unwrap_or_default();
    let more = match overdue.len() - 1 {
        0 => String::new(),
        1 => ", and 1 more pod".to_owned(),
        others => format!(", and {others} more pods"),
    };
    let name = &first.name;
    let message = format!(
        "Pod {name}{node} should have ended by {}{more}, and no pod is created before it is gone. If its \
         node is dead, delete the Node, or the pod with kubectl delete pod {name} --force --grace-period=0 \
         (it may still run on a node that is only cut off)",
        first.ends.unwrap_or(now),
    );
    Some((reason::POD_STUCK_TERMINATING, message))
}

/// When the next terminating pod is reported.
pub(crate) fn next(inventory: &Inventory<'_>) -> Option<Timestamp> {
    if !waits_for_ends(inventory) {
        return None;
    }
    overdue(inventory).map(|(_, at)| at).filter(|at| *at > inventory.snapshot.now).min()
}

fn overdue<'a>(inventory: &Inventory<'a>) -> impl Iterator<Item = (&'a Pod, Timestamp)> {
    let ending = inventory.ending.iter();
    ending.filter_map(|pod| Some((*pod, pod.ends?.checked_add(TOLERATED).ok()?)))
}

fn waits_for_ends(inventory: &Inventory<'_>) -> bool {
    inventory.recreate() || inventory.spec.pod_replacement_policy == PodReplacementPolicy::TerminationComplete
}

/// Whether pods would be created if none were terminating.
fn is_waited_for(state: &State<'_, '_>) -> bool {
    let inventory = state.inventory;
    let bounds = inventory.bounds;
    if !waits_for_ends(inventory) || bounds.desired == 0 || state.is_complete() {
        return false;
    }
    // Whether terminating pods fill the room below that ceiling.
    let full = |ceiling: i64| inventory.room_below(ceiling) == 0 && inventory.active() < ceiling;
    match &state.phase {
        Phase::Steady => {
            inventory.active() < bounds.desired && (recreate_waits(inventory) || full(bounds.ceiling))
        }
        Phase::Rolling => rollout::is_short(state) && full(bounds.ceiling),
        Phase::Invalid(_) | Phase::Migrating(_) | Phase::ScaledToZero => false,
    }
}
