//! The barrier: the first pause point of the order that is not passed. It only looks; what makes and ends a hold is in `hold`.

use ordereddeployment_api::{Hold, OrderedDeploymentStatus, PausePoint};

use crate::Point;
use crate::inventory::{Inventory, RankedPod};

/// The first pause point of the order that was not passed.
#[derive(Debug)]
pub(crate) struct Barrier<'c, 'a> {
    pub(crate) ranked: &'c RankedPod<'a>,
    pub(crate) side: PausePoint,
}

/// The old pods as the barrier divides them.
#[derive(Debug)]
pub(crate) struct Divided<'c, 'a> {
    /// Those that may go, in order. With a point `after`, its pod is the last of them.
    pub(crate) ahead: Vec<&'c RankedPod<'a>>,
    /// Those at or behind the barrier (`after`: behind it).
    pub(crate) behind: Vec<&'c RankedPod<'a>>,
    pub(crate) barrier: Option<Barrier<'c, 'a>>,
}

/// Divides the old pods by the barrier.
pub(crate) fn divide<'c, 'a>(inventory: &'c Inventory<'a>) -> Divided<'c, 'a> {
    let old: Vec<_> = inventory.old().collect();
    let Ok(position) = barrier_of(inventory, &old) else {
        return Divided { ahead: Vec::new(), behind: old, barrier: None };
    };
    let Some((at, side)) = position else {
        return Divided { ahead: old, behind: Vec::new(), barrier: None };
    };
    let ranked = old[at];
    let split = if side == PausePoint::After { at + 1 } else { at };
    let behind = old[split..].to_vec();
    let mut ahead = old;
    ahead.truncate(split);
    Divided { ahead, behind, barrier: Some(Barrier { ranked, side }) }
}

/// The pod of a hold that was stored before its DELETE is not among those given. Until that is told, nothing lies ahead.
pub(crate) struct HeldPodIsGone;

/// The place of the barrier among these pods, given in order, if there is one.
///
/// A pod whose hold was stored ahead of its DELETE is a barrier even if its value became malformed or nothing is behind it any
/// more. As long as it is there it is one among others, though: a point that came to stand ahead of it is reached first.
pub(crate) fn barrier_of(
    inventory: &Inventory<'_>,
    ranked_pods: &[&RankedPod<'_>],
) -> Result<Option<(usize, PausePoint)>, HeldPodIsGone> {
    let begun = inventory.status.hold.as_ref().filter(|hold| is_begun_after(hold));
    if begun.is_some_and(|hold| ranked_pods.iter().all(|ranked| **ranked.uid() != *hold.pod_uid)) {
        return Err(HeldPodIsGone);
    }
    let mut all = ranked_pods.iter().enumerate();
    Ok(all.find_map(|(at, ranked)| {
        let side = point(ranked, inventory);
        if begun_at(inventory, ranked).is_some() {
            return Some((at, side.unwrap_or(PausePoint::After)));
        }
        // With nothing behind it, a point `after` holds nothing.
        side.filter(|side| *side == PausePoint::Before || at + 1 < ranked_pods.len()).map(|side| (at, side))
    }))
}

/// The hold that was stored ahead of the DELETE of this pod.
pub(crate) fn begun_at<'c>(inventory: &'c Inventory<'_>, ranked: &RankedPod<'_>) -> Option<&'c Hold> {
    inventory.status.hold.as_ref().filter(|hold| is_begun_after(hold) && **ranked.uid() == *hold.pod_uid)
}

/// The pause point of the pod, unless the rollout has passed it.
pub(crate) fn point(ranked: &RankedPod<'_>, inventory: &Inventory<'_>) -> Option<PausePoint> {
    let Point::At { side, .. } = &ranked.pod.point else { return None };
    (!inventory.has_passed(ranked.uid())).then_some(*side)
}

/// Whether the hold was stored ahead of the DELETE of its pod, which is still there as far as known.
pub(crate) fn is_begun_after(hold: &Hold) -> bool {
    hold.point == PausePoint::After && hold.deleted == Some(false)
}

/// The hold that keeps the sets at their sizes now, if there is one.
pub(crate) fn held(status: &OrderedDeploymentStatus) -> Option<&Hold> {
    status.hold.as_ref().filter(|hold| !is_begun_after(hold))
}

/// What a resume names to pass the barrier.
pub(crate) fn id(inventory: &Inventory<'_>, barrier: &Barrier<'_, '_>) -> String {
    Hold::id(&barrier.ranked.pod.name, revision(inventory))
}

pub(crate) fn revision(inventory: &Inventory<'_>) -> i64 {
    inventory.status.rollout.as_ref().map_or(0, |rollout| rollout.revision)
}
