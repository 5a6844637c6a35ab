//! The snapshot of a decision: the observation of the round, and the state in memory of the object.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube_runtime::reflector::ObjectRef;
use ordereddeployment_api::OrderedDeploymentSpec;
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{ComparisonResult, Event, EventType, Regarding, Snapshot, needs_nodes};
use ordereddeployment_sorter::Nodes;
use ordereddeployment_wire::{MalformedAnnotation, NamespacedUid, declared_points, unknown_annotations};
use tokio::time::Instant;

use crate::cache::entry::Entry;
use crate::cache::index::Cache;
use crate::reconcile::observation::Observation;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::state::ObjectState;
use crate::reconcile::state::live::{LiveRead, LiveReadReason};

impl Reconciler<'_> {
    /// Drops the expectations that the watch confirms. Returns why a live read is due, if it is.
    pub(crate) fn live_read_reason(&mut self) -> Option<LiveReadReason> {
        let now = self.ctx.clock.now();
        let mut cache = self.ctx.cache();
        if cache.may_adopt(&self.key) {
            self.state.live.ask(LiveReadReason::Orphan);
        }
        for lag in self.state.pods.lags(&cache.pods, now) {
            self.ctx.metrics.watch_lag.observe(lag.as_secs_f64().max(0.0));
        }
        if let Some(last) = self.state.live.last
            && has_replayed(&self.key, &mut cache, self.state, last)
        {
            self.state.live.ask(LiveReadReason::Replayed);
        }
        let expired = [self.state.pods.observe(&cache.pods, now), self.state.sets.observe(&cache.sets, now)];
        if expired.contains(&true) {
            self.state.live.ask(LiveReadReason::Expired);
        }
        let status = self.state.deployment.stored_status();
        let is_requested = status.resume_requested.is_some()
            || status.abort_requested.is_some()
            || status.retry_requested.is_some();
        let asked = !self.live && is_requested;
        let reason = self.state.live.reason(self.state.generation(), cache.lists);
        reason.max(asked.then_some(LiveReadReason::Resume))
    }

    /// The complete input of the planner.
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        let Observation { sets, pods } = &self.observation;
        let now = self.ctx.clock.now();
        let mut pods: Vec<_> = pods.iter().map(|entry| Arc::clone(&entry.pod)).collect();
        self.state.date_failures(&mut pods, now);
        let failure = self.state.failure(now);
        let owns_sets = self.ctx.owns_sets;
        // Without sets of its own, claims that failed stop their sets only.
        let failure = if owns_sets { failure } else { self.state.failures.current.clone() };
        let deployment = self.ctx.node_rules.apply(&self.state.deployment);
        let template = &self.state.deployment.spec.template;
        Snapshot {
            nodes: self.nodes(&deployment.spec),
            deployment,
            sets: sets.iter().map(|entry| entry.set.clone()).collect(),
            pods,
            now,
            live: self.live,
            dry_run: self.state.templates.dry_run(template, Instant::now()),
            failure,
            known_points: self.state.reporting.known_points.clone(),
            unclaimed: self.state.claims.sets(),
            taken_names: self.state.writes.taken_names.clone(),
            sources: self.state.sources.clone(),
            comparison: if owns_sets {
                self.state.templates.compared(template, sets, now, Instant::now())
            } else {
                // The Deployment controller creates the sets. It compares templates as they are written.
                ComparisonResult::New
            },
        }
    }

    /// The known nodes of the pods, if the decisions about this spec read nodes.
    fn nodes(&self, spec: &OrderedDeploymentSpec) -> Nodes {
        let mut nodes = self.state.nodes.clone();
        if !needs_nodes(spec) {
            return nodes;
        }
        let pods = self.observation.pods.iter();
        let names: HashSet<&Arc<str>> = pods.filter_map(|entry| entry.pod.facts.node.as_ref()).collect();
        for name in names {
            if let Some(node) = self.ctx.nodes.get(&ObjectRef::new(name)) {
                nodes.insert(Arc::clone(name), Some(node.facts()));
            }
        }
        nodes
    }

    /// Warns once of each malformed annotation of the object and of its pods.
    pub(crate) fn warn_of_malformed(&mut self) {
        let deployment = &self.state.deployment;
        let mut own = unknown_annotations(&deployment.metadata);
        if !self.ctx.owns_sets
            && let Some(Err(why)) = declared_points(deployment.metadata.annotations.as_ref())
        {
            own.push(MalformedAnnotation::Points(why));
        }
        let own = own.into_iter().map(|malformed| (None, malformed));
        let of_pods = self.observation.pods.iter().flat_map(|entry| {
            let malformed = entry.malformed.iter().cloned();
            malformed.map(move |malformed| (Some(entry), malformed))
        });
        let mut current = BTreeSet::new();
        for (entry, malformed) in own.chain(of_pods) {
            let id = (entry.map(|entry| Arc::clone(entry.uid())), malformed);
            if !self.state.reporting.warned.contains(&id) {
                self.ctx.metrics.malformed_annotations.inc();
                let mut notice = self.notice(&Event {
                    type_: EventType::Warning,
                    reason: reason::MALFORMED_ANNOTATION,
                    message: id.1.to_string(),
                    regarding: Regarding::Deployment,
                });
                let pod = entry.map(|entry| format!("Pod {}", entry.pod.name));
                notice.message = format!("{}: {}", pod.as_ref().unwrap_or(&notice.kind), notice.message);
                self.ctx.events.publish(notice);
            }
            current.insert(id);
        }
        self.state.reporting.warned = current;
    }

    /// When the first expectation expires.
    pub(crate) fn expectations_expire(&self) -> Option<Timestamp> {
        let cache = self.ctx.cache();
        let all = [self.state.pods.expires(&cache.pods), self.state.sets.expires(&cache.sets)];
        all.into_iter().flatten().min()
    }
}

/// Whether the watch shows a set or a pod for the first time that the last live read should have found, and
/// did not: it is gone. A watch that was silent continues where it was, and repeats what happened meanwhile.
/// Here versions of several objects are compared: where they cannot be compared, this asks for a read too
/// many or too few, and nothing else depends on it.
fn has_replayed(key: &NamespacedUid, cache: &mut Cache, state: &ObjectState, last: LiveRead) -> bool {
    let (sets, pods) = last.versions;
    let is_gone = |version: u64, listed: u64, is_known: bool| version <= listed && !is_known;
    let owners: BTreeSet<NamespacedUid> =
        cache.sets.of_owner(key).map(|set| set.key()).chain(state.sets.keys()).cloned().collect();
    let added = cache.sets.take_added(key);
    let mut replayed = added.iter().any(|set| is_gone(set.version(), sets, state.sets.knows(set.key())));
    for owner in &owners {
        let added = cache.pods.take_added(owner);
        replayed |= added.iter().any(|pod| is_gone(pod.version(), pods, state.pods.knows(pod.key())));
    }
    replayed
}
