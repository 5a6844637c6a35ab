//! Which revisions served, and which of them an abort rolls back to. An annotation of each set says so:
//! whoever may write the status of the object cannot write it.
//!
//! Sets that somebody else made do not have it. While no set has it, what the status says is believed, and
//! written to the sets.

use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentStatus};

use crate::Set;
use crate::revision::is_of;

/// The set of the last revision that served, besides the current template's: an abort, and an undo without a
/// revision, go back to it.
#[must_use]
pub fn last_served<'a>(deployment: &OrderedDeployment, sets: &'a [Set]) -> Option<&'a Set> {
    back(sets, deployment.stored_status(), |set| is_of(set, &deployment.spec.template))
}

/// [`last_served`], where these sets are of the current template.
pub(crate) fn back<'a>(
    sets: &'a [Set],
    status: &OrderedDeploymentStatus,
    is_current: impl Fn(&Set) -> bool,
) -> Option<&'a Set> {
    let others = sets.iter().filter(|set| !set.terminating && !is_current(set));
    if is_unrecorded(sets) {
        let known = by_status(status).find_map(|hash| others.clone().find(|set| set.hash == hash));
        // It was adopted, and its template was changed before this controller saw it complete.
        let mut sized = others.filter(|set| set.replicas > 0);
        let only = sized.next().filter(|_| sized.next().is_none() && status.rollout.is_none());
        return known.or(only);
    }
    let served = others.filter(|set| set.served.is_some_and(|served| served > 0));
    served.max_by_key(|set| (set.served, set.revision))
}

/// Whether no set says whether it served.
pub(crate) fn is_unrecorded(sets: &[Set]) -> bool {
    sets.iter().all(|set| set.served.is_none())
}

/// The hashes of the revisions that were complete, as the status says, the last one first.
fn by_status(status: &OrderedDeploymentStatus) -> impl Iterator<Item = &str> {
    let rollout = status.rollout.as_ref();
    let own = rollout.filter(|rollout| rollout.completed).map(|rollout| rollout.template_hash.as_str());
    let from = rollout.and_then(|rollout| rollout.from.as_ref()).map(|from| from.template_hash.as_str());
    own.into_iter().chain(from)
}
