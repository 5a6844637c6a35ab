//! Whether a release got past a point that nobody passed, judged from outside: from the pods, the specs, the
//! requests of users, and where the status says that the rollout is held.
//!
//! No number that the controller stores is read. The rules are those of pause points in `docs/concepts.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::names::{ALL_POINTS, condition, reason};
use ordereddeployment_api::{
    Condition, ConditionStatus, DeclaredPausePoint, OrderedDeploymentStatus, PausePoint, template_hash,
};
use ordereddeployment_planner::{Act, Decision, Point, Purpose, Set, Snapshot, to_compare};

use crate::deletes::targets;
use crate::view::{ActivePod, Messages, View, Violation, count, current_set, is_true};

/// What is known of a rollout from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub struct History {
    /// The template, as a text.
    template: String,
    /// The template of the last abort.
    aborted: String,
    pub(crate) is_rollout: bool,
    /// At the last look, no old pod was left and no point ahead: the rollout ends when the status says so.
    is_ending: bool,
    aborts: bool,
    are_all_passed: bool,
    /// The points of this rollout; `None`: passed, or nothing to hold.
    points: BTreeMap<Key, Option<Number>>,
    /// `spec.paused`: the updated pods when it began, the pods, and the replicas before.
    paused: Option<(i64, i64, i64)>,
    /// The templates that served, with the UID of their set, the last one at the end.
    served: Vec<(String, String)>,
    /// Places that no pod was behind when they were seen.
    idle: BTreeSet<Key>,
    /// The group of nodes whose point nobody has passed and of which the rollout has replaced a pod, since a
    /// revision served last.
    open: Option<String>,
    /// The pods that the last decision deletes for the rollout, with their groups of nodes.
    asked: BTreeMap<String, String>,
    /// The replicas when it looked last.
    last: i64,
    /// Whether the template of the rollout served last, before it or in it.
    is_return: bool,
    /// Whether it served since it came, or was complete with all its pods: no place stays ahead of the next
    /// one.
    has_served: bool,
    /// The seconds that the pauses at marks last, as last seen.
    durations: BTreeMap<String, Option<i64>>,
    /// The largest number of replicas since there were no more pods than that.
    desired: i64,
    /// The replicas before the rollout.
    before: i64,
    /// `maxUnavailable`, the largest of this rollout.
    unavailable: i64,
    hold: Option<Held>,
    /// Whether a request to resume is for this rollout.
    may_resume: bool,
    /// How often a point of that name was seen.
    times: BTreeMap<String, u32>,
    /// Names of the points of the spec, and of the pods with a mark, at the last look.
    present: BTreeMap<String, What>,
}

/// The name of the rule that no point is passed by nobody.
pub(crate) const PASSED: &str = "history::passed";

/// The name of the rule that a hold begins where a point allows no more.
pub(crate) const HELD: &str = "history::held";

/// The name of the point that `spec.paused` is.
const PAUSED: &str = "spec.paused";

/// The name of the point that stands for the marks which a status does not keep.
const MORE: &str = "more";

/// A point: its name, and how often one of that name was there before.
type Key = (String, u32);

/// How many updated pods a point allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Number {
    /// As the spec says.
    Spec,
    /// Counted when it was first seen, for so many replicas.
    Counted { limit: i64, replicas: i64, side: Side },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum What {
    Mark,
    Number,
    Place,
    Group,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Side {
    Before,
    After,
    Place,
    /// A group of nodes that has a pod.
    Group,
}

/// Where the status says that the rollout is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Held {
    id: String,
    point: Key,
    /// What all points allowed when it was first seen, and the replicas.
    share: (i64, i64),
    /// The largest D since, or before, if there are more pods than D yet.
    most: i64,
    /// When it was first seen, less the time without replicas.
    since: Timestamp,
    seen: Timestamp,
    /// Whether the time stands still: there are no replicas, and the status shows no end.
    stands: bool,
}

fn scaled(number: i64, replicas: i64, desired: i64) -> i64 {
    if desired == replicas {
        return number;
    }
    let scaled = if replicas > 0 { (2 * number * desired + replicas) / (2 * replicas) } else { 0 };
    if number >= 1 && desired >= 2 { scaled.max(1) } else { scaled }
}

fn counted(number: i64, replicas: i64, desired: i64) -> i64 {
    scaled(number, replicas, desired).min(desired - 1).max(0)
}

fn of_number(point: &DeclaredPausePoint, view: &View<'_>) -> i64 {
    let surge = if view.recreates() { 0 } else { view.ceiling - view.desired };
    point.limit(view.snapshot.deployment.spec.replicas, surge).unwrap_or(0)
}

fn has_set(snapshot: &Snapshot, uid: &str) -> bool {
    snapshot.sets.iter().any(|set| !set.terminating && *set.uid == *uid)
}

fn rename<T>(map: &mut BTreeMap<String, T>, new: impl Fn(&str) -> Option<String>) {
    let old = std::mem::take(map).into_iter();
    *map = old.filter_map(|(name, value)| Some((new(&name)?, value))).collect();
}

/// The first part of an id.
fn name_of(id: &str) -> &str {
    id.rsplit_once('@').map_or(id, |(name, _)| name)
}

impl History {
    /// The history of an object of so many replicas whose first template has served.
    pub fn served(set: &Set, replicas: i32) -> Self {
        let template = key_of(set);
        let served = vec![(template.clone(), set.uid.to_string())];
        Self { template, served, has_served: true, desired: replicas.into(), ..Self::default() }
    }

    /// So many seconds pass.
    pub fn elapse(&mut self, seconds: i64) {
        if let Some(held) = &mut self.hold {
            let wait = jiff::SignedDuration::from_secs(seconds);
            held.since = held.since.checked_sub(wait).unwrap_or(held.since);
        }
    }

    /// The names of pods with a mark that it knows.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.points.keys().map(|(name, _)| name.as_str())
    }

    /// Renames pods. What is passed and gone is forgotten.
    pub fn rename(&mut self, new: impl Fn(&str) -> Option<String>) {
        let points = std::mem::take(&mut self.points).into_iter();
        self.points =
            points.filter_map(|((name, time), number)| Some(((new(&name)?, time), number))).collect();
        rename(&mut self.times, &new);
        rename(&mut self.durations, &new);
        rename(&mut self.present, &new);
        rename(&mut self.asked, &new);
        if let Some(held) = &mut self.hold {
            held.point.0 = new(&held.point.0).unwrap_or_default();
            held.id = new(&held.id).unwrap_or_default();
        }
    }

    /// The point of that name that was seen last.
    fn key(&self, name: &str) -> Key {
        (name.to_owned(), self.times.get(name).copied().unwrap_or(1))
    }

    fn is_ahead(&self, point: &Key) -> bool {
        self.points.get(point).is_some_and(Option::is_some)
    }

    /// Looks at what a decision is made on.
    pub fn look(&mut self, snapshot: &Snapshot) {
        let view = View::of(snapshot);
        if !view.is_valid || snapshot.deployment.metadata.deletion_timestamp.is_some() {
            return;
        }
        if !to_compare(snapshot).is_empty() {
            // Scaling goes on until the templates are compared: how many pods there were before is not known.
            self.desired = i32::MAX.into();
            if let Some(held) = &mut self.hold {
                held.most = held.most.max(view.desired);
            }
            self.is_ending = false;
            return;
        }
        let is_over = view.status.rollout.as_ref().is_some_and(|rollout| rollout.completed);
        self.is_rollout &= !(self.is_ending && is_over);
        self.replaced(&view);
        let is_new = self.template_of(&view);
        self.is_return = self.served.last().is_some_and(|(served, _)| *served == self.template);
        // With all pods of one template, no pod is missing: places are counted again.
        let is_whole = view.old().next().is_none() && count(view.pods.len()) >= view.desired.max(1);
        self.has_served |= is_whole && !is_new && is_over;
        // A smaller number of replicas may not be reached yet.
        let is_reached = count(view.pods.len()) <= view.desired && !is_new && self.last == view.desired;
        self.last = view.desired;
        self.desired = if is_reached { view.desired } else { self.desired.max(view.desired) };
        let unavailable = if view.recreates() { 0 } else { view.desired - view.floor };
        self.unavailable = self.unavailable.max(unavailable);
        if view.aborts && !self.aborts {
            (self.aborts, self.is_rollout, self.are_all_passed) = (true, true, false);
            (self.paused, self.hold) = (None, None);
        }
        self.time(&view);
        let spec = &snapshot.deployment.spec;
        // A paused object gets no set for a new template: pods are made of another one.
        let waits = spec.paused
            && view.desired > 0
            && !self.aborts
            && current_set(&view).is_none()
            && snapshot.sets.iter().any(|set| !set.terminating);
        if waits && !self.is_rollout {
            // It begins anew.
            self.points.clear();
            self.times.clear();
            self.idle.clear();
            self.present.clear();
            (self.is_rollout, self.are_all_passed) = (true, false);
        }
        let stands = spec.paused || view.has_invalid_points;
        if !stands || !self.is_rollout {
            self.paused = None;
        }
        if self.is_rollout && !self.aborts {
            // A request to abort is taken before any point is seen.
            let own = view.status.rollout.as_ref().map(|rollout| rollout.revision);
            let is_asked = !is_new
                && view.status.abort_requested.is_some_and(|asked| Some(asked) == own)
                && self.back(&view).is_some();
            // What is first seen together with the pause does not make its number smaller.
            let lowest = self.limits(&view).into_iter().map(|(_, limit)| limit).min();
            if !is_asked && spec.strategy.points().all(|point| knows_nodes(&view, point)) {
                self.see(&view);
            }
            let holds = view.old().next().is_some()
                || !self.limits(&view).is_empty()
                || current_set(&view).is_none()
                || view.has_invalid_points;
            if stands && self.paused.is_none() && holds {
                let held = self.hold.as_ref().is_some_and(|held| self.is_ahead(&held.point));
                let limit = lowest.filter(|_| held).unwrap_or(view.updated());
                // A share of the pods that are there.
                let there = if held { 0 } else { count(view.pods.len()) };
                self.paused = Some((limit, view.desired.max(there), self.desired.max(there)));
            }
        }
        // A new template drops what was requested before.
        self.may_resume =
            self.is_rollout && !self.aborts && !is_new && view.status.resume_requested.is_some();
        let is_alone = view.old().next().is_none() && self.limits(&view).is_empty();
        self.is_ending = is_alone && (view.desired > 0 || view.pods.is_empty()) && !self.aborts;
        let shown = view.status.hold.as_ref().map(|hold| hold.id.as_str());
        if self.hold.as_ref().map(|hold| hold.id.as_str()) != shown {
            self.hold = None;
        }
        if let Some(held) = &mut self.hold {
            held.most = held.most.max(view.desired);
        }
    }

    /// A new template begins a new rollout, and so does a retry.
    fn template_of(&mut self, view: &View<'_>) -> bool {
        let snapshot = view.snapshot;
        let spec = &snapshot.deployment.spec;
        let current = crate::view::current_sets(snapshot);
        let known = snapshot.sets.iter().find(|set| current.contains(&*set.uid));
        let key = known.map_or_else(|| template_hash(&spec.template.without_hash(), 0), key_of);
        let is_retried = self.aborts && !view.aborts && key == self.aborted;
        if view.aborts && !self.aborts {
            self.aborted.clone_from(&self.template);
        }
        if key == self.template && !is_retried {
            return false;
        }
        let is_ahead = self.paused.is_some()
            || self.points.iter().any(|(key, number)| number.is_some() && !is_group(view, &key.0, *number))
            || !self.limits(view).is_empty();
        let is_at_zero = view.desired == 0 || view.pods.is_empty();
        let is_suspended = (self.is_rollout || self.aborts) && is_at_zero && is_ahead;
        // A place stays ahead until a revision serves: its pods can be missing.
        let has_ended = self.aborts || self.has_served;
        let now = declared(view);
        let stays = |name: &str, number| match number {
            Some(Number::Counted { .. }) if is_suspended => true,
            Some(Number::Counted { side: Side::Place | Side::Group, replicas, .. }) => {
                // Nothing is taken away by a mistake.
                let is_place = now.get(name).map_or(view.has_invalid_points, |what| *what == What::Place);
                !has_ended && is_place && replicas > 0 && !name.contains('.')
            }
            _ => false,
        };
        let kept = std::mem::take(&mut self.points).into_iter();
        let kept = kept.filter(|((name, _), number)| stays(name, *number));
        self.points = kept.map(|((name, _), number)| ((name, 1), number)).collect();
        self.idle.clear();
        self.times = self.points.keys().cloned().collect();
        let points = &self.points;
        self.durations.retain(|name, _| points.contains_key(&(name.clone(), 1)));
        self.present =
            self.points.iter().map(|((name, _), number)| (name.clone(), what_of(name, *number))).collect();
        self.template = key;
        // A smaller number of replicas may not be reached yet.
        self.before = self.desired.max(count(view.old().count()));
        (self.aborts, self.are_all_passed, self.unavailable) = (false, false, 0);
        (self.paused, self.hold, self.has_served) = (None, None, false);
        // There was another template.
        let is_next = snapshot.sets.iter().any(|set| !set.terminating && !current.contains(&*set.uid));
        let is_on = view.desired > 0 || !view.pods.is_empty();
        self.is_rollout = is_suspended || is_retried || view.old().next().is_some() || (is_next && is_on);
        true
    }

    /// Whether the rollout goes back to the revision that served last, and the sets say so: no point holds
    /// it.
    fn returns(&self, view: &View<'_>) -> bool {
        let has_served = |set: &Set| self.served.iter().any(|(_, uid)| **uid == *set.uid);
        self.is_return
            && !self.aborts
            && view.desired > 0
            && view.served_last()
            && current_set(view).is_some_and(has_served)
    }

    /// The template that an abort goes to: the last other one that served and has a set.
    fn back(&self, view: &View<'_>) -> Option<&str> {
        self.last_other(view).map(|(served, _)| served.as_str())
    }

    /// The last other template that served and has a set, with that set.
    pub(crate) fn last_other(&self, view: &View<'_>) -> Option<&(String, String)> {
        let mut served = self.served.iter().rev().filter(|(served, _)| *served != self.template);
        served.find(|(_, uid)| has_set(view.snapshot, uid))
    }

    /// The time of a hold stands still without replicas.
    fn time(&mut self, view: &View<'_>) {
        let now = view.snapshot.now;
        let Some(held) = &mut self.hold else { return };
        if held.stands {
            let passed = now.duration_since(held.seen);
            held.since = held.since.checked_add(passed).unwrap_or(held.since);
        }
        held.seen = now;
    }

    /// A hold ends with its time.
    fn ended(&mut self, view: &View<'_>, status: &OrderedDeploymentStatus) {
        let Some(held) = &self.hold else { return };
        let is_gone = status.hold.as_ref().is_none_or(|hold| name_of(&hold.id) != held.point.0);
        let lasts = view.snapshot.now.duration_since(held.since).as_secs() + 1;
        let name = &held.point.0;
        let is_mark = self.present.get(name) == Some(&What::Mark);
        let duration =
            if is_mark { self.durations.get(name).copied().flatten() } else { duration_of(view, name) };
        let over = duration.is_some_and(|seconds| lasts >= seconds);
        let now_is = declared(view).get(first_of(name)).copied();
        let is_same = is_mark || self.present.get(name).is_some_and(|what| is_same(name, *what, now_is));
        if is_gone && over && is_same {
            self.points.insert(held.point.clone(), None);
        }
    }

    /// What was taken away is passed, and another point if it comes back. Another kind of point is another
    /// one, if it was ahead.
    fn take_away(&mut self, view: &View<'_>) {
        let living = view.snapshot.pods.iter().filter(|pod| !pod.terminating && !pod.finished);
        let unmarked: BTreeSet<&str> =
            living.filter(|pod| pod.point == Point::None).map(|pod| pod.name.as_str()).collect();
        let declared = declared(view);
        let gone: Vec<String> = self
            .present
            .iter()
            .filter(|(name, what)| match what {
                What::Mark => unmarked.contains(name.as_str()),
                // Nothing is taken away by a mistake.
                _ if view.has_invalid_points => false,
                _ => {
                    let is_ahead = self.is_ahead(&self.key(name));
                    let now = declared.get(first_of(name)).copied();
                    now.is_none() || (is_ahead || name.contains('.')) && !is_same(name, **what, now)
                }
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.present.remove(&name);
            let time = self.times.entry(name.clone()).or_insert(1);
            self.points.insert((name, *time), None);
            *time += 1;
        }
    }

    /// What is first seen is counted; what is taken away is passed.
    fn see(&mut self, view: &View<'_>) {
        let spec = &view.snapshot.deployment.spec;
        let old: Vec<_> = view.old().collect();
        self.take_away(view);
        if self.are_all_passed || self.returns(view) {
            return;
        }
        let there = if view.recreates() { view.desired } else { view.desired.min(count(view.pods.len())) };
        for (at, active) in old.iter().enumerate() {
            let Point::At { side, duration } = &active.pod.point else { continue };
            if let Ok(duration) = duration {
                self.durations.insert(active.pod.name.clone(), duration.map(in_seconds));
            }
            let side = if *side == PausePoint::After { Side::After } else { Side::Before };
            let behind = count(old.len() - at - usize::from(side == Side::After));
            let number = Number::Counted { limit: (there - behind).max(0), replicas: there, side };
            self.first_seen(&active.pod.name, What::Mark, (behind > 0).then_some(number));
            let key = self.key(&active.pod.name);
            if let Some(Some(Number::Counted { side: known, .. })) = self.points.get_mut(&key) {
                // An edit counts at once.
                *known = side;
            }
        }
        for point in spec.strategy.points().filter(|_| !view.has_invalid_points) {
            if point.after_updated.is_some() {
                self.first_seen(&point.name, What::Number, Some(Number::Spec));
                continue;
            }
            let is_begun = self.has_counted(&point.name);
            let is_grouped = point.between_node_groups.is_some();
            let mut found = places(view, point, &old);
            if is_grouped && is_begun {
                // Only before a group is seen, all pods are one. Without replicas, none is seen.
                found.retain(|(_, at)| at.is_some() && view.desired > 0);
            } else if is_grouped && view.desired == 0 {
                found = vec![(point.name.clone(), None)];
            } else if is_grouped
                && found.iter().all(|(name, at)| at.is_some() && *name != point.name)
                && found.len() == 1
            {
                found.push((point.name.clone(), None));
            }
            let has_served = old.iter().any(|active| view.has_served(active));
            // Pods that are missing can be those of another group.
            let is_all = matches!(found.as_slice(), [(name, _)] if *name == point.name)
                && number_of(view, point, &old, old.len()) < view.desired;
            for (name, at) in found {
                let side = if is_grouped && at.is_some() && !is_all { Side::Group } else { Side::Place };
                let at = at.filter(|at| !has_served || view.has_served(old[*at]));
                let share = number_of(view, point, &old, at.unwrap_or(old.len()));
                let key = self.key(&name);
                let is_idle = self.idle.contains(&key);
                let is_none = at.is_none() && (is_idle || (view.desired > 0 && share >= view.desired));
                let number = Number::Counted { limit: share, replicas: view.desired, side };
                let what = if is_grouped { What::Group } else { What::Place };
                self.first_seen(&name, what, (!is_none).then_some(number));
                if let Some(Some(Number::Counted { limit, replicas, side: Side::Group })) =
                    self.points.get_mut(&key)
                {
                    // Until a pod is replaced, pods can get their nodes in a group that comes before.
                    let is_larger = share > counted(*limit, *replicas, view.desired);
                    if self.open.is_none() && at.is_some() && is_larger {
                        (*limit, *replicas) = (share, view.desired);
                    }
                }
            }
        }
    }

    /// Looks which of the pods that the rollout was to delete are gone.
    fn replaced(&mut self, view: &View<'_>) {
        let asked = std::mem::take(&mut self.asked);
        let is_there = |name: &str| view.pods.iter().any(|active| active.pod.name == name);
        let gone = asked.into_iter().find(|(pod, _)| !is_there(pod));
        if self.open.is_none() {
            self.open = gone.map(|(_, group)| group);
        }
        let back = self.back(view);
        let is_of_back = |active: &ActivePod<'_>| {
            let set = view.snapshot.sets.iter().find(|set| set.uid == active.pod.set);
            set.map(key_of).as_deref() == back
        };
        let is_whole = !view.pods.is_empty() && count(view.pods.len()) >= view.desired;
        if self.aborts && is_whole && view.pods.iter().all(is_of_back) {
            self.open = None;
        }
    }

    /// Whether a place of that declared point was seen in this rollout.
    fn has_counted(&self, name: &str) -> bool {
        self.present.iter().any(|(known, what)| {
            let is_passed = self.points.get(&self.key(known)) == Some(&None);
            first_of(known) == name && (matches!(what, What::Place | What::Group) || is_passed)
        })
    }

    fn first_seen(&mut self, name: &str, what: What, number: Option<Number>) {
        self.present.entry(name.to_owned()).or_insert(what);
        let time = *self.times.entry(name.to_owned()).or_insert(1);
        if number.is_none() && what != What::Number {
            // Pods can come behind it.
            if what != What::Mark {
                self.idle.insert((name.to_owned(), time));
            }
            return;
        }
        let key = (name.to_owned(), time);
        if !self.points.contains_key(&key) {
            // Nothing was behind a place of that name so far.
            self.present.insert(name.to_owned(), what);
            self.points.insert(key, number);
        }
    }

    /// A resume passes the point that it names, where the status says that the rollout is held, blocked or
    /// waits.
    fn resumed(&mut self, view: &View<'_>) {
        let status = view.status;
        let Some(requested) = status.resume_requested.as_deref() else { return };
        if status.abort_requested.is_some() || status.retry_requested.is_some() {
            return;
        }
        let revision = status.rollout.as_ref().map_or(0, |rollout| rollout.revision);
        if requested == format!("{ALL_POINTS}@{revision}") {
            self.are_all_passed = true;
            self.points.clear();
            return;
        }
        if let Some(held) = self.hold.as_ref().filter(|held| held.id == requested) {
            self.points.insert(held.point.clone(), None);
            return;
        }
        let stands = |one: &Condition| {
            one.status == ConditionStatus::True
                && [reason::BLOCKED, reason::WAITS_AT_PAUSE_POINT].contains(&one.reason.as_str())
        };
        let is_blocked = status.blocked.as_ref().is_some_and(|blocked| blocked.id == requested)
            && status.condition(condition::STALLED).is_some_and(stands);
        let is_held = status.hold.as_ref().is_some_and(|hold| hold.id == requested);
        if is_held || is_blocked {
            self.points.insert(self.key(name_of(requested)), None);
        }
    }

    /// What each point ahead allows, without the group of nodes that goes without a pause: until a pod of one
    /// is replaced, any can be it.
    fn limits<'v>(&'v self, view: &'v View<'_>) -> Vec<(&'v str, i64)> {
        let mut limits = self.all_limits(view);
        let is_group = |name: &str| {
            let mut of_name = self.points.iter().filter(|((known, _), _)| known == name);
            of_name.any(|(_, number)| is_group(view, name, *number))
        };
        let mut groups = limits.iter().enumerate().filter(|(_, (name, _))| is_group(name));
        let open = match &self.open {
            Some(open) => groups.find(|(_, (name, _))| group_of(name) == open),
            None => groups.min_by_key(|(_, (_, limit))| *limit),
        };
        if let Some((at, _)) = open {
            limits.remove(at);
        }
        limits
    }

    /// What each point ahead allows.
    fn all_limits<'v>(&'v self, view: &'v View<'_>) -> Vec<(&'v str, i64)> {
        if self.aborts || !self.is_rollout {
            return Vec::new();
        }
        let desired = view.desired;
        let mut limits = Vec::new();
        let returns = self.returns(view);
        let updated = view.updated();
        for ((name, _), number) in self.points.iter().filter(|_| !returns) {
            match number {
                Some(Number::Spec) => {
                    let points = view.snapshot.deployment.spec.strategy.points();
                    let held = self.hold.as_ref().filter(|held| held.point.0 == *name && desired > 1);
                    let of_hold = held.map(|held| counted(held.share.0, held.share.1, desired));
                    let share = of_hold.unwrap_or(desired);
                    let mut own = points
                        .filter(|point| point.name == *name && point.after_updated.is_some())
                        .peekable();
                    if own.peek().is_none() && view.has_invalid_points {
                        // Its number is not known: there get no more than there are.
                        let there = self.hold.as_ref().filter(|held| held.point.0 == *name);
                        let there = there.map_or(updated, |held| held.share.0);
                        limits.push((name.as_str(), there.min(share)));
                    }
                    limits.extend(own.map(|point| (name.as_str(), of_number(point, view).min(share))));
                }
                Some(Number::Counted { limit, replicas, .. }) => {
                    limits.push((name.as_str(), counted(*limit, *replicas, desired)));
                }
                None => {}
            }
        }
        if let Some((number, replicas, _)) = self.paused {
            let surge = if view.recreates() { 0 } else { view.ceiling - desired };
            let most = if desired == 1 { surge.min(1) } else { desired - 1 };
            let is_missing = view.snapshot.deployment.spec.paused && current_set(view).is_none();
            let most = if is_missing { 0 } else { most };
            let most = if view.has_invalid_points { most.min(number) } else { most };
            limits.push((PAUSED, scaled(number, replicas, desired).min(most).max(0)));
        }
        limits
    }

    /// How many updated pods there may be; `None`: no point is ahead.
    pub(crate) fn limit(&self, view: &View<'_>) -> Option<i64> {
        self.limits(view).into_iter().map(|(_, limit)| limit).min()
    }

    /// The rules that a decision breaks, made on what was looked at last.
    pub fn check(&self, snapshot: &Snapshot, decision: &Decision) -> Vec<Violation> {
        let view = View::of(snapshot);
        let is_off = !to_compare(snapshot).is_empty()
            || !view.is_valid
            || snapshot.deployment.metadata.deletion_timestamp.is_some();
        let (messages, held) = match decision {
            Decision::Act(act) if !is_off => (self.acts(&view, act), self.held(&view, &act.status)),
            Decision::Record(record) if !is_off => (Messages::new(), self.held(&view, &record.status)),
            _ => (Messages::new(), None),
        };
        let passed = messages.into_iter().map(|message| (PASSED, message));
        let held = held.map(|message| (HELD, message));
        passed.chain(held).map(|(oracle, message)| Violation { rule: "S5", oracle, message }).collect()
    }

    /// A hold begins where the points allow no further deletion, once the updated pods that they allow are
    /// available.
    fn held(&self, view: &View<'_>, status: &OrderedDeploymentStatus) -> Option<String> {
        let hold = status.hold.as_ref()?;
        if view.status.hold.as_ref().is_some_and(|before| before.id == hold.id) {
            return None;
        }
        let wrong = |why: &str| Some(format!("held at {}: {why}", hold.id));
        let name = name_of(&hold.id);
        let key = self.key(name);
        let number = self.points.get(&key).copied();
        let is_number = declared(view).get(name) == Some(&What::Number);
        // Which group of nodes is opened without a pause depends on when a point was first seen.
        let is_early = (is_number && number.is_none())
            || declared(view).get(first_of(name)) == Some(&What::Group)
            || number.is_some_and(was_group)
            // A mark that was taken away from a pod which then went may not have been seen to be.
            || (key.1 > 1 && !declared(view).contains_key(first_of(name)));
        // Somebody deleted the set of what was complete without pods: nobody knows whether it served.
        if self.returns(view) || is_early || !self.is_rollout || name == MORE {
            // It gets less far than it may.
            return None;
        }
        let limits = self.limits(view);
        let old: Vec<&ActivePod<'_>> = view.old().collect();
        let Some(least) = limits.iter().map(|(_, limit)| *limit).min() else {
            return wrong("nothing is ahead");
        };
        let keep = if view.desired == 1 { 1 } else { view.desired - least };
        let stays = count(old.len());
        let wanted = if stays <= keep { least } else { view.desired - stays };
        if !view.recreates() && view.updated_available() < wanted {
            return wrong("updated pods that it allows are not available");
        }
        if stays <= keep {
            let is_lowest = limits.iter().any(|(known, limit)| *known == name && *limit == least);
            return if is_lowest { None } else { wrong("another point has a smaller number") };
        }
        let mut at = self.points.iter().filter(|((known, _), _)| known == name);
        let barrier = at.find_map(|(_, number)| barrier_of(view, &old, name, (*number)?));
        if barrier == Some(0) { None } else { wrong("pods are ahead of it") }
    }

    fn acts(&self, view: &View<'_>, act: &Act) -> Messages {
        let mut messages = self.creates(view, act);
        messages.extend(self.deletes(view, act));
        let limits = self.limits(view);
        if is_true(&act.status, condition::COMPLETE) && !limits.is_empty() {
            messages.push(format!("complete with points ahead: {limits:?}"));
        }
        if act.status.rollout.as_ref().is_some_and(|rollout| rollout.completed) && !limits.is_empty() {
            messages.push(format!("the rollout is over with points ahead: {limits:?}"));
        }
        messages
    }

    fn creates(&self, view: &View<'_>, act: &Act) -> Messages {
        let mut messages = Messages::new();
        let limits = self.limits(view);
        let (desired, old) = (view.desired, count(view.old().count()));
        let sets = &view.snapshot.sets;
        // Sets can have the same template. Without a set of it, the first one is made with its first pods.
        let is_missing = current_set(view).is_none();
        let is_new = |hash: &str| match sets.iter().find(|set| !set.terminating && set.hash == hash) {
            Some(set) => view.current.contains(&*set.uid),
            None => is_missing,
        };
        let mut new = 0;
        let mut made = 0;
        let serves = old == 0 || view.old().any(|active| view.has_served(active));
        for create in act.creates.iter().filter(|create| create.count > 0) {
            if is_new(&create.hash) {
                new += count(create.count);
                continue;
            }
            made += count(create.count);
            let of = sets.iter().find(|set| set.hash == create.hash).map(key_of);
            let back = self.back(view);
            if !self.is_rollout || self.aborts {
                messages.push("an old pod is made without a rollout".to_owned());
            } else if self.returns(view) {
                messages.push("an old pod is made in a rollout back to what served last".to_owned());
            } else if back.is_some() && of.as_deref() != back && serves {
                messages.push(format!(
                    "an old pod is made of {}, not of the revision to go back to",
                    create.hash
                ));
            }
        }
        // Going back, all missing pods are updated ones.
        let lost = if self.returns(view) { (desired - count(view.pods.len())).max(0) } else { 0 };
        for (name, limit) in limits.iter().filter(|(_, limit)| new > lost && view.updated() + new > *limit) {
            messages.push(format!(
                "passed by nobody: {name} allows {limit} updated pods, {new} are made beside {}",
                view.updated()
            ));
        }
        if view.recreates() && new > 0 && old > 0 {
            messages.push("Recreate makes an updated pod beside an old one".to_owned());
        }
        if made == 0 {
            return messages;
        }
        if view.recreates() && view.updated() > 0 {
            messages.push("Recreate makes an old pod beside an updated one".to_owned());
        }
        // How many pods stay for a group of nodes depends on when it was counted.
        let is_declared = view.snapshot.deployment.spec.strategy.node_group_label().is_some();
        let is_known = view.status.rollout.as_ref().is_some_and(|rollout| rollout.node_groups.is_some());
        let has_groups = is_declared || is_known || self.points.values().any(|number| was_group(*number));
        let least = if has_groups { 0 } else { self.limit(view).unwrap_or(desired) };
        // Pods that were missing when it was paused can count as old ones.
        let paused = self.paused.map(|(number, _, before)| scaled(number, before, desired));
        let least = least.min(paused.unwrap_or(least));
        // With an invalid list, there get no more updated ones.
        let least = if view.has_invalid_points { least.min(view.updated()) } else { least };
        let keep = if desired == 1 { 1 } else { desired - least };
        if (has_groups || !limits.is_empty()) && old + made <= keep {
            return messages;
        }
        let there = desired.min(self.before);
        let unavailable = self.unavailable.max(desired - view.floor);
        let lacks = view.reliable() + made - 1 < there - unavailable;
        if view.recreates() || self.hold.is_some() || !lacks {
            messages.push(format!("{made} old pods are made without need, beside {old}"));
        }
        messages
    }

    fn deletes(&self, view: &View<'_>, act: &Act) -> Messages {
        let mut messages = Messages::new();
        let limits = self.limits(view);
        let old: Vec<&ActivePod<'_>> = view.old().collect();
        let place = |uid: &str| old.iter().position(|active| active.is(uid));
        let mut by_rollout = 0;
        let mut open = self.open.clone();
        for target in targets(act, Purpose::Rollout) {
            let Some(at) = place(target.uid()) else {
                messages.push(format!("the rollout deletes {}, which is not old", target.name()));
                continue;
            };
            by_rollout += 1;
            open = open.or_else(|| self.group_ahead(view, &old, at));
            let points = self.points.iter().filter(|_| !self.returns(view));
            let mut points = points.filter(|(key, number)| {
                !is_group(view, &key.0, **number) || open.as_deref() != Some(group_of(&key.0))
            });
            let barrier = points.find_map(|(key, number)| {
                let barrier = barrier_of(view, &old, &key.0, (*number)?)?;
                (at >= barrier).then_some(&key.0)
            });
            if let Some(name) = barrier {
                messages.push(format!("passed by nobody: {} is deleted at or behind {name}", target.name()));
            }
        }
        let by_scale =
            count(targets(act, Purpose::Scale).filter(|target| place(target.uid()).is_some()).count());
        let left = count(old.len()) - by_rollout - by_scale;
        let least = self.limit(view).unwrap_or(view.desired);
        let keep = if view.desired == 1 { 1 } else { view.desired - least };
        if by_rollout > 0 && !limits.is_empty() && left < keep {
            messages.push(format!(
                "passed by nobody: the rollout leaves {left} old pods, {keep} stay by {limits:?}"
            ));
        }
        if view.desired > 0 && !limits.is_empty() && by_rollout + by_scale > 0 && left == 0 {
            messages.push("the last old pod goes with a point ahead".to_owned());
        }
        if let Some(held) = self.hold.as_ref().filter(|_| self.is_rollout && !self.aborts) {
            let surplus = view.updated() > view.desired;
            let scales = view.desired < held.most || view.desired == 0;
            let any = act.deletes.iter().any(|group| !group.targets.is_empty());
            if by_rollout > 0 || (any && !scales && !surplus) {
                messages.push(format!("the hold {} deletes pods", held.id));
            }
        }
        messages
    }

    /// The group of nodes of that old pod, if its point is ahead.
    fn group_ahead(&self, view: &View<'_>, old: &[&ActivePod<'_>], at: usize) -> Option<String> {
        let mut points = view.snapshot.deployment.spec.strategy.points();
        let point = points.find(|point| point.between_node_groups.is_some())?;
        let active =
            old.get(at).filter(|active| active.pod.facts.node.is_some() && at >= first_served(view, old))?;
        let name = group_name(view, point, point.between_node_groups.as_deref()?, active);
        let is_ahead = self.points.get(&self.key(&name)).is_some_and(|number| is_group(view, &name, *number));
        is_ahead.then(|| group_of(&name).to_owned())
    }

    /// What was decided.
    pub fn decided(&mut self, snapshot: &Snapshot, decision: &Decision) {
        let status = match decision {
            Decision::Record(record) => &record.status,
            Decision::Act(act) => &act.status,
            Decision::Read(_) => return,
        };
        let view = View::of(snapshot);
        if std::mem::take(&mut self.may_resume) && status.resume_requested.is_none() {
            self.resumed(&view);
        }
        self.ended(&view, status);
        if let (Some(held), Some(hold)) = (&mut self.hold, &status.hold) {
            held.stands = view.desired == 0 && hold.until.is_none();
        }
        if let Decision::Act(act) = decision {
            let old: Vec<_> = view.old().collect();
            for target in targets(act, Purpose::Rollout) {
                let at = old.iter().position(|active| active.is(target.uid()));
                let group = at.and_then(|at| self.group_ahead(&view, &old, at));
                self.asked.extend(group.map(|group| (target.name().to_owned(), group)));
            }
        }
        let is_over = status.rollout.as_ref().is_some_and(|rollout| rollout.completed);
        let is_alone = is_over || self.all_limits(&view).is_empty();
        let serves = self.is_ending && is_alone && view.desired > 0 && view.available() >= view.floor.max(1);
        if let Some(set) = current_set(&view).filter(|_| serves && matches!(decision, Decision::Act(_))) {
            self.served.retain(|(served, _)| *served != self.template);
            self.served.push((self.template.clone(), set.uid.to_string()));
            (self.is_return, self.has_served, self.open) = (true, true, None);
        }
        let is_carried_out = !self.aborts || matches!(decision, Decision::Act(_));
        if status.aborted.is_some() && is_carried_out && view.desired > 0 {
            // Only without replicas they stay ahead of what comes next.
            self.points.clear();
        }
        if self.aborts && status.aborted.is_none() {
            // A retry begins anew.
            let mut begun = snapshot.clone();
            Arc::make_mut(&mut begun.deployment).status = Some(status.clone());
            self.look(&begun);
        }
        let Some(hold) = &status.hold else { return };
        if self.hold.as_ref().is_some_and(|held| held.id == hold.id) {
            return;
        }
        let old = count(view.old().count());
        let least = self.limit(&view).unwrap_or(view.desired);
        let keep = if view.desired == 1 { 1 } else { view.desired - least };
        let mut share = least;
        let point = self.key(name_of(&hold.id));
        if old > keep
            && let Some(Some(Number::Counted { limit, replicas, .. })) = self.points.get_mut(&point)
        {
            // Its barrier stopped the rollout: the number is that of the pods ahead.
            share = (view.desired - old).max(0);
            (*limit, *replicas) = (share, view.desired);
        }
        let now = snapshot.now;
        self.hold = Some(Held {
            id: hold.id.clone(),
            point,
            share: (share, view.desired),
            most: self.desired.max(view.desired),
            since: now,
            seen: now,
            stands: false,
        });
    }
}

/// Whether that was a group of nodes when it was first seen.
fn was_group(number: Option<Number>) -> bool {
    matches!(number, Some(Number::Counted { side: Side::Group, .. }))
}

/// Whether that is a group of nodes ahead.
fn is_group(view: &View<'_>, name: &str, number: Option<Number>) -> bool {
    was_group(number) && declared(view).get(first_of(name)) == Some(&What::Group)
}

/// The first part of the name of a declared point.
fn first_of(name: &str) -> &str {
    name.split_once('.').map_or(name, |(first, _)| first)
}

/// The rest of that name: that of a group of nodes.
fn group_of(name: &str) -> &str {
    name.strip_prefix(first_of(name)).unwrap_or_default()
}

/// Whether a declared point is still the same: a number or a place, and a group of nodes if it was one.
fn is_same(name: &str, what: What, now: Option<What>) -> bool {
    now.is_some_and(|now| (now == What::Number) == (what == What::Number))
        && (!name.contains('.') || now == Some(What::Group))
}

/// The points of the spec.
fn declared<'v>(view: &'v View<'_>) -> BTreeMap<&'v str, What> {
    let points = view.snapshot.deployment.spec.strategy.points();
    let what = |point: &DeclaredPausePoint| match (&point.after_updated, &point.between_node_groups) {
        (Some(_), _) => What::Number,
        (None, Some(_)) => What::Group,
        (None, None) => What::Place,
    };
    points.map(|point| (point.name.as_str(), what(point))).collect()
}

fn what_of(name: &str, number: Option<Number>) -> What {
    match number {
        Some(Number::Counted { side: Side::Group, .. }) => What::Group,
        Some(Number::Counted { side: Side::Place, .. }) if name.contains('.') => What::Group,
        Some(Number::Counted { side: Side::Place, .. }) => What::Place,
        Some(Number::Counted { .. }) => What::Mark,
        Some(Number::Spec) | None => What::Number,
    }
}

/// The template of a set, as a text.
fn key_of(set: &Set) -> String {
    template_hash(&set.template.without_hash(), 0)
}

/// The declared point of that name, or of that group of nodes.
fn point_of<'v>(view: &View<'v>, name: &str) -> Option<&'v DeclaredPausePoint> {
    let first = first_of(name);
    view.snapshot.deployment.spec.strategy.points().find(|point| point.name == first)
}

/// How long the pause at the point of that name lasts, in seconds.
fn duration_of(view: &View<'_>, name: &str) -> Option<i64> {
    point_of(view, name)?.pause_duration().map(in_seconds)
}

fn in_seconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// The number of a place with so many old pods ahead of it: without those that are missing, and those that
/// have no node yet.
fn number_of(view: &View<'_>, point: &DeclaredPausePoint, old: &[&ActivePod<'_>], ahead: usize) -> i64 {
    let is_refilled = !view.recreates() || old.is_empty();
    let leaving = if view.recreates() { view.terminating() } else { 0 };
    let there = if is_refilled { view.desired.min(count(view.pods.len()) + leaving) } else { view.desired };
    let rules = view.snapshot.deployment.spec.deletion_order.as_ref();
    let has_rules =
        rules.and_then(|order| order.node_priorities.as_ref()).is_some_and(|rules| !rules.is_empty());
    let by_node = point.before_priority.is_none() || has_rules;
    let is_there = |name: &Arc<str>| view.snapshot.nodes.get(name).is_some_and(Option::is_some);
    let is_unassigned =
        |active: &&&ActivePod<'_>| by_node && !active.pod.facts.node.as_ref().is_some_and(is_there);
    let unassigned = old.iter().take(ahead).skip(first_served(view, old)).filter(is_unassigned);
    (there - count(old.len() - ahead) - count(unassigned.count())).max(0)
}

/// Whether the nodes that this point asks for were read.
fn knows_nodes(view: &View<'_>, point: &DeclaredPausePoint) -> bool {
    let nodes = view.pods.iter().filter_map(|active| active.pod.facts.node.as_ref());
    let asks = point.before_nodes.is_some() || point.between_node_groups.is_some();
    !asks || nodes.into_iter().all(|name| view.snapshot.nodes.contains_key(name))
}

/// The places of a declared point: their names, and where the first pod behind each is.
fn places(
    view: &View<'_>,
    point: &DeclaredPausePoint,
    old: &[&ActivePod<'_>],
) -> Vec<(String, Option<usize>)> {
    let Some(label) = &point.between_node_groups else {
        return vec![(point.name.clone(), position(view, point, old))];
    };
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    let serving = old.iter().enumerate().skip(first_served(view, old));
    for (at, active) in serving.filter(|(_, active)| active.pod.facts.node.is_some()) {
        groups.entry(group_name(view, point, label, active)).or_insert(at);
    }
    if groups.is_empty() {
        // Until a pod has a node, all of them are one group.
        return vec![(point.name.clone(), None)];
    }
    groups.into_iter().map(|(name, at)| (name, Some(at))).collect()
}

fn group_name(view: &View<'_>, point: &DeclaredPausePoint, label: &str, active: &ActivePod<'_>) -> String {
    view.group(active, label).map_or_else(|| point.name.clone(), |group| format!("{}.{group}", point.name))
}

/// How many old pods are of revisions that never served: they go first, and are at no place. 0 if all of them
/// are.
fn first_served(view: &View<'_>, old: &[&ActivePod<'_>]) -> usize {
    old.iter().position(|active| view.has_served(active)).unwrap_or(0)
}

/// How many old pods are ahead of that place. Pods of revisions that never served count only if no other pod
/// is behind it.
fn position(view: &View<'_>, point: &DeclaredPausePoint, old: &[&ActivePod<'_>]) -> Option<usize> {
    first_of_place(view, old, |active| is_behind(view, point, active))
}

fn first_of_place(
    view: &View<'_>,
    old: &[&ActivePod<'_>],
    is_at: impl Fn(&ActivePod<'_>) -> bool,
) -> Option<usize> {
    let has_served = |active: &&ActivePod<'_>| is_at(active) && view.has_served(active);
    old.iter().position(has_served).or_else(|| old.iter().position(|active| is_at(active)))
}

fn is_behind(view: &View<'_>, point: &DeclaredPausePoint, active: &ActivePod<'_>) -> bool {
    if let Some(priority) = point.before_priority {
        return view.priority(active) <= priority;
    }
    let Some(nodes) = &point.before_nodes else { return false };
    let node = active.pod.facts.node.as_ref().and_then(|name| view.snapshot.nodes.get(name));
    node.and_then(Option::as_ref).is_some_and(|node| nodes.matches(&node.labels))
}

/// How many old pods are ahead of a point, if a pod is at it.
fn barrier_of(view: &View<'_>, old: &[&ActivePod<'_>], name: &str, number: Number) -> Option<usize> {
    match number {
        Number::Spec => None,
        Number::Counted { side: Side::Place | Side::Group, .. } => {
            let point = point_of(view, name)?;
            let Some(label) = &point.between_node_groups else { return position(view, point, old) };
            first_of_place(view, old, |active| {
                active.pod.facts.node.is_some() && group_name(view, point, label, active) == name
            })
        }
        Number::Counted { side, .. } => {
            let at =
                old.iter().position(|active| active.pod.name == name && active.pod.point != Point::None)?;
            let is_after = match old[at].pod.point {
                Point::At { side, .. } => side == PausePoint::After,
                _ => side == Side::After,
            };
            Some(at + usize::from(is_after))
        }
    }
}
