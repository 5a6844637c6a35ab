//! The inventory: the active pods in their order, by set, revision and availability.
//!
//! It counts and sorts; it makes no decisions.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::{
    Aborted, OrderedDeploymentSpec, OrderedDeploymentStatus, PausePoint, PodReplacementPolicy, StrategyType,
    Violation, validate,
};
use ordereddeployment_sorter::{self as sorter, NodeFacts, Order, Pods, Why};
use rustc_hash::FxBuildHasher;

use crate::backoff::Backoff;
use crate::node_rules::{node_rules, points_need_nodes};
use crate::revision::Revision;
use crate::{Pod, Point, Set, Snapshot, served};

/// The bounds of a rollout, in pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// D: `replicas`.
    pub(crate) desired: i64,
    /// The most active pods after a create: D + S, and none if D is 0.
    pub(crate) ceiling: i64,
    /// The least available pods after a delete of a rollout: D − U.
    pub(crate) floor: i64,
}

impl Bounds {
    pub(crate) fn of(spec: &OrderedDeploymentSpec) -> Self {
        let desired = i64::from(spec.replicas.max(0));
        let ceiling = if desired == 0 { 0 } else { desired + spec.max_surge() };
        Self { desired, ceiling, floor: desired - spec.max_unavailable() }
    }
}

/// An active pod with its place in the order.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub(crate) struct RankedPod<'a> {
    pub(crate) pod: &'a Arc<Pod>,
    /// Whether it is of the current template, in any set.
    pub(crate) updated: bool,
    /// Whether its set is being deleted: then the garbage collector decides about the pod, not the planner.
    pub(crate) collected: bool,
    /// Whether it has been ready for the minReadySeconds of its own set.
    pub(crate) available: bool,
    /// Whether its revision has served. Old pods of others go first: their rollout was interrupted.
    pub(crate) served: bool,
    /// Its pause point, unless the rollout has passed it.
    pub(crate) point: Option<PausePoint>,
    /// Its delete priority.
    pub(crate) priority: i32,
    /// The value of the node label by which the rollout groups its pods, if there is one.
    pub(crate) group: Option<&'a str>,
    /// Its place in the order of all active pods.
    pub(crate) place: usize,
    /// Its index in the order of the sorter.
    index: usize,
}

impl RankedPod<'_> {
    pub(crate) fn uid(&self) -> &Arc<str> {
        &self.pod.facts.uid
    }
}

/// The pods of a set.
#[derive(Clone, Copy, Debug)]
struct SetPods<'a> {
    set: &'a Set,
    /// Whether it is of the current template.
    updated: bool,
    active: i64,
    available: i64,
    /// Whether a pod of it has not finished.
    has_pods: bool,
}

/// The inventory of a snapshot. It walks the pods once and counts; all other modules read the counts.
#[derive(Debug)]
pub(crate) struct Inventory<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) spec: &'a OrderedDeploymentSpec,
    pub(crate) status: &'a OrderedDeploymentStatus,
    pub(crate) bounds: Bounds,
    /// The hash of the current template; in an abort, that of the last complete revision.
    pub(crate) hash: String,
    /// The set of the current template.
    pub(crate) current: Option<&'a Set>,
    /// The template of the spec, compared with those of the sets.
    pub(crate) revision: Revision<'a>,
    /// The abort in progress.
    pub(crate) aborted: Option<&'a Aborted>,
    /// The set that an abort rolls back to.
    pub(crate) back: Option<&'a Set>,
    /// The active pods of older revisions in their order, and behind them those of the current one in theirs.
    pub(crate) ranked_pods: Vec<RankedPod<'a>>,
    order: Order,
    old_count: usize,
    /// Available pods of all revisions.
    pub(crate) available: i64,
    /// Available pods of the current revision.
    pub(crate) updated_available: i64,
    /// Ready pods of all revisions.
    pub(crate) ready: i64,
    /// The pods that are terminating and still run.
    pub(crate) ending: Vec<&'a Pod>,
    /// Whether a pod of the current template was created, in whatever state it is.
    pub(crate) has_created: bool,
    /// All sets, in the order of the snapshot.
    sets: Vec<SetPods<'a>>,
    /// The nodes that must be read before the order is known.
    pub(crate) missing_nodes: BTreeSet<Arc<str>>,
    /// When the next pod becomes available by time alone.
    pub(crate) next_available: Option<Timestamp>,
    /// Failed pods whose replacements wait.
    pub(crate) backoff: Backoff,
    /// What is wrong with the declared pause points.
    pub(crate) invalid_points: Vec<Violation>,
}

impl<'a> Inventory<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let spec = &snapshot.deployment.spec;
        let status = snapshot.deployment.stored_status();
        let revision = Revision::of(snapshot);
        let aborted = aborted(status, &revision);
        let target = aborted.map(|aborted| {
            let mut sets = snapshot.sets.iter().filter(|set| !set.terminating);
            sets.find(|set| set.hash == aborted.template_hash)
        });
        let is_updated = |set: &Set| match target {
            None => revision.has(set),
            Some(target) => {
                target.is_some_and(|target| target.uid == set.uid || target.template.same_as(&set.template))
            }
        };
        let back = served::back(&snapshot.sets, status, |set| revision.has(set));
        let of_set =
            |set| SetPods { set, updated: is_updated(set), active: 0, available: 0, has_pods: false };
        let mut inventory = Self {
            snapshot,
            spec,
            status,
            bounds: Bounds::of(spec),
            hash: aborted.map_or(&revision.hash, |aborted| &aborted.template_hash).clone(),
            current: target.unwrap_or(revision.current),
            aborted,
            back,
            sets: snapshot.sets.iter().map(of_set).collect(),
            revision,
            ranked_pods: Vec::new(),
            order: Order::default(),
            old_count: 0,
            available: 0,
            updated_available: 0,
            ready: 0,
            ending: Vec::new(),
            has_created: false,
            missing_nodes: BTreeSet::new(),
            next_available: None,
            backoff: Backoff::default(),
            invalid_points: invalid_points(spec),
        };
        inventory.count();
        inventory
    }

    fn count(&mut self) {
        let snapshot = self.snapshot;
        let by_uid: HashMap<&str, usize, FxBuildHasher> =
            snapshot.sets.iter().zip(0..).map(|(set, at)| (&*set.uid, at)).collect();
        let mut pods = Pods::new(snapshot.now);
        if is_set_without_owner(snapshot) {
            pods = pods.without_ranks();
        }
        let is_unrecorded = served::is_unrecorded(&snapshot.sets);
        let mut found: Vec<RankedPod<'a>> = Vec::with_capacity(snapshot.pods.len());
        let mut failed = Vec::new();
        for pod in &snapshot.pods {
            let set = by_uid.get(&*pod.set).and_then(|at| self.sets.get_mut(*at));
            if let Some(set) = &set {
                self.has_created |= set.updated;
            }
            if pod.failed.is_some() && !pod.terminating {
                failed.push(&**pod);
            }
            if pod.finished {
                continue;
            }
            if pod.terminating {
                self.ending.push(pod);
            }
            let Some(set) = set else {
                if !pod.terminating {
                    pods.add_related(&pod.facts);
                }
                continue;
            };
            set.has_pods = true;
            if pod.terminating {
                continue;
            }
            let SetPods { set: of, updated, .. } = *set;
            let follows_spec = updated && self.aborted.is_none();
            let min_ready = if follows_spec { self.spec.min_ready_seconds } else { of.min_ready_seconds };
            let available_at = available_at(pod, min_ready);
            let available = available_at.is_some_and(|at| at <= snapshot.now);
            if let Some(at) = available_at.filter(|_| !available) {
                self.next_available = Some(self.next_available.map_or(at, |next| next.min(at)));
            }
            set.active += 1;
            set.available += i64::from(available);
            self.available += i64::from(available);
            self.updated_available += i64::from(available && updated);
            self.ready += i64::from(pod.facts.ready);
            self.old_count += usize::from(!updated);
            let point = match &pod.point {
                Point::At { side, .. } if self.aborted.is_none() && !self.status.has_passed(&pod.name) => {
                    Some(*side)
                }
                _ => None,
            };
            pods.add(&pod.facts);
            found.push(RankedPod {
                pod,
                updated,
                collected: of.terminating,
                available,
                served: is_unrecorded || of.served.is_some_and(|served| served > 0),
                point,
                group: None,
                priority: 0,
                place: 0,
                index: found.len(),
            });
        }
        self.backoff = Backoff::of_failed(failed, snapshot.now);
        let rules = node_rules(self.spec);
        self.missing_nodes = pods.missing_nodes(rules, &snapshot.nodes);
        if !self.aborts() && points_need_nodes(self.spec) {
            let nodes = found.iter().filter_map(|ranked| ranked.pod.facts.node.as_ref());
            self.missing_nodes.extend(nodes.filter(|name| !snapshot.nodes.contains_key(*name)).cloned());
        }
        self.order = pods.order(rules, &snapshot.nodes);
        let mut updated = Vec::with_capacity(found.len() - self.old_count);
        self.ranked_pods.reserve(found.len());
        for (index, place) in self.order.indices().iter().zip(0..) {
            let ranked = RankedPod { place, priority: self.order.priority(*index), ..found[*index] };
            let pods = if ranked.updated { &mut updated } else { &mut self.ranked_pods };
            pods.push(ranked);
        }
        if self.aborts() {
            // What does not serve goes first.
            rearrange(&mut self.ranked_pods, |pods| pods.sort_by_key(|ranked| ranked.available));
        } else if let Some(label) = self.spec.strategy.node_group_label() {
            let mut old = std::mem::take(&mut self.ranked_pods);
            self.group(&mut old, label);
            self.ranked_pods = old;
        }
        if self.ranked_pods.iter().any(|ranked| !ranked.served) {
            rearrange(&mut self.ranked_pods, |pods| pods.sort_by_key(|ranked| ranked.served));
        }
        self.ranked_pods.append(&mut updated);
    }

    /// Sorts these pods, given in order, within one delete priority by the value of this node label.
    pub(crate) fn group(&self, ranked_pods: &mut [RankedPod<'a>], label: &str) {
        for ranked in &mut *ranked_pods {
            let node = self.node_of(ranked);
            ranked.group = node.and_then(|node| node.labels.get(label)).map(String::as_str);
        }
        rearrange(ranked_pods, |pods| {
            pods.sort_by_key(|ranked| (Reverse(ranked.priority), ranked.group.is_none(), ranked.group));
        });
    }

    /// The node of a pod, if it is known.
    pub(crate) fn node_of(&self, ranked: &RankedPod<'_>) -> Option<&'a NodeFacts> {
        self.snapshot.nodes.get(ranked.pod.facts.node.as_ref()?)?.as_ref()
    }

    /// Whether the current template is that of the revision that served last: the rollout goes back to it,
    /// and no pause point holds it, as in an abort. Without replicas it is not known yet which template is
    /// rolled out. A set that is gone may have served later.
    pub(crate) fn returns(&self) -> bool {
        let own = self.current.filter(|set| !set.terminating).and_then(|set| set.served);
        let Some(own) = own.filter(|served| *served > 0) else { return false };
        let mut others = self.sets.iter().filter(|of| !of.updated && !of.set.terminating);
        let from = self.status.rollout.as_ref().and_then(|rollout| rollout.from.as_ref());
        self.bounds.desired > 0
            && !self.aborts()
            && others.all(|of| of.set.served < Some(own))
            && from.is_none_or(|from| from.revision <= own || self.is_kept(&from.template_hash))
    }

    /// The name of the object.
    pub(crate) fn name(&self) -> &'a str {
        self.snapshot.deployment.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether a set with that hash exists that served.
    pub(crate) fn is_kept(&self, hash: &str) -> bool {
        self.usable_sets().any(|set| set.hash == *hash && set.served != Some(0))
    }

    /// Whether the rollout is aborted.
    pub(crate) fn aborts(&self) -> bool {
        self.aborted.is_some()
    }

    /// Whether pods of that set may be created: it is of the current template, or old pods are made of it.
    pub(crate) fn takes_part(&self, hash: &str) -> bool {
        hash == self.hash || self.old_target().is_some_and(|set| set.hash == hash)
    }

    /// The set of which old pods are made: that of what served last. Before a revision has served, that of
    /// the first release: each other one was stopped by another template, and would grow past its own points.
    pub(crate) fn old_target(&self) -> Option<&'a Set> {
        if self.aborts() || self.returns() {
            return None;
        }
        let from = self.status.rollout.as_ref().and_then(|rollout| rollout.from.as_ref());
        let is_first = |set: &&Set| {
            let has_run = set.replicas > 0 || self.has_pods(&set.uid);
            has_run && (set.revision == 1 || set.served.is_none()) && !self.is_current_set(&set.uid)
        };
        let first = || self.usable_sets().filter(is_first).min_by_key(|set| set.revision);
        self.back.or_else(|| from.is_none().then(first).flatten())
    }

    /// Whether the current set has served in this rollout.
    pub(crate) fn has_served(&self) -> bool {
        let is_unrecorded = served::is_unrecorded(&self.snapshot.sets);
        let revision = self.rollout_revision();
        self.current.is_some_and(|set| is_unrecorded || set.served == Some(revision))
    }

    /// Active pods of the spec's template.
    pub(crate) fn with_spec_template(&self) -> i64 {
        let sets = self.sets.iter().filter(|of| self.revision.has(of.set));
        sets.map(|of| of.active).sum()
    }

    /// Active pods of older revisions, in the order.
    pub(crate) fn old(&self) -> &[RankedPod<'a>] {
        self.ranked_pods.get(..self.old_count).unwrap_or_default()
    }

    /// Active pods of the current revision, in the order.
    pub(crate) fn updated(&self) -> &[RankedPod<'a>] {
        self.ranked_pods.get(self.old_count..).unwrap_or_default()
    }

    /// The next pod of the same kind in the order: old, or of the current revision.
    pub(crate) fn next_of_kind(&self, ranked: &RankedPod<'_>) -> Option<&RankedPod<'a>> {
        let kind = if ranked.updated { self.updated() } else { self.old() };
        kind.get(kind.partition_point(|other| other.place <= ranked.place))
    }

    /// Why a pod has its place before the next one.
    pub(crate) fn why(&self, ranked: &RankedPod<'_>, next: Option<&RankedPod<'_>>) -> Why {
        let (pod, key) = (&ranked.pod.facts, self.order.key(ranked.index));
        // The rules of an abort, and of a rollout by groups of nodes.
        if let Some(next) = next.filter(|next| !next.updated) {
            if ranked.served != next.served {
                return sorter::why_by(pod, key, "of a revision that never served");
            }
            if self.aborts() && ranked.available != next.available {
                return sorter::why_by(pod, key, "not available");
            }
            if ranked.priority == next.priority && ranked.group != next.group {
                let group = |ranked: &RankedPod<'_>| ranked.group.unwrap_or("no group").to_owned();
                return sorter::why_by(pod, key, &format!("{} before {}", group(ranked), group(next)));
            }
        }
        let next = next.map(|next| self.order.key(next.index));
        sorter::why(pod, key, next)
    }

    /// Active pods of older revisions.
    pub(crate) fn old_count(&self) -> i64 {
        signed(self.old_count)
    }

    /// Active pods of the current revision.
    pub(crate) fn updated_count(&self) -> i64 {
        signed(self.ranked_pods.len() - self.old_count)
    }

    /// All active pods.
    pub(crate) fn active(&self) -> i64 {
        signed(self.ranked_pods.len())
    }

    /// Whether a rollout is suspended if points are ahead: no replicas are wanted, or none is there.
    pub(crate) fn is_at_zero(&self) -> bool {
        self.bounds.desired == 0 || self.active() == 0
    }

    /// How many pods are terminating and still run.
    pub(crate) fn terminating(&self) -> i64 {
        signed(self.ending.len())
    }

    /// Active pods by the hash of their set; every set has an entry.
    pub(crate) fn by_set(&self) -> BTreeMap<String, i64> {
        let mut sizes = BTreeMap::from([(self.hash.clone(), 0)]);
        for SetPods { set, active, .. } in &self.sets {
            *sizes.entry(set.hash.clone()).or_default() += active;
        }
        sizes
    }

    /// Whether a pod of that set has not finished.
    pub(crate) fn has_pods(&self, uid: &str) -> bool {
        self.sets.iter().any(|of| of.has_pods && *of.set.uid == *uid)
    }

    /// How many pods can be created now without exceeding `ceiling`.
    pub(crate) fn room_below(&self, ceiling: i64) -> i64 {
        let terminating = match self.spec.pod_replacement_policy {
            PodReplacementPolicy::TerminationStarted => 0,
            PodReplacementPolicy::TerminationComplete => self.terminating(),
        };
        (ceiling - self.active() - terminating).max(0)
    }

    /// Since when replacements in the current set wait for the backoff.
    pub(crate) fn delayed_since(&self) -> impl Iterator<Item = Timestamp> {
        self.current.into_iter().flat_map(|set| self.backoff.since(&set.uid))
    }

    /// The revision of the rollout. A plain Deployment stores it with its first pause.
    pub(crate) fn rollout_revision(&self) -> i64 {
        let of_set = || self.current.map_or(0, |set| set.revision);
        self.status.rollout.as_ref().map_or_else(of_set, |rollout| rollout.revision)
    }

    /// Whether a rollout is in progress that pause points can stop: none of an abort.
    pub(crate) fn is_rollout(&self) -> bool {
        let is_on = self.status.rollout.as_ref().is_some_and(|rollout| !rollout.completed);
        !self.aborts() && (is_on || self.old_count > 0 || self.waits_for_its_set())
    }

    /// Whether the rollout stands still, whatever its points are: `spec.paused` is set, or they are invalid.
    pub(crate) fn stands(&self) -> bool {
        self.spec.paused || !self.invalid_points.is_empty()
    }

    /// Whether the set of the template is not created because of `spec.paused`: pods are made of another one.
    pub(crate) fn waits_for_its_set(&self) -> bool {
        let is_missing = self.spec.paused && self.current.is_none() && self.bounds.desired > 0;
        is_missing && self.usable_sets().next().is_some()
    }

    /// Whether the set with that UID is of the current template. Its pods stay whatever happens to the set:
    /// while it is being deleted, another set replaces it and adopts the pods that the garbage collector
    /// orphans.
    pub(crate) fn is_current_set(&self, uid: &str) -> bool {
        self.sets.iter().any(|of| of.updated && *of.set.uid == *uid)
    }

    /// Sets of other templates.
    pub(crate) fn old_sets(&self) -> impl Iterator<Item = &'a Set> {
        self.sets.iter().filter(|of| !of.updated).map(|of| of.set)
    }

    pub(crate) fn recreate(&self) -> bool {
        self.spec.strategy.type_ == StrategyType::Recreate
    }

    /// Sets that can get pods: all except terminating ones.
    pub(crate) fn usable_sets(&self) -> impl Iterator<Item = &'a Set> {
        self.snapshot.sets.iter().filter(|set| !set.terminating)
    }
}

fn invalid_points(spec: &OrderedDeploymentSpec) -> Vec<Violation> {
    if spec.strategy.points().next().is_none() {
        return Vec::new();
    }
    validate(spec).into_iter().filter(Violation::is_of_points).collect()
}

/// The abort of the current rollout. A new template ends it.
fn aborted<'a>(status: &'a OrderedDeploymentStatus, revision: &Revision<'_>) -> Option<&'a Aborted> {
    let rollout = status.rollout.as_ref().filter(|rollout| rollout.template_hash == revision.hash)?;
    status.aborted.as_ref().filter(|aborted| aborted.revision == rollout.revision)
}

/// Sorts pods; their places stay the places of the same pods together.
fn rearrange(ranked_pods: &mut [RankedPod<'_>], sort: impl FnOnce(&mut [RankedPod<'_>])) {
    let places: Vec<usize> = ranked_pods.iter().map(|ranked| ranked.place).collect();
    sort(ranked_pods);
    for (ranked, place) in ranked_pods.iter_mut().zip(places) {
        ranked.place = place;
    }
}

/// Whether the object is a ReplicaSet that no object controls.
fn is_set_without_owner(snapshot: &Snapshot) -> bool {
    let metadata = &snapshot.deployment.metadata;
    let is_set = snapshot.sets.iter().any(|set| metadata.uid.as_deref() == Some(&*set.uid));
    let is_controlled =
        metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    is_set && !is_controlled
}

/// When a ready pod becomes available: Kubernetes' `IsPodAvailable` in `pkg/api/v1/pod/util.go`.
fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    if !pod.facts.ready {
        return None;
    }
    if min_ready_seconds <= 0 {
        return Some(Timestamp::MIN);
    }
    pod.facts.ready_since?.checked_add(SignedDuration::from_secs(i64::from(min_ready_seconds))).ok()
}

pub(crate) fn count<T>(items: impl Iterator<Item = T>) -> i64 {
    signed(items.count())
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

pub(crate) fn narrow(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
