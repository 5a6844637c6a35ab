//! The barrier: the first pause point in the order that is not passed. Read only; `hold` begins and ends holds.

use std::time::Duration;

use ordereddeployment_api::{Hold, OrderedDeploymentStatus, PausePoint};

use crate::Point;
use crate::declared::{self, Declared};
use crate::inventory::{Inventory, RankedPod};

/// The first pause point in the order that is not passed.
#[derive(Debug)]
pub(crate) struct Barrier<'c, 'a> {
    /// The pod with the point; with a declared point, the first pod behind it.
    pub(crate) ranked: &'c RankedPod<'a>,
    pub(crate) side: PausePoint,
    pub(crate) declared: Option<Declared<'c>>,
}

impl Barrier<'_, '_> {
    /// How long the rollout pauses there; `None`: until it is resumed.
    pub(crate) fn duration(&self) -> Option<Duration> {
        match (&self.declared, &self.ranked.pod.point) {
            (Some(declared), _) => declared.duration(),
            (None, Point::At { duration: Ok(duration), .. }) => *duration,
            _ => None,
        }
    }
}

/// The place of a barrier among some pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position<'c> {
    /// The index of its pod.
    pub(crate) at: usize,
    pub(crate) side: PausePoint,
    pub(crate) declared: Option<Declared<'c>>,
}

impl Position<'_> {
    /// How many pods are ahead of it.
    fn ahead(&self) -> usize {
        self.at + usize::from(self.side == PausePoint::After)
    }
}

/// The old pods as the barrier divides them.
#[derive(Debug)]
pub(crate) struct Divided<'c, 'a> {
    /// The pods that may be deleted, in order. With an `after` point, its pod is the last of them.
    pub(crate) ahead: &'c [RankedPod<'a>],
    /// The pods at or behind the barrier (`after`: behind it).
    pub(crate) behind: &'c [RankedPod<'a>],
    pub(crate) barrier: Option<Barrier<'c, 'a>>,
}

/// Divides the old pods by the barrier.
pub(crate) fn divide<'c, 'a>(inventory: &'c Inventory<'a>) -> Divided<'c, 'a> {
    let old = inventory.old();
    let Ok(position) = barrier_of(inventory, old) else {
        return Divided { ahead: &[], behind: old, barrier: None };
    };
    let Some(position) = position else {
        return Divided { ahead: old, behind: &[], barrier: None };
    };
    let (ahead, behind) = old.split_at(position.ahead());
    let Position { at, side, declared } = position;
    Divided { ahead, behind, barrier: Some(Barrier { ranked: &old[at], side, declared }) }
}

/// The pod of a hold that was stored before its DELETE is not among the given pods. Until the status says so, no pod is ahead.
pub(crate) struct HeldPodIsGone;

/// The place of the barrier among these pods, given in order, if there is one.
///
/// A pod whose hold was stored ahead of its DELETE is a barrier even if its value became malformed or no pod is behind it
/// any more. While it exists it is one of several, though: a point that is now ahead of it is reached first.
///
/// At one place, an `after` point of the pod ahead comes first, then declared points, then the `before` point of the pod behind.
pub(crate) fn barrier_of<'c>(
    inventory: &'c Inventory<'_>,
    ranked_pods: &[RankedPod<'c>],
) -> Result<Option<Position<'c>>, HeldPodIsGone> {
    let of_pod = pod_point(inventory, ranked_pods)?;
    let of_pod = of_pod.map(|(at, side)| Position { at, side, declared: None });
    let declared = declared::nearest(inventory, ranked_pods);
    let declared =
        declared.map(|(at, point)| Position { at, side: PausePoint::Before, declared: Some(point) });
    let rank = |position: &Position<'_>| {
        let is_before = position.side == PausePoint::Before;
        (position.ahead(), is_before, position.declared.is_none())
    };
    Ok(of_pod.into_iter().chain(declared).min_by_key(rank))
}

/// The place of the first point of a pod.
fn pod_point(
    inventory: &Inventory<'_>,
    ranked_pods: &[RankedPod<'_>],
) -> Result<Option<(usize, PausePoint)>, HeldPodIsGone> {
    let begun = inventory.status.hold.as_ref().filter(|hold| is_begun_after(hold));
    let Some(hold) = begun else {
        // Most pods have no point.
        let points = ranked_pods.iter().enumerate().filter_map(|(at, ranked)| Some((at, ranked.point?)));
        // An `after` point without a pod behind it holds nothing.
        let mut holding =
            points.filter(|(at, side)| *side == PausePoint::Before || at + 1 < ranked_pods.len());
        return Ok(holding.next());
    };
    if ranked_pods.iter().all(|ranked| **ranked.uid() != *hold.pod_uid) {
        return Err(HeldPodIsGone);
    }
    let mut all = ranked_pods.iter().enumerate();
    Ok(all.find_map(|(at, ranked)| {
        let side = ranked.point;
        if begun_at(inventory, ranked).is_some() {
            return Some((at, side.unwrap_or(PausePoint::After)));
        }
        side.filter(|side| *side == PausePoint::Before || at + 1 < ranked_pods.len()).map(|side| (at, side))
    }))
}

/// The hold that was stored ahead of the DELETE of this pod.
pub(crate) fn begun_at<'c>(inventory: &'c Inventory<'_>, ranked: &RankedPod<'_>) -> Option<&'c Hold> {
    inventory.status.hold.as_ref().filter(|hold| is_begun_after(hold) && **ranked.uid() == *hold.pod_uid)
}

/// Whether the hold was stored ahead of the DELETE of its pod, which still exists as far as known.
pub(crate) fn is_begun_after(hold: &Hold) -> bool {
    hold.point == PausePoint::After && hold.deleted == Some(false)
}

/// The hold that keeps the sets at their sizes now, if any.
#[must_use]
pub fn held(status: &OrderedDeploymentStatus) -> Option<&Hold> {
    status.hold.as_ref().filter(|hold| !is_begun_after(hold))
}

/// The id with which a resume passes the barrier.
pub(crate) fn id(inventory: &Inventory<'_>, barrier: &Barrier<'_, '_>) -> String {
    let revision = revision(inventory);
    match barrier.declared {
        Some(declared) => Hold::id(&declared.held().label(), revision),
        None => Hold::id(&barrier.ranked.pod.name, revision),
    }
}

/// The revision of the rollout. A plain Deployment stores it with its first pause.
pub(crate) fn revision(inventory: &Inventory<'_>) -> i64 {
    let of_set = || inventory.current.map_or(0, |set| set.revision);
    inventory.status.rollout.as_ref().map_or_else(of_set, |rollout| rollout.revision)
}
