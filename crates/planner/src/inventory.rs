//! The inventory: the active pods in their order, by set, revision and availability.
//!
//! It counts and sorts; it makes no decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::{
    OrderedDeploymentSpec, OrderedDeploymentStatus, PodReplacementPolicy, StrategyType, names::ALL_POINTS,
};
use ordereddeployment_sorter::{self as sorter, Context, Key, NodeRule, Ranks};

use crate::backoff::Backoff;
use crate::revision::Revision;
use crate::{Pod, Set, Snapshot};

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
#[derive(Clone, Debug)]
pub(crate) struct RankedPod<'a> {
    pub(crate) pod: &'a Arc<Pod>,
    pub(crate) key: Key,
    pub(crate) hash: &'a str,
    /// Whether it is of the current template, in any set.
    pub(crate) updated: bool,
    /// Whether its set is being deleted: the garbage collector decides about the pod, and the planner never deletes it.
    pub(crate) collected: bool,
    /// Whether it has been ready for the minReadySeconds of its own set.
    pub(crate) available: bool,
    /// Its place in the order.
    pub(crate) place: usize,
}

impl RankedPod<'_> {
    pub(crate) fn uid(&self) -> &Arc<str> {
        &self.pod.facts.uid
    }
}

/// The inventory of a snapshot.
#[derive(Debug)]
pub(crate) struct Inventory<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) spec: &'a OrderedDeploymentSpec,
    pub(crate) status: OrderedDeploymentStatus,
    pub(crate) bounds: Bounds,
    /// The hash of the current template: of its set, if that exists.
    pub(crate) hash: String,
    /// The set of the current template.
    pub(crate) current: Option<&'a Set>,
    /// The current template, compared with those of the sets.
    pub(crate) revision: Revision<'a>,
    /// All active pods, in the order.
    pub(crate) ranked_pods: Vec<RankedPod<'a>>,
    /// UIDs of all sets of the current template, including terminating ones.
    current_sets: BTreeSet<&'a str>,
    /// UIDs of the pods whose pause points the rollout has passed.
    passed: BTreeSet<String>,
    /// When the next pod becomes available by time alone.
    pub(crate) next_available: Option<Timestamp>,
    /// Failed pods whose replacements wait.
    pub(crate) backoff: Backoff,
}

impl<'a> Inventory<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let spec = &snapshot.deployment.spec;
        let status = snapshot.deployment.status.clone().unwrap_or_default();
        let revision = Revision::of(snapshot);
        let passed = status.passed.iter().flatten().map(|passed| passed.pod_uid.clone()).collect();
        let mut inventory = Self {
            snapshot,
            spec,
            status,
            passed,
            bounds: Bounds::of(spec),
            hash: revision.hash.clone(),
            current: revision.current,
            revision,
            current_sets: BTreeSet::new(),
            ranked_pods: Vec::new(),
            next_available: None,
            backoff: Backoff::of(snapshot),
        };
        inventory.count();
        inventory
    }

    fn count(&mut self) {
        let snapshot = self.snapshot;
        let revision = &self.revision;
        let sets: BTreeMap<&str, (&Set, bool)> =
            snapshot.sets.iter().map(|set| (&*set.uid, (set, revision.has(set)))).collect();
        self.current_sets = sets.iter().filter(|(_, (_, updated))| *updated).map(|(uid, _)| *uid).collect();
        let active: Vec<&Arc<Pod>> = active(snapshot).collect();
        let rules = node_rules(self.spec);
        let ranks = Ranks::of(active.iter().map(|pod| &pod.facts));
        let ctx = Context { now: Some(snapshot.now), rules: &rules, nodes: &snapshot.nodes, ranks: &ranks };
        for pod in active {
            let Some(&(set, updated)) = sets.get(&*pod.set) else { continue };
            let min_ready = if updated { self.spec.min_ready_seconds } else { set.min_ready_seconds };
            let available_at = available_at(pod, min_ready);
            let available = available_at.is_some_and(|at| at <= snapshot.now);
            if let Some(at) = available_at.filter(|_| !available) {
                self.next_available = Some(self.next_available.map_or(at, |next| next.min(at)));
            }
            let key = sorter::key(&pod.facts, &ctx);
            let collected = set.terminating;
            self.ranked_pods.push(RankedPod {
                pod,
                key,
                hash: &set.hash,
                updated,
                collected,
                available,
                place: 0,
            });
        }
        self.ranked_pods.sort_unstable_by(|first, second| first.key.cmp(&second.key));
        for (place, ranked) in self.ranked_pods.iter_mut().enumerate() {
            ranked.place = place;
        }
    }

    pub(crate) fn old(&self) -> impl Iterator<Item = &RankedPod<'a>> {
        self.ranked_pods.iter().filter(|ranked| !ranked.updated)
    }

    pub(crate) fn updated(&self) -> impl Iterator<Item = &RankedPod<'a>> {
        self.ranked_pods.iter().filter(|ranked| ranked.updated)
    }

    /// Active pods of older revisions.
    pub(crate) fn old_count(&self) -> i64 {
        count(self.old())
    }

    /// Active pods of the current revision.
    pub(crate) fn updated_count(&self) -> i64 {
        count(self.updated())
    }

    /// Available pods of all revisions.
    pub(crate) fn available(&self) -> i64 {
        count(self.ranked_pods.iter().filter(|ranked| ranked.available))
    }

    /// Available pods of the current revision.
    pub(crate) fn updated_available(&self) -> i64 {
        count(self.updated().filter(|ranked| ranked.available))
    }

    /// All active pods.
    pub(crate) fn active(&self) -> i64 {
        count(self.ranked_pods.iter())
    }

    /// Pods that are terminating and still run.
    pub(crate) fn terminating(&self) -> i64 {
        count(self.snapshot.pods.iter().filter(|pod| pod.terminating && !pod.finished))
    }

    /// Active pods by the hash of their set; every set has an entry.
    pub(crate) fn by_set(&self) -> BTreeMap<String, i64> {
        let mut sizes: BTreeMap<String, i64> =
            self.snapshot.sets.iter().map(|set| (set.hash.clone(), 0)).collect();
        sizes.entry(self.hash.clone()).or_default();
        for ranked in &self.ranked_pods {
            if let Some(size) = sizes.get_mut(ranked.hash) {
                *size += 1;
            }
        }
        sizes
    }

    /// How many pods can be created now without exceeding `ceiling`.
    pub(crate) fn room_below(&self, ceiling: i64) -> i64 {
        let terminating = match self.spec.pod_replacement_policy {
            PodReplacementPolicy::TerminationStarted => 0,
            PodReplacementPolicy::TerminationComplete => self.terminating(),
        };
        (ceiling - self.active() - terminating).max(0)
    }

    /// How many pods of that set must not be created yet, because pods of it have failed.
    pub(crate) fn backed_off(&self, hash: &str) -> i64 {
        let set = self.usable_sets().find(|set| set.hash == hash);
        set.map_or(0, |set| self.backoff.waiting(&set.uid))
    }

    /// Since when replacements in the current set wait for the backoff.
    pub(crate) fn delayed_since(&self) -> impl Iterator<Item = Timestamp> {
        self.current.into_iter().flat_map(|set| self.backoff.since(&set.uid))
    }

    /// Whether the rollout has passed the pause point of the pod with that UID.
    pub(crate) fn has_passed(&self, uid: &str) -> bool {
        self.passed.contains(uid) || self.passed.contains(ALL_POINTS)
    }

    /// Whether the set with that UID is of the current template. Its pods stay whatever happens to the set: while it is
    /// being deleted, another set replaces it and adopts the pods that the garbage collector orphans.
    pub(crate) fn is_current_set(&self, uid: &str) -> bool {
        self.current_sets.contains(uid)
    }

    /// Sets of other templates.
    pub(crate) fn old_sets(&self) -> impl Iterator<Item = &'a Set> {
        self.snapshot.sets.iter().filter(|set| !self.is_current_set(&set.uid))
    }

    pub(crate) fn recreate(&self) -> bool {
        self.spec.strategy.type_ == StrategyType::Recreate
    }

    /// Sets that can get pods: all except terminating ones.
    pub(crate) fn usable_sets(&self) -> impl Iterator<Item = &'a Set> {
        self.snapshot.sets.iter().filter(|set| !set.terminating)
    }

    /// The nodes that must be read before the order is known.
    pub(crate) fn missing_nodes(snapshot: &Snapshot) -> BTreeSet<Arc<str>> {
        let rules = node_rules(&snapshot.deployment.spec);
        sorter::missing_nodes(active(snapshot).map(|pod| &pod.facts), &rules, &snapshot.nodes)
    }
}

fn active(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<Pod>> {
    snapshot.pods.iter().filter(|pod| !pod.terminating && !pod.finished)
}

fn node_rules(spec: &OrderedDeploymentSpec) -> Vec<NodeRule> {
    spec.deletion_order.as_ref().map(crate::node_rules).unwrap_or_default()
}

/// When the pod becomes available, if it is ready. As Kubernetes' `IsPodAvailable` in `pkg/api/v1/pod/util.go`.
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
    i64::try_from(items.count()).unwrap_or(i64::MAX)
}
