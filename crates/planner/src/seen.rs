//! What a rollout sees for the first time is counted and stored: its pause points, and `spec.paused`. What is
//! taken away is passed.
//!
//! It returns a status to store. No pod is deleted or created here.

use jiff::Timestamp;
use ordereddeployment_api::{
    AheadPoint, OrderedDeploymentStatus, Passed, PassedBy, PausePoint, Rollout, Share, limits, names::reason,
};

use crate::conditions::{self, seconds};
use crate::groups::{self, Sight};
use crate::ids::{self, Id};
use crate::inventory::{Inventory, RankedPod, narrow};
use crate::pod_changes::are_creates_refused;
use crate::points::{self, MORE, Place, Points, has_mark};
use crate::{Decision, Event, Point, Read, Record, events, history};

/// The most marks on pods that a status keeps.
const MARKS: usize = 64;
/// The most places that a status keeps.
const PLACES: usize = 512;

/// The change of the stored points. For a plain Deployment, `spec.paused` is how a hold is carried out.
pub(crate) fn see(inventory: &Inventory<'_>, sight: Sight) -> Option<Decision> {
    if !inventory.is_rollout() || inventory.revision.needs_comparison() {
        return None;
    }
    let status = inventory.status.clone();
    let is_plain = sight == Sight::Plain;
    let mut seen = Seen { inventory, is_plain, status, events: Vec::new(), is_mark_removed: false };
    seen.remove();
    if seen.knows_groups() && inventory.spec.strategy.node_group_label().is_some() {
        groups::see(inventory, seen.rollout(), sight);
    }
    if !inventory.status.has_passed_all() && !inventory.returns() {
        seen.marks();
        if inventory.invalid_points.is_empty() {
            seen.declared();
        }
    }
    if !is_plain {
        seen.paused();
        seen.bounds();
    }
    if seen.is_mark_removed && !inventory.snapshot.live {
        return Some(Decision::Read(Read::Live));
    }
    let is_empty =
        |rollout: &Rollout| rollout.points.iter().flatten().next().is_none() && rollout.node_groups.is_none();
    let is_stored = inventory.status.rollout.is_some() || seen.status.passed.is_some();
    if !is_stored && seen.status.rollout.as_ref().is_none_or(is_empty) {
        // A plain Deployment stores nothing before its first point.
        return None;
    }
    let is_changed = seen.status != *inventory.status;
    is_changed.then_some(Decision::Record(Record { status: seen.status, events: seen.events }))
}

/// Stores that a point is passed. Each id stands there once.
pub(crate) fn pass(status: &mut OrderedDeploymentStatus, id: &str, uid: &str, by: PassedBy, now: Timestamp) {
    let passed = status.passed.get_or_insert_default();
    let resumed_at = seconds(now).into();
    match passed.iter_mut().find(|passed| passed.id == id) {
        // A removed point stays removed: the same name later is another point.
        Some(known) if known.by == PassedBy::Removal => {}
        Some(known) => known.by = by,
        None => passed.push(Passed { id: id.to_owned(), by, pod_uid: uid.to_owned(), resumed_at }),
    }
    // The first ones are those of pods that are gone.
    passed.drain(..passed.len().saturating_sub(limits::PASSED));
    if let Some(points) = status.rollout.as_mut().and_then(|rollout| rollout.points.as_mut()) {
        points.retain(|point| point.id != id);
    }
}

/// The id of a new point, and whether nothing was behind it so far.
struct NewId {
    id: String,
    is_idle: bool,
}

/// The status as it gets to be.
struct Seen<'c, 'a> {
    inventory: &'c Inventory<'a>,
    is_plain: bool,
    status: OrderedDeploymentStatus,
    events: Vec<Event>,
    is_mark_removed: bool,
}

impl Seen<'_, '_> {
    fn points(&mut self) -> &mut Vec<AheadPoint> {
        self.rollout().points.get_or_insert_default()
    }

    fn rollout(&mut self) -> &mut Rollout {
        self.status.rollout.get_or_insert_with(|| history::rollout_of(self.inventory))
    }

    fn pass(&mut self, id: &str, uid: &str, by: PassedBy) {
        let now = self.inventory.snapshot.now;
        pass(&mut self.status, id, uid, by, now);
    }

    /// No old pod is behind the mark or the place.
    fn behind_all(&mut self, new: &NewId, uid: &str) {
        if !new.is_idle {
            self.pass(&new.id, uid, PassedBy::NothingBehind);
            self.events.push(events::point_skipped(&new.id));
        }
    }

    /// The id of a point that is not known yet; `None` for one that is ahead or passed. A pod and a declared
    /// point can have one name.
    fn new_id(&self, name: &str, is_mark: bool) -> Option<NewId> {
        let stored = self.status.points();
        let ahead = stored.map(|point| (&point.id, point.side.is_some(), None));
        let passed = self.status.passed.iter().flatten();
        let passed = passed.map(|one| (&one.id, !one.pod_uid.is_empty(), Some(one.by)));
        let ids = ahead.chain(passed).filter_map(|(id, of_pod, by)| Some((Id::parse(id)?, of_pod, by)));
        let (mut time, mut idle) = (1, None);
        for (id, of_pod, by) in ids.filter(|(id, ..)| id.name == name) {
            let is_same = of_pod == is_mark;
            // Pods can come behind it later. The last point of that name counts.
            let is_behind_all = by == Some(PassedBy::NothingBehind);
            idle = idle.max(is_same.then_some((id.time, is_behind_all)));
            if is_same && !is_behind_all && by != Some(PassedBy::Removal) {
                return None;
            }
            time = time.max(id.time.saturating_add(1));
        }
        let id = Id { name, revision: self.inventory.rollout_revision(), time }.to_string();
        Some(NewId { id, is_idle: idle.is_some_and(|(_, is_idle)| is_idle) })
    }

    /// The annotation of a living pod, or the point of the spec, was taken away.
    fn remove(&mut self) {
        let inventory = self.inventory;
        let pod = |name: &str| {
            let mut living = inventory.snapshot.pods.iter().filter(|pod| !pod.terminating && !pod.finished);
            living.find(|pod| pod.name == name)
        };
        let is_unmarked = |name: &str| pod(name).is_some_and(|pod| pod.point == Point::None);
        let is_number = |name: &str| {
            let mut points = inventory.spec.strategy.points();
            points.any(|point| point.after_updated.is_some() && point.name == name)
        };
        let groups = self.status.rollout.as_ref().and_then(|rollout| rollout.node_groups.as_ref());
        let label = groups.map(|groups| groups.label.clone());
        // Groups by another label are other ones.
        let is_other = |key: &String| label.as_ref().is_some_and(|label| label != key);
        let is_place = |name: &str| {
            let place = Place::named(inventory, name);
            place.is_some_and(|place| !place.point.between_node_groups.as_ref().is_some_and(is_other))
        };
        for point in self.points().clone() {
            let Some(id) = Id::parse(&point.id) else { continue };
            let is_removed = match point.side {
                Some(_) => is_unmarked(id.name) && id.name != MORE,
                None if !inventory.invalid_points.is_empty() => false,
                // Another kind of point is another point.
                None if point.share.is_some() => !is_place(id.name),
                None => !is_number(id.name),
            };
            self.is_mark_removed |= is_removed && point.side.is_some();
            if is_removed {
                let uid = pod(id.name).filter(|_| point.side.is_some());
                let uid = uid.map(|pod| pod.facts.uid.to_string()).unwrap_or_default();
                self.pass(&point.id, &uid, PassedBy::Removal);
            }
        }
        // A passed point that was removed can come back as another one.
        for passed in self.status.passed.clone().into_iter().flatten() {
            let Some(id) = Id::parse(&passed.id).filter(|_| passed.by != PassedBy::Removal) else { continue };
            let is_declared = passed.pod_uid.is_empty();
            if is_declared && !inventory.invalid_points.is_empty() {
                continue;
            }
            let is_removed =
                if is_declared { !(is_number(id.name) || is_place(id.name)) } else { is_unmarked(id.name) };
            if is_removed && id.name != MORE {
                self.pass(&passed.id, &passed.pod_uid, PassedBy::Removal);
            }
        }
    }

    /// Marks on old pods. Those on updated ones wait for the next rollout.
    fn marks(&mut self) {
        let inventory = self.inventory;
        let old = inventory.old();
        let mut new = Vec::new();
        for (at, ranked) in old.iter().enumerate().filter(|(_, ranked)| has_mark(ranked)) {
            let Point::At { side, duration } = &ranked.pod.point else { continue };
            if let Some(kept) = self.points().iter_mut().find(|kept| is_of(kept, ranked)) {
                // An edit counts at once.
                kept.side = Some(*side);
                if let Ok(duration) = duration {
                    kept.seconds = duration.map(points::whole_seconds);
                }
                continue;
            }
            let Some(found) = self.new_id(&ranked.pod.name, true) else { continue };
            let behind = old.len() - at - usize::from(*side == PausePoint::After);
            if behind == 0 {
                self.behind_all(&found, ranked.uid());
                continue;
            }
            let share = Some(ahead_of(inventory, behind));
            let seconds = duration.unwrap_or(None).map(points::whole_seconds);
            new.push(AheadPoint { id: found.id, share, side: Some(*side), seconds });
        }
        self.keep(new, MARKS, |point| point.side.is_some() && !is_more(point));
    }

    /// Of these points and those of the same kind that are stored, the ones with the smallest numbers.
    /// Another one stands for the rest.
    fn keep(&mut self, mut new: Vec<AheadPoint>, most: usize, is_one: fn(&AheadPoint) -> bool) {
        let desired = self.inventory.bounds.desired;
        let limit = |point: &AheadPoint| points::counted(point.share.unwrap_or_default(), desired);
        new.sort_by_key(limit);
        if self.points().iter().filter(|point| is_one(point)).count() + new.len() <= most {
            self.points().append(&mut new);
            return;
        }
        let (mut kept, others): (Vec<_>, Vec<_>) =
            std::mem::take(self.points()).into_iter().partition(is_one);
        kept.append(&mut new);
        kept.sort_by_key(limit);
        let rest = kept.split_off(most);
        *self.points() = others;
        self.points().append(&mut kept);
        if let Some(first) = rest.first() {
            self.stand_for(first);
        }
    }

    /// One point stands for those beyond the most that the status keeps: it has the smallest of their
    /// numbers. In a plain Deployment, pods that are there hold it themselves.
    fn stand_for(&mut self, first: &AheadPoint) {
        if self.is_plain {
            return;
        }
        let desired = self.inventory.bounds.desired;
        let limit = |point: &AheadPoint| points::counted(point.share.unwrap_or_default(), desired);
        if let Some(known) = self.points().iter_mut().find(|point| is_more(point)) {
            if limit(first) < limit(known) {
                known.share = first.share;
            }
            return;
        }
        let time = ids::last(&self.status, MORE).map_or(1, |(time, _)| time.saturating_add(1));
        let id = Id { name: MORE, revision: self.inventory.rollout_revision(), time }.to_string();
        self.events.push(events::points_joined(&id, MARKS));
        self.points().push(AheadPoint { id, seconds: None, side: Some(PausePoint::Before), ..first.clone() });
    }

    fn declared(&mut self) {
        let inventory = self.inventory;
        let old = inventory.old();
        let mut new = Vec::new();
        for point in inventory.spec.strategy.points() {
            if point.after_updated.is_some() {
                let Some(found) = self.new_id(&point.name, false) else { continue };
                self.points().push(AheadPoint { id: found.id, ..AheadPoint::default() });
            } else if point.between_node_groups.is_none() || self.knows_groups() {
                let mut places = points::places(inventory, point, old);
                if let [Place { group: Some(_), .. }] = places.as_slice()
                    && !points::has_seen(inventory, &point.name)
                {
                    // Pods that are missing, or have no node yet, can be those of another group.
                    places.push(Place { point, group: None });
                }
                let is_open = |place: &Place<'_>| place.is_open(&self.status);
                let places: Vec<_> = places.into_iter().filter(|place| !is_open(place)).collect();
                for place in places {
                    let name = place.held().label();
                    let Some(found) = self.new_id(&name, false) else { continue };
                    let at = place.first_counted(inventory, old);
                    let share = points::number_of(inventory, point, at.unwrap_or(old.len()));
                    let shows_none = inventory.bounds.desired > 0 && share.limit >= share.replicas;
                    if at.is_none() && (found.is_idle || shows_none) {
                        self.behind_all(&found, "");
                        continue;
                    }
                    new.push(AheadPoint { id: found.id, share: Some(share), ..AheadPoint::default() });
                }
            }
        }
        self.keep(new, PLACES, |point| point.side.is_none() && point.share.is_some());
    }

    /// A plain Deployment pauses at once at a point without a pod: groups are counted when no pod is missing.
    fn knows_groups(&self) -> bool {
        let inventory = self.inventory;
        !self.is_plain
            || inventory.active() >= inventory.bounds.desired
            || inventory.recreate()
            || are_creates_refused(inventory)
    }

    /// The largest `maxUnavailable` of the rollout.
    fn bounds(&mut self) {
        let inventory = self.inventory;
        let unavailable = if inventory.recreate() { 0 } else { inventory.spec.max_unavailable() };
        let unavailable = narrow(unavailable);
        if let Some(from) = self.status.rollout.as_mut().and_then(|rollout| rollout.from.as_mut()) {
            from.max_unavailable = from.max_unavailable.max(unavailable);
        }
    }

    /// The begin and the end of `spec.paused`, and of points that are invalid.
    fn paused(&mut self) {
        let inventory = self.inventory;
        let desired = inventory.spec.replicas;
        // Without a set of the template, no updated pod can be made: a paused object gets none.
        let stands = inventory.old_count() > 0
            || !self.points().is_empty()
            || inventory.current.is_none()
            || !inventory.invalid_points.is_empty();
        let rollout = self.status.rollout.as_ref();
        let is_paused = rollout.is_some_and(|rollout| rollout.pause.is_some());
        let stored = self.points().clone();
        let hold = inventory.status.hold.as_ref();
        let is_held = hold.is_some_and(|hold| stored.iter().any(|point| point.id == hold.id));
        let points = Points::of(inventory);
        // A share of the pods that are there, or were, with those of a surge or of sizes not yet reached.
        let there = narrow(inventory.active());
        let share = match points.lowest().filter(|_| is_held) {
            Some(lowest) => Share { limit: narrow(lowest.limit), replicas: desired },
            None => Share {
                limit: narrow(inventory.updated_count()),
                replicas: there.max(desired).max(history::last_replicas(inventory)),
            },
        };
        let pause = match (inventory.stands(), is_paused) {
            (true, false) if stands => Some(share),
            (false, true) => {
                let now = inventory.snapshot.now;
                conditions::progressing_again(&mut self.status, reason::DEPLOYMENT_RESUMED, "resumed", now);
                None
            }
            _ => return,
        };
        if let Some(rollout) = &mut self.status.rollout {
            rollout.pause = pause;
            rollout.completed &= pause.is_none();
        }
    }
}

/// Whether it is the point that stands for others.
fn is_more(point: &AheadPoint) -> bool {
    Id::parse(&point.id).is_some_and(|id| id.name == MORE)
}

fn is_of(kept: &AheadPoint, ranked: &RankedPod<'_>) -> bool {
    kept.side.is_some() && Id::parse(&kept.id).is_some_and(|id| id.name == ranked.pod.name)
}

/// How many updated pods there are while so many old pods are at or behind a point. Pods that are missing are
/// at no side of it, but Recreate replaces none.
fn ahead_of(inventory: &Inventory<'_>, behind: usize) -> Share {
    let behind = i64::try_from(behind).unwrap_or(i64::MAX);
    let desired = inventory.bounds.desired;
    let there = if inventory.recreate() { desired } else { desired.min(inventory.active()) };
    Share { limit: narrow((there - behind).max(0)), replicas: narrow(there) }
}
