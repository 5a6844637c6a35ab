//! What a decision was made on, computed from the contract: order, bounds, barrier, floors.
//!
//! The order of the pods is the sorter's. Everything else is computed here, so that a mistake of the planner is not repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use ordereddeployment_api::{
    Hold, OrderedDeploymentStatus, Pause, PausePoint, PodReplacementPolicy, StrategyType, Template,
    UnavailablePods, names::condition, names::reason, validate,
};
use ordereddeployment_planner::{FailureKind, Pod, Point, Set, Snapshot, is_of, node_rules, to_compare};
use ordereddeployment_sorter::Pods;

/// An active pod.
#[derive(Clone, Copy, Debug)]
pub struct ActivePod<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Whether it is of the current template.
    pub updated: bool,
    /// Whether it has been ready for as long as its set asks.
    pub available: bool,
}

impl ActivePod<'_> {
    /// Whether it is the pod with that UID.
    #[must_use]
    pub fn is(&self, uid: &str) -> bool {
        *self.pod.facts.uid == *uid
    }
}

/// What a decision was made on, counted.
pub struct View<'a> {
    /// What the decision was made on.
    pub snapshot: &'a Snapshot,
    /// The status as stored.
    pub status: &'a OrderedDeploymentStatus,
    /// D.
    pub desired: i64,
    /// D − U.
    pub floor: i64,
    /// D + S; 0 where D is 0.
    pub ceiling: i64,
    /// The active pods, in the order.
    pub pods: Vec<ActivePod<'a>>,
    /// Their delete priorities, by UID.
    priorities: BTreeMap<Arc<str>, i32>,
    /// The UIDs of the sets of the current template.
    pub(crate) current: BTreeSet<&'a str>,
    /// The UIDs of the sets of the spec's template, which are not the current ones in an abort.
    of_spec: BTreeSet<&'a str>,
    /// Whether the rollout is aborted.
    pub(crate) aborts: bool,
    is_valid: bool,
    is_uncompared: bool,
}

/// A length as a signed number.
#[must_use]
pub fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

impl<'a> View<'a> {
    /// Counts what was observed.
    #[must_use]
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let spec = &snapshot.deployment.spec;
        let sets: BTreeMap<&str, &Set> = snapshot.sets.iter().map(|set| (&*set.uid, set)).collect();
        let pods: Vec<&Pod> = snapshot
            .pods
            .iter()
            .filter(|pod| !pod.terminating && !pod.finished && sets.contains_key(&*pod.set))
            .map(|pod| &**pod)
            .collect();
        let rules = spec.deletion_order.as_ref().map(node_rules).unwrap_or_default();
        let mut ordered = Pods::new(Some(snapshot.now));
        for pod in &pods {
            ordered.add(&pod.facts);
        }
        let ordered = ordered.order(&rules, &snapshot.nodes);
        let uncompared = to_compare(snapshot);
        let of_spec = sets_like(snapshot, uncompared.first());
        let hashes = snapshot.sets.iter().filter(|set| of_spec.contains(&*set.uid));
        let aborts = is_aborted(snapshot, &hashes.map(|set| set.hash.as_str()).collect::<Vec<_>>());
        let current = if aborts { aborted_to(snapshot) } else { of_spec.clone() };
        let active = |pod: &'a Pod| {
            let updated = current.contains(&*pod.set);
            let own = sets.get(&*pod.set).map_or(0, |set| set.min_ready_seconds);
            let min_ready = if updated && !aborts { spec.min_ready_seconds } else { own };
            let since = pod.facts.ready_since.filter(|_| pod.facts.ready);
            let long_enough = since.is_some_and(|since| {
                snapshot.now.duration_since(since) >= SignedDuration::from_secs(min_ready.into())
            });
            // Without minReadySeconds the time does not matter: the clock may have jumped.
            let available = pod.facts.ready && (min_ready <= 0 || long_enough);
            ActivePod { pod, updated, available }
        };
        let priorities: BTreeMap<Arc<str>, i32> = ordered
            .indices()
            .iter()
            .map(|index| (Arc::clone(&pods[*index].facts.uid), ordered.priority(*index)))
            .collect();
        let pods = ordered.indices().iter().map(|index| active(pods[*index])).collect();
        let desired = i64::from(spec.replicas);
        let ceiling = if desired == 0 { 0 } else { desired + spec.max_surge() };
        let floor = desired - spec.max_unavailable();
        let status = snapshot.deployment.stored_status();
        let is_valid = validate(spec).is_empty();
        let is_uncompared = !uncompared.is_empty();
        let mut view = Self {
            snapshot,
            status,
            desired,
            floor,
            ceiling,
            pods,
            priorities: BTreeMap::new(),
            current,
            of_spec,
            aborts,
            is_valid,
            is_uncompared,
        };
        view.arrange(&priorities);
        view
    }

    /// Puts the old pods in the order of an abort, or of a rollout that groups them by nodes.
    fn arrange(&mut self, priorities: &BTreeMap<Arc<str>, i32>) {
        self.priorities.clone_from(priorities);
        let mut points = self.snapshot.deployment.spec.strategy.points();
        let label = points.find_map(|point| point.between_node_groups.as_deref());
        let places: Vec<usize> = (0..self.pods.len()).filter(|at| !self.pods[*at].updated).collect();
        let mut old: Vec<ActivePod<'a>> = places.iter().map(|at| self.pods[*at]).collect();
        if self.aborts {
            old.sort_by_key(|active| active.available);
        } else if let Some(label) = label {
            old.sort_by_key(|active| {
                let group = self.group(active, label);
                (-i64::from(self.priority(active)), group.is_none(), group)
            });
        }
        for (at, active) in places.into_iter().zip(old) {
            self.pods[at] = active;
        }
    }

    /// The delete priority of a pod.
    #[must_use]
    pub fn priority(&self, active: &ActivePod<'_>) -> i32 {
        self.priorities.get(&active.pod.facts.uid).copied().unwrap_or(0)
    }

    /// Whether the rollout is aborted.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.aborts
    }

    /// The template of the pods that are to stay: the spec's, or in an abort that of the revision before.
    #[must_use]
    pub fn template(&self) -> Template {
        let target = self.snapshot.sets.iter().find(|set| self.aborts && self.current.contains(&*set.uid));
        let spec = &self.snapshot.deployment.spec.template;
        target.map_or_else(|| spec.without_hash(), |set| set.template.clone())
    }

    /// Active pods of the spec's template.
    #[must_use]
    pub fn with_spec_template(&self) -> i64 {
        count(self.pods.iter().filter(|active| self.of_spec.contains(&*active.pod.set)).count())
    }

    /// The active pods of older revisions, in the order.
    pub fn old(&self) -> impl Iterator<Item = &ActivePod<'a>> {
        self.pods.iter().filter(|active| !active.updated)
    }

    /// The place of the pod with that UID among the active ones.
    #[must_use]
    pub fn place(&self, uid: &str) -> Option<usize> {
        self.pods.iter().position(|active| active.is(uid))
    }

    /// The hold that keeps every set at its size.
    #[must_use]
    pub fn held(&self) -> Option<&Hold> {
        self.status.hold.as_ref().filter(|hold| !has_begun(hold))
    }

    /// That hold, if it has no duration. Recreate has no surge that such a hold deletes.
    #[must_use]
    pub fn untimed_hold(&self) -> Option<&Hold> {
        self.held().filter(|hold| hold.until.is_none() && !self.recreates())
    }

    /// Whether scaling deletes this pod after all other old pods: its pause point is not passed, or it is held.
    #[must_use]
    pub fn has_pause_point(&self, active: &ActivePod<'_>) -> bool {
        if self.aborts {
            return false;
        }
        let passed = self.status.has_passed(&active.pod.facts.uid);
        let held = self.status.hold.as_ref().is_some_and(|hold| active.is(&hold.pod_uid));
        !active.updated && (held || matches!(active.pod.point, Point::At { .. }) && !passed)
    }

    /// Whether its set is being deleted: then the garbage collector deletes the pod.
    #[must_use]
    pub fn is_collected(&self, active: &ActivePod<'_>) -> bool {
        self.snapshot.sets.iter().any(|set| set.uid == active.pod.set && set.terminating)
    }

    /// Whether a hold or a pause keeps every set at its size.
    #[must_use]
    pub fn keeps_sizes(&self) -> bool {
        self.held().is_some() || self.snapshot.deployment.spec.paused || self.suspended().is_some()
    }

    /// The sizes of a rollout that is suspended at 0 replicas.
    fn suspended(&self) -> Option<&Pause> {
        self.status.rollout.as_ref()?.suspended.as_ref()
    }

    /// The sizes that a pause stored, or else a suspension.
    fn pause(&self) -> Option<&Pause> {
        let pause = self.status.pause.as_ref().filter(|_| self.snapshot.deployment.spec.paused);
        pause.or_else(|| self.suspended())
    }

    /// The sizes that a hold, a pause or a suspension stored, and the number of replicas that they are for.
    #[must_use]
    pub fn stored_sizes(&self) -> Option<(&BTreeMap<String, i32>, i32)> {
        let of_pause = self.pause().map(|pause| (&pause.sizes, pause.replicas));
        self.held().map(|hold| (&hold.sizes, hold.replicas)).or(of_pause)
    }

    /// Whether a pause stored pods of an older set. It keeps their share even while none of them exists.
    #[must_use]
    pub fn keeps_old(&self) -> bool {
        let pause = self.pause();
        let share = |hash: &str| pause.and_then(|pause| pause.sizes.get(hash)).is_some_and(|size| *size > 0);
        let mut older =
            self.snapshot.sets.iter().filter(|set| !set.terminating && !self.current.contains(&*set.uid));
        older.any(|set| share(&set.hash) && self.takes_part(set))
    }

    /// The set of the last revision that served, besides that of the spec's template: an abort rolls back to it.
    #[must_use]
    pub fn back(&self) -> Option<&'a Set> {
        let sets = self.snapshot.sets.iter();
        let others = sets.clone().filter(|set| !set.terminating && !self.of_spec.contains(&*set.uid));
        if sets.clone().any(|set| set.served.is_some()) {
            return others.filter(|set| set.served > Some(0)).max_by_key(|set| (set.served, set.revision));
        }
        // Sets of an earlier controller.
        let from = self.status.rollout.as_ref().and_then(|rollout| rollout.from.as_ref())?;
        others.clone().find(|set| set.hash == from.template_hash)
    }

    /// Whether pods of that set may be created: it is of the current template, it has pods, or an abort rolls back to it.
    #[must_use]
    pub fn takes_part(&self, set: &Set) -> bool {
        let has_pods = || self.snapshot.pods.iter().any(|pod| pod.set == set.uid && !pod.finished);
        let is_back = || self.back().is_some_and(|back| back.uid == set.uid);
        self.current.contains(&*set.uid) || has_pods() || is_back()
    }

    /// Whether the strategy is Recreate.
    #[must_use]
    pub fn recreates(&self) -> bool {
        self.snapshot.deployment.spec.strategy.type_ == StrategyType::Recreate
    }

    /// The barrier: its place among the old pods, its side, and whether its hold is stored before the DELETE. At one place, an
    /// `after` point comes first, then declared points, then a `before` point.
    #[must_use]
    pub fn barrier(&self) -> Option<(usize, PausePoint, bool)> {
        let declared = self.declared_barrier().map(|declared| declared.at);
        let of_pod = self.pod_barrier();
        if self.is_declared() { declared.map(|at| (at, PausePoint::Before, false)) } else { of_pod }
    }

    /// Whether the barrier is a declared point.
    #[must_use]
    pub fn is_declared(&self) -> bool {
        let Some(declared) = self.declared_barrier() else { return false };
        // A point `after` the pod ahead comes before a declared point at the same place.
        self.pod_barrier().is_none_or(|(at, ..)| declared.at <= at)
    }

    /// The first pause point of a pod.
    fn pod_barrier(&self) -> Option<(usize, PausePoint, bool)> {
        if self.aborts {
            return None;
        }
        let old: Vec<_> = self.old().collect();
        let begun = self.status.hold.as_ref().filter(|hold| has_begun(hold));
        // Its pod is deleted and the hold is about to be stored: until then the rollout deletes nothing.
        if begun.is_some_and(|hold| old.iter().all(|active| !active.is(&hold.pod_uid))) {
            return Some((0, PausePoint::Before, false));
        }
        old.iter().enumerate().find_map(|(at, active)| {
            let begun = begun.is_some_and(|hold| active.is(&hold.pod_uid));
            let passed = self.status.has_passed(&active.pod.facts.uid);
            match active.pod.point {
                Point::At { side: PausePoint::Before, .. } if !passed => {
                    Some((at, PausePoint::Before, begun))
                }
                _ if begun => Some((at, PausePoint::After, true)),
                Point::At { side, .. } if !passed && at + 1 < old.len() => Some((at, side, false)),
                _ => None,
            }
        })
    }

    /// How many old pods the rollout may delete before a hold is stored.
    #[must_use]
    pub fn rollout_limit(&self) -> usize {
        match self.barrier() {
            None => usize::MAX,
            Some((at, PausePoint::After, true)) => at + 1,
            Some((at, ..)) => at,
        }
    }

    /// B, where there is a barrier.
    fn behind(&self) -> Option<i64> {
        let (at, side, _) = self.barrier()?;
        let ahead = at + usize::from(side == PausePoint::After);
        Some(count(self.old().count().saturating_sub(ahead)))
    }

    /// Active pods of the current revision.
    #[must_use]
    pub fn updated(&self) -> i64 {
        count(self.pods.iter().filter(|active| active.updated).count())
    }

    /// Available pods of the current revision.
    #[must_use]
    pub fn updated_available(&self) -> i64 {
        count(self.pods.iter().filter(|active| active.updated && active.available).count())
    }

    /// Available pods of all revisions.
    #[must_use]
    pub fn available(&self) -> i64 {
        count(self.pods.iter().filter(|active| active.available).count())
    }

    /// Ready pods of all revisions.
    #[must_use]
    pub fn ready(&self) -> i64 {
        count(self.pods.iter().filter(|active| active.pod.facts.ready).count())
    }

    /// Pods that terminate and still run.
    #[must_use]
    pub fn terminating(&self) -> i64 {
        count(self.snapshot.pods.iter().filter(|pod| pod.terminating && !pod.finished).count())
    }

    /// How many updated pods the rollout wants now.
    #[must_use]
    pub fn wanted(&self) -> i64 {
        let wanted = (self.desired - self.behind().unwrap_or(0)).max(0);
        self.most_updated().map_or(wanted, |most| wanted.min(most))
    }

    /// Active old and available updated pods.
    #[must_use]
    pub fn reliable(&self) -> i64 {
        count(self.pods.iter().filter(|active| !active.updated || active.available).count())
    }

    /// Whether every updated pod is available.
    #[must_use]
    pub fn all_updated_available(&self) -> bool {
        self.pods.iter().all(|active| !active.updated || active.available)
    }

    /// Whether the rollout may delete unavailable pods out of order.
    #[must_use]
    pub fn allows_out_of_order(&self) -> bool {
        self.is_when_blocked() && self.is_blocked() && (self.is_overdue() || self.all_updated_available())
    }

    /// Whether `unavailablePods` is `WhenBlocked`.
    #[must_use]
    pub fn is_when_blocked(&self) -> bool {
        let order = self.snapshot.deployment.spec.deletion_order.as_ref();
        order.map(|order| order.unavailable_pods).unwrap_or_default() == UnavailablePods::WhenBlocked
    }

    /// Whether the progress deadline has passed.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        let progressing = self.status.condition(condition::PROGRESSING);
        progressing.is_some_and(|found| found.reason == reason::PROGRESS_DEADLINE_EXCEEDED)
    }

    /// Whether nothing can be created and the floor forbids to delete the first pod.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        let full =
            count(self.pods.len()) >= self.ceiling || self.updated() >= self.wanted() || self.cannot_create();
        let head = self.old().next();
        full && head.is_some_and(|head| head.available) && self.available() - 1 < self.floor
    }

    /// Whether creates have been refused, or have waited for a back-off, for ten seconds.
    #[must_use]
    pub fn cannot_create(&self) -> bool {
        let long = |since| self.snapshot.now.duration_since(since) >= SignedDuration::from_secs(10);
        let refused = self.snapshot.failure.as_ref().filter(|failure| failure.what == FailureKind::Create);
        let mut failed = self.snapshot.pods.iter().filter_map(|pod| pod.failed.as_ref());
        refused.is_some_and(|failure| long(failure.since)) || failed.any(|failed| long(failed.seen))
    }

    /// Whether the spec is valid. Pods of an invalid spec are not counted.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Whether it is unknown if the template is new: then no rollout may go on.
    #[must_use]
    pub fn is_uncompared(&self) -> bool {
        self.is_uncompared
    }

    /// How many pods count against the ceiling.
    #[must_use]
    pub fn present(&self) -> i64 {
        let spec = &self.snapshot.deployment.spec;
        let waits = spec.pod_replacement_policy == PodReplacementPolicy::TerminationComplete;
        count(self.pods.len()) + if waits { self.terminating() } else { 0 }
    }
}

/// Whether this hold is stored before the DELETE of its pod.
#[must_use]
pub fn has_begun(hold: &Hold) -> bool {
    hold.point == PausePoint::After && hold.deleted == Some(false)
}

/// All sets of the current template, those being deleted included: their pods are updated. Templates are not compared again: while
/// the API server has not compared them, the set of the rollout so far counts as current.
#[must_use]
pub fn current_sets(snapshot: &Snapshot) -> BTreeSet<&str> {
    sets_like(snapshot, to_compare(snapshot).first())
}

/// All sets of the template of that set, or of the current template.
fn sets_like<'a>(snapshot: &'a Snapshot, stand_in: Option<&Arc<str>>) -> BTreeSet<&'a str> {
    let stand_in = stand_in.and_then(|uid| snapshot.sets.iter().find(|set| set.uid == *uid));
    let is_current = |set: &&Set| match stand_in {
        Some(stand_in) => set.template.same_as(&stand_in.template),
        None => is_of(set, &snapshot.deployment.spec.template),
    };
    snapshot.sets.iter().filter(is_current).map(|set| &*set.uid).collect()
}

/// Whether the rollout of that template is aborted.
fn is_aborted(snapshot: &Snapshot, current: &[&str]) -> bool {
    let status = snapshot.deployment.stored_status();
    let (Some(rollout), Some(aborted)) = (&status.rollout, &status.aborted) else { return false };
    aborted.revision == rollout.revision && current.iter().all(|hash| *hash == rollout.template_hash)
}

/// The sets of the template to which an abort rolls back.
fn aborted_to(snapshot: &Snapshot) -> BTreeSet<&str> {
    let to = snapshot.deployment.stored_status().aborted.as_ref();
    let hash = to.map(|to| to.template_hash.as_str());
    let target = snapshot.sets.iter().find(|set| !set.terminating && Some(set.hash.as_str()) == hash);
    let is_like = |set: &&Set| target.is_some_and(|target| target.template.same_as(&set.template));
    snapshot.sets.iter().filter(is_like).map(|set| &*set.uid).collect()
}

/// The set of the current template: of several the oldest.
pub(crate) fn current_set<'a>(view: &View<'a>) -> Option<&'a Set> {
    let sets = view.snapshot.sets.iter();
    let current = sets.filter(|set| !set.terminating && view.current.contains(&*set.uid));
    current.min_by_key(|set| (set.created, &set.name))
}
