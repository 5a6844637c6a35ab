//! The pause points ahead of a rollout: a number of updated pods that each allows, and a place in the order
//! that it keeps. Read only: `seen` stores what is first seen, `hold` begins and ends holds.

use std::collections::BTreeSet;

use ordereddeployment_api::{
    AheadPoint, DeclaredPausePoint, HeldPoint, OrderedDeploymentStatus, PassedBy, PausePoint, Share,
};

use crate::Point;
use crate::ids::{Id, last};
use crate::inventory::{Inventory, RankedPod, count, narrow};
use crate::node_rules::node_rules;

/// The first part of the id of the point that stands for the marks beyond the most that a status keeps.
pub(crate) const MORE: &str = "more";
/// The first part of the id of the point that `spec.paused` is.
pub(crate) const PAUSED: &str = "spec.paused";

/// The first part of the id of the point that stands for invalid declared points of a plain Deployment.
const INVALID: &str = "pausePoints";

/// A declared point with a place in the order, or with one place for each group of nodes.
#[derive(Clone, Debug)]
pub(crate) struct Place<'c> {
    pub(crate) point: &'c DeclaredPausePoint,
    /// With `betweenNodeGroups`: the group whose first pod is behind it; `None` for pods without the label.
    pub(crate) group: Option<String>,
}

impl<'c> Place<'c> {
    /// The place with that name, if the spec declares it.
    pub(crate) fn named(inventory: &Inventory<'c>, name: &str) -> Option<Self> {
        let (first, group) = name.split_once('.').map_or((name, None), |(first, group)| (first, Some(group)));
        let point = inventory.spec.strategy.points().find(|point| point.name == first)?;
        let fits = point.after_updated.is_none() && (group.is_none() || point.between_node_groups.is_some());
        fits.then(|| Self { point, group: group.map(ToOwned::to_owned) })
    }

    /// Where it is among these old pods, given in order: how many are ahead of it. `None`: no pod is behind
    /// it. Pods of revisions that never served go first, wherever they are: they count only if no other pod
    /// is behind it.
    pub(crate) fn barrier(&self, inventory: &Inventory<'_>, old: &[RankedPod<'_>]) -> Option<usize> {
        let mut behind = (0..).zip(old).filter(|(_, ranked)| self.is_behind(inventory, ranked)).peekable();
        let first = behind.peek().map(|(at, _)| *at);
        behind.find(|(_, ranked)| ranked.served).map(|(at, _)| at).or(first)
    }

    /// Where it is when it is first seen: a bad canary at a place without other pods makes no point of it.
    pub(crate) fn first_counted(&self, inventory: &Inventory<'_>, old: &[RankedPod<'_>]) -> Option<usize> {
        let has_served = old.iter().any(|ranked| ranked.served);
        self.barrier(inventory, old)
            .filter(|at| !has_served || old.get(*at).is_some_and(|ranked| ranked.served))
    }

    fn is_behind(&self, inventory: &Inventory<'_>, ranked: &RankedPod<'_>) -> bool {
        if let Some(priority) = self.point.before_priority {
            ranked.priority <= priority
        } else if let Some(nodes) = &self.point.before_nodes {
            inventory.node_of(ranked).is_some_and(|node| nodes.matches(&node.labels))
        } else {
            // A pod that never had a node forms no group.
            ranked.pod.facts.node.is_some() && ranked.group == self.group.as_deref()
        }
    }

    /// Whether it is that of the group of nodes with which the rollout begins.
    pub(crate) fn is_open(&self, status: &OrderedDeploymentStatus) -> bool {
        let groups = status.rollout.as_ref().and_then(|rollout| rollout.node_groups.as_ref());
        groups.is_some_and(|groups| {
            groups.open
                && groups.group == self.group
                && self.point.between_node_groups.as_ref() == Some(&groups.label)
        })
    }

    pub(crate) fn held(&self) -> HeldPoint {
        HeldPoint { name: self.point.name.clone(), group: self.group.clone() }
    }
}

/// What a point is.
#[derive(Clone, Debug)]
pub(crate) enum Kind<'c> {
    /// A declared point with `afterUpdated`.
    Number,
    /// A declared point with a place in the order.
    Place(Place<'c>),
    /// The annotation of a pod.
    Mark { pod: &'c str, side: PausePoint },
    /// `spec.paused`.
    Paused,
    /// A declared point that cannot be used: the list is invalid, and does not take it away.
    Invalid,
}

/// A point ahead, as it counts now.
#[derive(Clone, Debug)]
pub(crate) struct Ahead<'c> {
    pub(crate) id: String,
    pub(crate) kind: Kind<'c>,
    /// How many updated pods there may be.
    pub(crate) limit: i64,
    /// How many old pods are ahead of it; `None` without a pod at it.
    pub(crate) barrier: Option<usize>,
    /// Of equal ones, the smallest is first: `after` marks, declared points as listed, `before` marks.
    rank: (u8, usize),
    pub(crate) seconds: Option<i64>,
}

/// The points ahead, and what follows from all of them.
#[derive(Clone, Debug)]
pub(crate) struct Points<'c> {
    pub(crate) ahead: Vec<Ahead<'c>>,
    /// How many updated pods there may be.
    pub(crate) limit: i64,
    /// How many old pods stay.
    pub(crate) keep: i64,
    /// How many old pods are ahead of the first barrier: only these may go.
    pub(crate) barrier: usize,
}

impl<'c> Points<'c> {
    pub(crate) fn of(inventory: &'c Inventory<'_>) -> Self {
        let desired = inventory.bounds.desired;
        let ahead = if inventory.is_rollout() { all(inventory) } else { Vec::new() };
        let mut points = Self { ahead, limit: desired, keep: 0, barrier: inventory.old().len() };
        if let Some(limit) = points.lowest().map(|lowest| lowest.limit) {
            // With one replica, an old pod stays beside the updated one.
            (points.limit, points.keep) = (limit, if desired == 1 { 1 } else { desired - limit });
        }
        points.barrier = points.first().and_then(|first| first.barrier).unwrap_or(points.barrier);
        points
    }

    /// The points of a plain Deployment, whose controller decides the numbers of pods: one without a pod
    /// pauses at once. Those that are not stored yet are barriers, too.
    pub(crate) fn without_numbers(inventory: &'c Inventory<'_>) -> Self {
        let mut points = Self::of(inventory);
        for one in &mut points.ahead {
            one.barrier = one.barrier.or(Some(0));
        }
        if !inventory.status.has_passed_all() {
            points.ahead.extend(unstored(inventory));
            points.ahead.extend(invalid(inventory));
        }
        points.barrier = points.first().and_then(|first| first.barrier).unwrap_or(points.barrier);
        points
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Whether anything but `spec.paused` is ahead.
    pub(crate) fn holds(&self) -> bool {
        self.ahead.iter().any(|one| one.id != PAUSED)
    }

    /// The point with the smallest number.
    pub(crate) fn lowest(&self) -> Option<&Ahead<'c>> {
        self.ahead.iter().min_by_key(|one| (one.limit, one.rank))
    }

    /// The point whose barrier comes first in the order.
    pub(crate) fn first(&self) -> Option<&Ahead<'c>> {
        let barriers = self.ahead.iter().filter_map(|one| Some((one.barrier?, one)));
        barriers.min_by_key(|(barrier, one)| (*barrier, one.rank)).map(|(_, one)| one)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Ahead<'c>> {
        self.ahead.iter().find(|one| one.id == id)
    }

    /// The point at which a rollout of one replica waits, if no second pod can be beside an old one.
    pub(crate) fn waits_at(&self, inventory: &Inventory<'_>) -> Option<&Ahead<'c>> {
        let is_alone = inventory.bounds.desired == 1 && inventory.bounds.ceiling == 1;
        self.lowest().filter(|one| is_alone && matches!(one.kind, Kind::Number | Kind::Paused))
    }
}

/// A number that was counted for other replicas, in proportion: rounded half up, and at least 1 where it was.
pub(crate) fn scaled(share: Share, desired: i64) -> i64 {
    let (limit, replicas) = (i64::from(share.limit.max(0)), i64::from(share.replicas.max(0)));
    if desired == replicas {
        return limit;
    }
    let scaled = if replicas > 0 { (2 * limit * desired + replicas) / (2 * replicas) } else { 0 };
    if limit >= 1 && desired >= 2 { scaled.max(1) } else { scaled }
}

/// How many updated pods a counted number allows: an old pod stays.
pub(crate) fn counted(share: Share, desired: i64) -> i64 {
    scaled(share, desired).min(desired - 1).max(0)
}

fn all<'c>(inventory: &'c Inventory<'_>) -> Vec<Ahead<'c>> {
    let status = inventory.status;
    let desired = inventory.bounds.desired;
    let surge = inventory.bounds.ceiling - desired;
    let kept = status.points();
    let has_none = status.has_passed_all() || inventory.returns();
    let mut ahead: Vec<_> = kept.filter(|_| !has_none).filter_map(|kept| one(inventory, kept)).collect();
    let pause = status.rollout.as_ref().and_then(|rollout| rollout.pause);
    // While templates cannot be compared, nothing is stored.
    let unstored = Share { limit: narrow(inventory.updated_count()), replicas: narrow(desired) };
    let stands = inventory.stands() && inventory.revision.needs_comparison();
    if let Some(pause) = pause.or(stands.then_some(unstored)) {
        let most = if desired == 1 { surge.min(1) } else { desired - 1 };
        // A paused object gets no set for its template: without one, no updated pod can be made.
        let most = if inventory.spec.paused && inventory.current.is_none() { 0 } else { most };
        // An invalid list can hide a number: more replicas make no more updated pods.
        let most = if inventory.invalid_points.is_empty() { most } else { most.min(pause.limit.into()) };
        ahead.push(Ahead {
            id: PAUSED.to_owned(),
            kind: Kind::Paused,
            limit: scaled(pause, desired).min(most).max(0),
            barrier: None,
            rank: (3, 0),
            seconds: None,
        });
    }
    ahead
}

/// A stored point as it counts now; `None` if the spec does not declare it any more.
fn one<'c>(inventory: &'c Inventory<'_>, kept: &'c AheadPoint) -> Option<Ahead<'c>> {
    let id = Id::parse(&kept.id)?;
    let old = inventory.old();
    let desired = inventory.bounds.desired;
    let index = |name: &str| {
        let mut points = inventory.spec.strategy.points();
        points.position(|point| point.name == name).unwrap_or(usize::MAX)
    };
    let (kind, limit, barrier, rank, seconds);
    match (kept.share, kept.side) {
        (Some(share), Some(side)) => {
            let at = old.iter().position(|ranked| ranked.pod.name == id.name && has_mark(ranked));
            let place = old.iter().position(|ranked| ranked.pod.name == id.name).unwrap_or(usize::MAX);
            kind = Kind::Mark { pod: id.name, side };
            limit = counted(share, desired);
            let is_after = side == PausePoint::After;
            barrier = at.map(|at| at + usize::from(is_after));
            rank = (if is_after { 0 } else { 2 }, place);
            seconds = kept.seconds;
        }
        (Some(share), None) => {
            limit = counted(share, desired);
            let Some(place) = Place::named(inventory, id.name) else {
                return unknown(inventory, kept, Kind::Invalid, limit);
            };
            if place.is_open(inventory.status) {
                return None;
            }
            barrier = place.barrier(inventory, old);
            rank = (1, index(&place.point.name));
            seconds = duration(place.point);
            kind = Kind::Place(place);
        }
        (None, _) => {
            let surge = inventory.bounds.ceiling - desired;
            let mut points = inventory.spec.strategy.points().filter(|point| point.name == id.name);
            let number = points.find_map(|point| Some((point, point.limit(inventory.spec.replicas, surge)?)));
            let Some((point, number)) = number else {
                let most = if desired == 1 { surge.min(1) } else { desired - 1 };
                return unknown(inventory, kept, Kind::Number, at_its_hold(inventory, &kept.id, most).max(0));
            };
            limit = at_its_hold(inventory, &kept.id, number);
            (barrier, rank) = (None, (1, index(&point.name)));
            seconds = duration(point);
            kind = Kind::Number;
        }
    }
    Some(Ahead { id: kept.id.clone(), kind, limit, barrier, rank, seconds })
}

/// A stored point that the spec does not declare: it is ahead while the list is invalid, and until it is
/// known whether the spec is that of this rollout.
fn unknown<'c>(
    inventory: &Inventory<'_>,
    kept: &AheadPoint,
    kind: Kind<'c>,
    limit: i64,
) -> Option<Ahead<'c>> {
    let is_open = !inventory.invalid_points.is_empty() || inventory.revision.needs_comparison();
    let id = kept.id.clone();
    let ahead = Ahead { id, kind, limit, barrier: None, rank: (1, usize::MAX), seconds: None };
    is_open.then_some(ahead)
}

/// A number as it counts now. In its hold, it is also at most the share with which the hold began: an
/// autoscaler changes no share. While the list is invalid, or may be that of another template, there get no
/// more than there are, or were when its hold began.
fn at_its_hold(inventory: &Inventory<'_>, id: &str, mut number: i64) -> i64 {
    let desired = inventory.bounds.desired;
    let hold = inventory.status.hold.as_ref().filter(|hold| hold.id == id);
    let begun = hold.and_then(|hold| Some(Share { limit: hold.limit?, replicas: hold.replicas }));
    if !inventory.invalid_points.is_empty() || inventory.revision.needs_comparison() {
        number = number.min(begun.map_or(inventory.updated_count(), |begun| i64::from(begun.limit)));
    }
    begun.filter(|_| desired > 1).map_or(number, |begun| number.min(counted(begun, desired)))
}

/// The point of declared points that cannot be used, until it is passed.
fn invalid<'c>(inventory: &Inventory<'_>) -> Option<Ahead<'c>> {
    let time = match last(inventory.status, INVALID) {
        Some((time, PassedBy::Removal)) => time.saturating_add(1),
        Some(_) => return None,
        None => 1,
    };
    let id = Id { name: INVALID, revision: inventory.rollout_revision(), time }.to_string();
    let is_invalid = !inventory.invalid_points.is_empty();
    let ahead = Ahead { id, kind: Kind::Invalid, limit: 0, barrier: Some(0), rank: (3, 0), seconds: None };
    is_invalid.then_some(ahead)
}

/// Marks and places that are not stored.
fn unstored<'c>(inventory: &'c Inventory<'_>) -> impl Iterator<Item = Ahead<'c>> {
    let old = inventory.old();
    let stored: Vec<Id<'_>> = inventory.status.points().filter_map(|point| Id::parse(&point.id)).collect();
    let revision = inventory.rollout_revision();
    let marks = old.iter().enumerate().filter_map(move |(at, ranked)| {
        let (side, name) = (ranked.point?, ranked.pod.name.as_str());
        let is_after = side == PausePoint::After;
        let barrier = Some(at + usize::from(is_after)).filter(|barrier| *barrier < old.len());
        let kind = Kind::Mark { pod: name, side };
        let id = Id { name, revision, time: 1 }.to_string();
        let is_new = stored.iter().all(|id| id.name != name);
        is_new.then_some(Ahead { id, kind, limit: 0, barrier, rank: (0, at), seconds: None })
    });
    let places = inventory.spec.strategy.points().filter(|point| {
        point.after_updated.is_none()
            && point.between_node_groups.is_none()
            && !has_seen(inventory, &point.name)
    });
    let places = places.filter_map(move |point| {
        let place = Place { point, group: None };
        let barrier = place.barrier(inventory, old)?;
        let id = Id { name: &point.name, revision, time: 1 }.to_string();
        let kind = Kind::Place(place);
        Some(Ahead { id, kind, limit: 0, barrier: Some(barrier), rank: (1, 0), seconds: None })
    });
    marks.chain(places)
}

/// Whether it is a place that is no group of nodes, or that an invalid list does not declare.
pub(crate) fn is_place(inventory: &Inventory<'_>, point: &AheadPoint) -> bool {
    let Some(id) = Id::parse(&point.id).filter(|_| point.side.is_none() && point.share.is_some()) else {
        return false;
    };
    let is_hidden = !inventory.invalid_points.is_empty() && !id.name.contains('.');
    let is_group = |place: Place<'_>| place.point.between_node_groups.is_some();
    Place::named(inventory, id.name).map_or(is_hidden, |place| !is_group(place))
}

/// How many of these old pods, given in order, are of revisions that never served; 0 if all of them are.
pub(crate) fn first_served(old: &[RankedPod<'_>]) -> usize {
    old.iter().position(|ranked| ranked.served).unwrap_or(0)
}

/// Whether the pod has a pause point now. A malformed value does not take one away.
pub(crate) fn has_mark(ranked: &RankedPod<'_>) -> bool {
    ranked.pod.point != Point::None
}

/// The duration of a declared point, in whole seconds, never too short.
pub(crate) fn duration(point: &DeclaredPausePoint) -> Option<i64> {
    point.pause_duration().map(whole_seconds)
}

/// Whole seconds, never too few.
pub(crate) fn whole_seconds(duration: std::time::Duration) -> i64 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Whether a declared place of that name, or one of its groups of nodes, was seen in this rollout.
pub(crate) fn has_seen(inventory: &Inventory<'_>, name: &str) -> bool {
    let stored = inventory.status.points();
    let stored = stored.filter(|point| point.side.is_none() && point.share.is_some()).map(|point| &point.id);
    let passed = inventory.status.passed.iter().flatten();
    let passed = passed.filter(|passed| passed.pod_uid.is_empty() && passed.by != PassedBy::Removal);
    let ids = stored.chain(passed.map(|passed| &passed.id));
    let names = ids.filter_map(|id| Id::parse(id)).map(|id| id.name);
    names.map(|full| full.split_once('.').map_or(full, |(first, _)| first)).any(|first| first == name)
}

/// Those of these old pods, given in order, that are in a group of nodes. Pods of revisions that never served
/// go first, and are in none.
pub(crate) fn with_groups<'r, 'a>(old: &'r [RankedPod<'a>]) -> impl Iterator<Item = &'r RankedPod<'a>> {
    old.iter().skip(first_served(old)).filter(|ranked| ranked.pod.facts.node.is_some())
}

/// The places of a declared point among these pods, given in order.
pub(crate) fn places<'c>(
    inventory: &'c Inventory<'_>,
    point: &'c DeclaredPausePoint,
    ranked_pods: &[RankedPod<'_>],
) -> Vec<Place<'c>> {
    let all = Place { point, group: None };
    if point.between_node_groups.is_none() {
        return vec![all];
    }
    let groups: BTreeSet<Option<&str>> = with_groups(ranked_pods).map(|ranked| ranked.group).collect();
    if groups.is_empty() || inventory.bounds.desired == 0 {
        // Until a pod has a node, and without replicas, all pods are one group.
        return if has_seen(inventory, &point.name) { Vec::new() } else { vec![all] };
    }
    groups.into_iter().map(|group| Place { point, group: group.map(ToOwned::to_owned) }).collect()
}

/// The number of a place with so many old pods ahead of it. Pods that are missing can get behind it, and
/// those whose node is not there, or not known yet, if it depends on nodes.
pub(crate) fn number_of(inventory: &Inventory<'_>, point: &DeclaredPausePoint, ahead: usize) -> Share {
    let old = inventory.old();
    let desired = inventory.bounds.desired;
    let is_refilled = !inventory.recreate() || old.is_empty();
    // Recreate makes updated pods once these have ended, whatever their template is.
    let leaving = if inventory.recreate() { inventory.terminating() } else { 0 };
    let there = if is_refilled { desired.min(inventory.active() + leaving) } else { desired };
    let by_node = point.before_priority.is_none() || !node_rules(inventory.spec).is_empty();
    let is_unassigned = |ranked: &&RankedPod<'_>| by_node && inventory.node_of(ranked).is_none();
    let unassigned = old.iter().take(ahead).skip(first_served(old)).filter(is_unassigned);
    let behind = count(old.iter().skip(ahead));
    Share { limit: narrow((there - behind - count(unassigned)).max(0)), replicas: narrow(desired) }
}

/// Whether the groups of nodes were not seen yet. Pods without a node form none.
pub(crate) fn is_unseen_group(inventory: &Inventory<'_>) -> bool {
    let mut points = inventory.spec.strategy.points();
    !inventory.status.has_passed_all()
        && inventory.old().iter().any(|ranked| ranked.pod.facts.node.is_some())
        && points.any(|point| point.between_node_groups.is_some() && !has_seen(inventory, &point.name))
}
