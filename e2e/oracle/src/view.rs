//! What a decision was made on, computed from the contract: order, bounds, floors.
//!
//! The order of the pods is the sorter's. Everything else is computed here, so that a mistake of the planner
//! is not repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::SignedDuration;
use ordereddeployment_api::{
    ConditionStatus, OrderedDeploymentStatus, PodReplacementPolicy, StrategyType, Template, UnavailablePods,
    names::condition, names::reason, template_hash, validate,
};
use ordereddeployment_planner::{Pod, Set, Snapshot, is_of, node_rules, to_compare};
use ordereddeployment_sorter::Pods;

/// A rule that a decision breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise, as `docs/reliability.md` numbers it.
    pub rule: &'static str,
    /// The oracle that found it.
    pub oracle: &'static str,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.rule, self.message, self.oracle)
    }
}

/// What one oracle finds: a message for each violation.
pub type Messages = Vec<String>;

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
    pub fn is(&self, uid: &str) -> bool {
        *self.pod.facts.uid == *uid
    }
}

/// What a decision was made on, counted.
#[allow(clippy::struct_excessive_bools, reason = "each is an independent fact")]
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
    pub aborts: bool,
    /// Whether the spec is valid. Pods of an invalid spec are not counted.
    pub(crate) is_valid: bool,
    /// Whether the declared points are invalid: then no rollout goes on.
    pub(crate) has_invalid_points: bool,
}

/// Whether the condition of that type is True.
pub fn is_true(status: &OrderedDeploymentStatus, type_: &str) -> bool {
    status.condition(type_).is_some_and(|found| found.status == ConditionStatus::True)
}

/// A length as a signed number.
pub fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

impl<'a> View<'a> {
    /// Counts what was observed.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let spec = &snapshot.deployment.spec;
        let sets: BTreeMap<&str, &Set> = snapshot.sets.iter().map(|set| (&*set.uid, set)).collect();
        let pods: Vec<&Pod> = snapshot
            .pods
            .iter()
            .filter(|pod| !pod.terminating && !pod.finished && sets.contains_key(&*pod.set))
            .map(|pod| &**pod)
            .collect();
        let rules = node_rules(spec);
        let mut ordered = Pods::new(snapshot.now);
        for pod in &pods {
            ordered.add(&pod.facts);
        }
        let ordered = ordered.order(rules, &snapshot.nodes);
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
        let priority = |index: &usize| (Arc::clone(&pods[*index].facts.uid), ordered.priority(*index));
        let priorities = ordered.indices().iter().map(priority).collect();
        let pods = ordered.indices().iter().map(|index| active(pods[*index])).collect();
        let desired = i64::from(spec.replicas);
        let ceiling = if desired == 0 { 0 } else { desired + spec.max_surge() };
        let floor = desired - spec.max_unavailable();
        let status = snapshot.deployment.stored_status();
        let (of_points, others): (Vec<_>, Vec<_>) =
            validate(spec).into_iter().partition(ordereddeployment_api::Violation::is_of_points);
        let (is_valid, has_invalid_points) = (others.is_empty(), !of_points.is_empty());
        let mut view = Self {
            snapshot,
            status,
            desired,
            floor,
            ceiling,
            pods,
            priorities,
            current,
            of_spec,
            aborts,
            is_valid,
            has_invalid_points,
        };
        view.arrange();
        view
    }

    /// Puts the old pods in the order of an abort, or of a rollout that groups them by nodes.
    fn arrange(&mut self) {
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
        // Pods of an interrupted rollout go first.
        old.sort_by_key(|active| self.has_served(active));
        for (at, active) in places.into_iter().zip(old) {
            self.pods[at] = active;
        }
    }

    /// Whether the revision of this pod has served.
    pub(crate) fn has_served(&self, active: &ActivePod<'_>) -> bool {
        let sets = &self.snapshot.sets;
        let is_unrecorded = sets.iter().all(|set| set.served.is_none());
        is_unrecorded || sets.iter().any(|set| set.uid == active.pod.set && set.served > Some(0))
    }

    /// The value of that label of the pod's node.
    pub(crate) fn group(&self, active: &ActivePod<'_>, label: &str) -> Option<&'a str> {
        let node = self.snapshot.nodes.get(active.pod.facts.node.as_ref()?)?.as_ref()?;
        node.labels.get(label).map(String::as_str)
    }

    pub(crate) fn priority(&self, active: &ActivePod<'_>) -> i32 {
        self.priorities.get(&active.pod.facts.uid).copied().unwrap_or(0)
    }

    /// Whether the sets say that the current template is the one that served last.
    pub fn served_last(&self) -> bool {
        let Some(own) = current_set(self).filter(|set| !set.terminating) else { return false };
        let others = self.snapshot.sets.iter().filter(|set| !set.terminating && set.uid != own.uid);
        let from = self.status.rollout.as_ref().and_then(|rollout| rollout.from.as_ref());
        let is_gone = |hash: &str| self.snapshot.sets.iter().all(|set| set.terminating || set.hash != hash);
        own.served > others.filter_map(|set| set.served).max().max(Some(0))
            && from.is_none_or(|from| Some(from.revision) <= own.served || !is_gone(&from.template_hash))
    }

    /// The template of the pods that are to stay: the spec's, or in an abort that of the revision before.
    pub fn template(&self) -> Template {
        let target = self.snapshot.sets.iter().find(|set| self.aborts && self.current.contains(&*set.uid));
        let spec = &self.snapshot.deployment.spec.template;
        target.map_or_else(|| spec.without_hash(), |set| set.template.clone())
    }

    fn tally(&self, counts: impl Fn(&ActivePod<'_>) -> bool) -> i64 {
        count(self.pods.iter().filter(|active| counts(active)).count())
    }

    /// Active pods of the spec's template.
    pub(crate) fn with_spec_template(&self) -> i64 {
        self.tally(|active| self.of_spec.contains(&*active.pod.set))
    }

    /// The active pods of older revisions, in the order.
    pub fn old(&self) -> impl Iterator<Item = &ActivePod<'a>> {
        self.pods.iter().filter(|active| !active.updated)
    }

    /// The place of the pod with that UID among the active ones.
    pub(crate) fn place(&self, uid: &str) -> Option<usize> {
        self.pods.iter().position(|active| active.is(uid))
    }

    /// Whether its set is being deleted: then the garbage collector deletes the pod.
    pub(crate) fn is_collected(&self, active: &ActivePod<'_>) -> bool {
        self.snapshot.sets.iter().any(|set| set.uid == active.pod.set && set.terminating)
    }

    /// Whether the strategy is Recreate.
    pub fn recreates(&self) -> bool {
        self.snapshot.deployment.spec.strategy.type_ == StrategyType::Recreate
    }

    pub(crate) fn updated(&self) -> i64 {
        self.tally(|active| active.updated)
    }

    pub(crate) fn updated_available(&self) -> i64 {
        self.tally(|active| active.updated && active.available)
    }

    pub(crate) fn available(&self) -> i64 {
        self.tally(|active| active.available)
    }

    pub(crate) fn ready(&self) -> i64 {
        self.tally(|active| active.pod.facts.ready)
    }

    /// Pods that terminate and still run.
    pub(crate) fn terminating(&self) -> i64 {
        count(self.snapshot.pods.iter().filter(|pod| pod.terminating && !pod.finished).count())
    }

    /// Active old and available updated pods.
    pub fn reliable(&self) -> i64 {
        self.tally(|active| !active.updated || active.available)
    }

    pub(crate) fn all_updated_available(&self) -> bool {
        self.pods.iter().all(|active| !active.updated || active.available)
    }

    /// Whether `unavailablePods` is `WhenBlocked`.
    pub fn is_when_blocked(&self) -> bool {
        let order = self.snapshot.deployment.spec.deletion_order.as_ref();
        order.map(|order| order.unavailable_pods).unwrap_or_default() == UnavailablePods::WhenBlocked
    }

    pub(crate) fn is_overdue(&self) -> bool {
        let progressing = self.status.condition(condition::PROGRESSING);
        progressing.is_some_and(|found| found.reason == reason::PROGRESS_DEADLINE_EXCEEDED)
    }

    /// How many pods count against the ceiling.
    pub(crate) fn present(&self) -> i64 {
        let spec = &self.snapshot.deployment.spec;
        let waits = spec.pod_replacement_policy == PodReplacementPolicy::TerminationComplete;
        count(self.pods.len()) + if waits { self.terminating() } else { 0 }
    }
}

/// All sets of the current template, those being deleted included: their pods are updated. Templates are not
/// compared again: while the API server has not compared them, the set of the rollout so far counts as
/// current.
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
    let collisions = status.collision_count.unwrap_or(0);
    let own = || template_hash(&snapshot.deployment.spec.template, collisions) == rollout.template_hash;
    let is_same = current.iter().any(|hash| *hash == rollout.template_hash);
    aborted.revision == rollout.revision && if current.is_empty() { own() } else { is_same }
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
