//! The state in memory of one OrderedDeployment between reconciliations. All of it can be lost.

pub(crate) mod failures;
pub(crate) mod live;
pub(crate) mod templates;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_planner::{Failure, FailureKind, Pod, Source};
use ordereddeployment_sorter::Nodes;
use ordereddeployment_wire::MalformedAnnotation;
use tokio::time::Instant;

use crate::cache::entry::{PodEntry, SetEntry, version_of};
use crate::cache::expectations::Expectations;
use crate::reconcile::state::failures::Failures;
use crate::reconcile::state::live::LiveReads;
use crate::reconcile::state::templates::Templates;

/// The state of one OrderedDeployment.
#[derive(Debug)]
pub(crate) struct ObjectState {
    /// The latest known version.
    pub(crate) deployment: Arc<OrderedDeployment>,
    /// The version that the watch showed when the API server went back in time: it is ignored.
    void: Option<String>,
    pub(crate) pods: Expectations<PodEntry>,
    pub(crate) sets: Expectations<SetEntry>,
    /// Nodes read live in this reconciliation.
    pub(crate) nodes: Nodes,
    /// The migration sources as read in this reconciliation: whether each still exists.
    pub(crate) sources: BTreeMap<Source, bool>,
    /// When each failed pod was first seen as failed, by UID; the time of the failure if that was before the
    /// first reconciliation. `None` before the first reconciliation.
    failures_seen: Option<BTreeMap<Arc<str>, Timestamp>>,
    pub(crate) live: LiveReads,
    pub(crate) failures: Failures,
    pub(crate) claims: Claims,
    pub(crate) templates: Templates,
    pub(crate) writes: Writes,
    pub(crate) reporting: Reporting,
}

impl ObjectState {
    pub(crate) fn new(deployment: Arc<OrderedDeployment>) -> Self {
        let is_held = deployment.status.as_ref().is_some_and(|status| status.hold.is_some());
        Self {
            deployment,
            void: None,
            pods: Expectations::default(),
            sets: Expectations::default(),
            nodes: Nodes::new(),
            sources: BTreeMap::new(),
            failures_seen: None,
            live: LiveReads::default(),
            failures: Failures::default(),
            claims: Claims::default(),
            templates: Templates::default(),
            writes: Writes::new(is_held),
            reporting: Reporting::default(),
        }
    }

    /// Updates the object from the watch, unless a later version is known. Of the same version, what is known
    /// stays: for a moment after an update of a CRD, watches lack fields that a live read has.
    pub(crate) fn refresh(&mut self, shown: Arc<OrderedDeployment>) {
        if self.void.is_some() && self.void == shown.metadata.resource_version {
            return;
        }
        let (newer, known) = (version_of(&*shown), version_of(&*self.deployment));
        // Equal ones share their memory.
        let is_equal = || !Arc::ptr_eq(&shown, &self.deployment) && *shown == *self.deployment;
        if newer > known || newer == known && is_equal() {
            self.deployment = shown;
        }
    }

    /// Updates the object from a live read that began after the last known version. An older version proves
    /// that the API server went back in time: what the watch still `shows` is ignored.
    pub(crate) fn read(&mut self, found: Arc<OrderedDeployment>, shows: Option<&OrderedDeployment>) {
        let version = version_of(&*found);
        if version >= version_of(&*self.deployment) {
            self.deployment = found;
            return;
        }
        tracing::warn!(
            version,
            "the API server shows an older version than before: it was restored from a backup"
        );
        let void = shows.filter(|shown| version_of(*shown) > version);
        self.void = void.and_then(|shown| shown.metadata.resource_version.clone());
        self.deployment = found;
    }

    /// Sets in these pods the time at which each failure was first seen; for failures before the first
    /// reconciliation, the time of the failure. A time in the future becomes the current one.
    pub(crate) fn date_failures(&mut self, pods: &mut [Arc<Pod>], now: Timestamp) {
        let before = self.failures_seen.take();
        let mut seen = BTreeMap::new();
        for pod in pods {
            let Some(failed) = &pod.failed else { continue };
            let first = match &before {
                Some(before) => before.get(&pod.facts.uid).copied().unwrap_or(now),
                None => failed.at,
            };
            let first = first.min(now);
            seen.insert(Arc::clone(&pod.facts.uid), first);
            if failed.seen != first
                && let Some(failed) = &mut Arc::make_mut(pod).failed
            {
                failed.seen = first;
            }
        }
        self.failures_seen = Some(seen);
    }

    pub(crate) fn generation(&self) -> i64 {
        self.deployment.metadata.generation.unwrap_or(0)
    }

    /// Why the last decision could not be applied, or the next one must not be. A failed claim comes first.
    pub(crate) fn failure(&mut self, now: Timestamp) -> Option<Failure> {
        if let Some(message) = self.claims.message(|_| true) {
            Some(self.failures.failed(FailureKind::Claim, message, now))
        } else {
            self.failures.succeeded(FailureKind::Claim);
            self.failures.current.clone()
        }
    }
}

/// An object that could not be adopted or released.
#[derive(Clone, Debug)]
pub(crate) struct Unclaimed {
    /// The UID of the set that adopts or releases it. `None`: the object is a set.
    pub(crate) set: Option<Arc<str>>,
    /// Why.
    pub(crate) message: String,
}

/// The claims of one object that failed.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Matching orphans that the last live read could not adopt.
    pub(crate) unadopted: BTreeMap<String, Unclaimed>,
    /// Objects that no longer match and could not be released.
    pub(crate) unreleased: BTreeMap<String, Unclaimed>,
}

impl Claims {
    /// Why adopting or releasing fails for these sets, if it does. `None` stands for objects that are sets.
    pub(crate) fn message(&self, of: impl Fn(Option<&Arc<str>>) -> bool) -> Option<String> {
        let all = self.unadopted.values().chain(self.unreleased.values());
        let mut all = all.filter(|unclaimed| of(unclaimed.set.as_ref()));
        let first = all.next()?.message.clone();
        let more = match all.count() {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        Some(first + &more)
    }

    /// The UIDs of the sets for which a pod could not be adopted or released.
    pub(crate) fn sets(&self) -> BTreeSet<Arc<str>> {
        let all = self.unadopted.values().chain(self.unreleased.values());
        all.filter_map(|unclaimed| unclaimed.set.clone()).collect()
    }
}

/// The reports about one object.
#[derive(Debug, Default)]
pub(crate) struct Reporting {
    /// When the status was last reported.
    pub(crate) reported: Option<Instant>,
    /// When the status of a set was last written.
    pub(crate) sets_reported: Option<Instant>,
    /// When the sizes of the sets of a running rollout were last written.
    pub(crate) published: Option<Instant>,
    /// When they must be written next, if they lag.
    pub(crate) publishes_at: Option<Instant>,
    /// Fields of the status that the API server does not store.
    pub(crate) unstored: Vec<String>,
    /// The pause points that were known at the last decision.
    pub(crate) known_points: BTreeMap<Arc<str>, String>,
    /// Malformed annotations that were already warned of, with the UID of their pod; `None`: of the object.
    pub(crate) warned: BTreeSet<(Option<Arc<str>>, MalformedAnnotation)>,
}

/// The writes of one object.
#[derive(Debug)]
pub(crate) struct Writes {
    /// How many pods and sets were created since the object was last read live.
    pub(crate) created: usize,
    /// The size of the next batch of creates: more than 1 while the creates of a decision go on.
    pub(crate) next_batch: usize,
    pub(crate) taken_names: BTreeSet<String>,
    /// UIDs of owners whose last create came back changed, so that the object is not theirs, and the message:
    /// a set for its pods, the deployment for its sets. A dry run precedes the next create.
    pub(crate) altered_creates: BTreeMap<Arc<str>, String>,
    /// Whether budgets may have been counted with older sizes of the sets, or with those between two writes.
    pub(crate) recount_due: bool,
    /// Whether the sizes of several sets were written since budgets were last counted.
    pub(crate) recount_at_rest: bool,
    /// For a plain Deployment: the generations of its sets when it was last read before a delete.
    pub(crate) confirmed_sets: BTreeMap<Arc<str>, i64>,
}

impl Writes {
    pub(crate) fn new(is_held: bool) -> Self {
        Self {
            created: 0,
            next_batch: 1,
            taken_names: BTreeSet::new(),
            altered_creates: BTreeMap::new(),
            // What was written before this process started is not known.
            recount_due: true,
            // The sizes of a long pause may have been written just before the last process ended.
            recount_at_rest: is_held,
            confirmed_sets: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ordereddeployment_api::OrderedDeployment;
    use serde_json::json;

    use super::{Arc, ObjectState, Timestamp};

    fn deployment(version: u64, generation: i64, image: &str) -> Arc<OrderedDeployment> {
        let object = json!({
            "metadata": {"name": "web", "uid": "d", "resourceVersion": version.to_string(),
            "generation": generation},
            "spec": {"selector": {}, "template": {"spec": {"image": image}}},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_lagging_watch_does_not_bring_an_older_version_back() {
        let mut state = ObjectState::new(deployment(9, 1, "a"));
        state.refresh(deployment(7, 1, "a"));
        assert_eq!(state.deployment.metadata.resource_version.as_deref(), Some("9"));
        state.refresh(deployment(10, 2, "a"));
        assert_eq!(state.generation(), 2);
    }

    #[test]
    fn a_watch_with_an_older_schema_does_not_replace_the_same_version_read_live() {
        let mut state = ObjectState::new(deployment(9, 1, "a"));
        state.read(deployment(9, 1, "b"), None);
        state.refresh(deployment(9, 1, "a"));
        assert_eq!(state.deployment, deployment(9, 1, "b"));
        let equal = deployment(9, 1, "b");
        state.refresh(Arc::clone(&equal));
        assert!(Arc::ptr_eq(&state.deployment, &equal));
    }

    #[test]
    fn an_older_version_read_live_replaces_what_the_watch_shows() {
        let mut state = ObjectState::new(deployment(9, 3, "b"));
        let shown = deployment(9, 3, "b");
        state.read(deployment(5, 2, "a"), Some(&shown));
        assert_eq!(state.generation(), 2);
        state.refresh(Arc::clone(&shown));
        assert_eq!(state.generation(), 2);
        // Later versions are accepted, also when they pass the ignored one.
        state.refresh(deployment(6, 3, "c"));
        state.refresh(deployment(10, 4, "d"));
        assert_eq!(state.generation(), 4);
        state.read(deployment(11, 5, "e"), None);
        assert_eq!(state.generation(), 5);
    }

    #[test]
    fn a_failure_is_dated_when_it_is_seen_even_if_the_clock_jumps() {
        use crate::testing::pod;
        use ordereddeployment_planner::Failed;
        let at = |second| Timestamp::from_second(second).unwrap();
        let failed = |uid: &str, at: Timestamp| {
            let mut pod = pod(uid, 1).pod;
            let word = |text: &str| Arc::from(text);
            let failed = Failed { at, seen: at, reason: word("Evicted"), message: word("") };
            Arc::make_mut(&mut pod).failed = Some(Box::new(failed));
            pod
        };
        let mut state = ObjectState::new(deployment(1, 1, "web:1"));
        let mut look = |uids: &[(&str, i64)], now: i64| -> Vec<i64> {
            let mut pods: Vec<_> = uids.iter().map(|(uid, second)| failed(uid, at(*second))).collect();
            state.date_failures(&mut pods, at(now));
            pods.iter().map(|pod| pod.failed.as_ref().unwrap().seen.as_second()).collect()
        };
        // A clock that is far ahead: only a failure before the first look has its own time.
        assert_eq!(look(&[("a", 10)], 9000), [10]);
        assert_eq!(look(&[("a", 10), ("b", 12)], 9002), [10, 9002]);
        assert_eq!(look(&[("a", 10), ("b", 12)], 9003), [10, 9002]);
        // The clock is correct again.
        assert_eq!(look(&[("b", 12)], 15), [15]);
        assert_eq!(look(&[("b", 12)], 16), [15]);
    }
}
