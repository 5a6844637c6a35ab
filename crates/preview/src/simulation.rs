//! A cluster in memory, with the objects that decisions read: it applies decisions to itself.
//!
//! One model for previews, the exploration and tests. Its owner advances the time, schedules pods and starts
//! them. Decisions are made only from what the controller knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentSpec, OrderedDeploymentStatus, Template};
use ordereddeployment_sorter::{NodeFacts, Nodes};

use ordereddeployment_planner::{
    Act, ComparisonResult, Decision, DryRun, Failure, FailureKind, Pod, Read, Set, SetChange, Snapshot,
    Source, decide, make_hashes_unique, whole_seconds,
};
use ordereddeployment_wire::{Family, PodView, new_pod};

/// An OrderedDeployment and its objects.
#[derive(Clone, Debug)]
pub struct SimulatedCluster {
    /// The object, with its stored status.
    pub deployment: OrderedDeployment,
    /// Its sets.
    pub sets: Vec<Set>,
    /// The pods of these sets.
    pub pods: Vec<Pod>,
    /// The existing nodes.
    pub nodes: BTreeMap<Arc<str>, NodeFacts>,
    /// The current time.
    pub now: Timestamp,
    /// The failure of the last act.
    pub failure: Option<Failure>,
    /// Since when creates are refused without an accepted one in between.
    pub refused_since: Option<Timestamp>,
    /// The pause points of the last act.
    pub known_points: BTreeMap<Arc<str>, String>,
    /// Names of sets with another owner.
    pub taken_names: BTreeSet<String>,
    /// Whether each migration source still exists; a missing one counts as existing.
    pub sources: BTreeMap<Source, bool>,
    /// The API server's comparison of the template, if no set is known to have it.
    pub comparison: ComparisonResult,
    /// How many objects were created.
    pub count: u32,
}

/// The result of an act.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Whether anything changed.
    pub changed: bool,
    /// UIDs of the created pods.
    pub created: Vec<Arc<str>>,
    /// Whether the pods to delete were marked; false if a create failed before.
    pub deleted: bool,
}

impl SimulatedCluster {
    /// A cluster with only this object, at that time. The API server finds its templates different.
    #[must_use]
    pub fn new(deployment: OrderedDeployment, now: Timestamp) -> Self {
        Self {
            deployment,
            sets: Vec::new(),
            pods: Vec::new(),
            nodes: BTreeMap::new(),
            now,
            failure: None,
            refused_since: None,
            known_points: BTreeMap::new(),
            taken_names: BTreeSet::new(),
            sources: BTreeMap::new(),
            comparison: ComparisonResult::New,
            count: 0,
        }
    }

    /// The cluster of a snapshot.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let nodes = snapshot.nodes.iter();
        Self {
            deployment: (*snapshot.deployment).clone(),
            sets: snapshot.sets.clone(),
            pods: snapshot.pods.iter().map(|pod| (**pod).clone()).collect(),
            nodes: nodes.filter_map(|(name, node)| Some((Arc::clone(name), node.clone()?))).collect(),
            now: snapshot.now,
            failure: snapshot.failure.clone(),
            refused_since: snapshot
                .failure
                .as_ref()
                .filter(|failed| failed.what == FailureKind::Create)
                .map(|failed| failed.since),
            known_points: snapshot.known_points.clone(),
            taken_names: snapshot.taken_names.clone(),
            sources: snapshot.sources.clone(),
            comparison: snapshot.comparison.clone(),
            count: 0,
        }
    }

    /// The input of a decision before any reads: nodes and the dry run are read when it asks for them.
    #[must_use]
    pub fn observed(&self) -> Snapshot {
        let mut sets = self.sets.clone();
        make_hashes_unique(&mut sets);
        Snapshot {
            deployment: Arc::new(self.deployment.clone()),
            sets,
            pods: self.pods.iter().cloned().map(Arc::new).collect(),
            nodes: Nodes::new(),
            now: self.now,
            live: false,
            dry_run: DryRun::Unknown,
            failure: self.failure.clone(),
            known_points: self.known_points.clone(),
            unclaimed: BTreeSet::new(),
            taken_names: self.taken_names.clone(),
            sources: self.sources.clone(),
            comparison: self.comparison.clone(),
        }
    }

    /// The next decision, with its snapshot. Requested data is read; `prove` answers its dry run. A decision
    /// that asks for data that it already has is returned as it is.
    pub fn decide(&self, prove: impl FnMut(&Template) -> DryRun) -> (Snapshot, Decision) {
        decide_and_read(self.observed(), &self.nodes, prove)
    }

    /// Changes the spec, as a user does.
    pub fn edit(&mut self, change: impl FnOnce(&mut OrderedDeploymentSpec)) {
        change(&mut self.deployment.spec);
        let generation = self.deployment.metadata.generation.get_or_insert(0);
        *generation = generation.saturating_add(1);
    }

    /// Stores a status; the times that it has are in whole seconds, as an API server stores them. Returns
    /// whether it differs from the stored one.
    pub fn store(&mut self, status: &OrderedDeploymentStatus) -> bool {
        let differs = self.deployment.status.as_ref() != Some(status);
        if differs {
            self.deployment.status = Some(status.clone());
        }
        differs
    }

    /// Applies an act: sets, then creates, then deletes. If `admit` refuses a create with a message, no pod
    /// is deleted. Deleted pods are marked as terminating; the owner of the model removes them.
    pub fn carry_out(
        &mut self,
        act: &Act,
        mut admit: impl FnMut(&Self, &Set) -> Result<(), String>,
    ) -> Applied {
        self.known_points.clone_from(&act.points);
        self.failure = None;
        if act.is_idle() {
            // What failed before is no longer asked for.
            self.refused_since = None;
        }
        for change in &act.sets {
            self.change_set(change);
        }
        let mut done = Applied { changed: !act.sets.is_empty(), ..Applied::default() };
        for create in &act.creates {
            let set = self.sets.iter().find(|set| set.hash == create.hash && !set.terminating);
            let Some(set) = set.cloned() else { continue };
            let mut template = None;
            for _ in 0..create.count {
                if let Err(message) = admit(self, &set) {
                    // The creates of that set end; the other sets get theirs.
                    let since = *self.refused_since.get_or_insert(self.now);
                    self.failure.get_or_insert(Failure { what: FailureKind::Create, message, since });
                    break;
                }
                self.refused_since = None;
                let template = template.get_or_insert_with(|| self.new_pod(&set));
                done.created.push(self.create(&set, template.clone()));
            }
        }
        if self.failure.is_none() {
            done.deleted = true;
            for target in act.deletes.iter().flat_map(|group| &group.targets) {
                self.delete(target.uid());
            }
        }
        done.changed |= !done.created.is_empty() || (done.deleted && !act.deletes.is_empty());
        if !done.changed || self.failure.is_some() {
            done.changed = self.store(&act.status) || done.changed;
        }
        done
    }

    /// Marks a pod as deleted.
    pub fn delete(&mut self, uid: &str) {
        for pod in self.pods.iter_mut().filter(|pod| *pod.facts.uid == *uid) {
            pod.terminating = true;
        }
    }

    fn change_set(&mut self, change: &SetChange) {
        match change {
            SetChange::Create { name, hash, revision, replicas } => {
                self.count += 1;
                self.sets.push(Set {
                    name: name.clone(),
                    uid: format!("set-{:04}", self.count).into(),
                    hash: hash.clone(),
                    revision: *revision,
                    created: Some(whole_seconds(self.now)),
                    replicas: *replicas,
                    min_ready_seconds: self.deployment.spec.min_ready_seconds,
                    template: self.deployment.spec.template.without_hash(),
                    equal_templates: Vec::new(),
                    served: Some(0),
                    desired_replicas: None,
                    terminating: false,
                });
            }
            SetChange::Update { uid, replicas, revision, min_ready_seconds, served } => {
                for set in self.sets.iter_mut().filter(|set| set.uid == *uid) {
                    set.replicas = replicas.unwrap_or(set.replicas);
                    set.revision = revision.unwrap_or(set.revision);
                    set.min_ready_seconds = min_ready_seconds.unwrap_or(set.min_ready_seconds);
                    set.served = served.or(set.served);
                }
            }
            SetChange::Equal { uid, equal_templates } => {
                for set in self.sets.iter_mut().filter(|set| set.uid == *uid) {
                    set.equal_templates.clone_from(equal_templates);
                }
            }
            SetChange::Delete { uid } => self.sets.retain(|set| set.uid != *uid),
        }
    }

    /// A pod as the controller creates it for that set: not assigned to a node unless its template names one.
    fn new_pod(&self, set: &Set) -> Pod {
        let namespace = self.deployment.metadata.namespace.as_deref().unwrap_or_default();
        let object = new_pod(Family::Ordered, &set.name, &set.uid, &set.template, "", namespace);
        let view: PodView = serde_json::from_value(object).unwrap_or_default();
        view.pod()
    }

    /// Creates a pod of that set.
    fn create(&mut self, set: &Set, mut pod: Pod) -> Arc<str> {
        self.count += 1;
        let uid: Arc<str> = format!("uid-{:04}", self.count).into();
        pod.name = format!("{}-{:04}", set.name, self.count);
        pod.set = Arc::clone(&set.uid);
        pod.resource_version = self.count.to_string();
        pod.facts.uid = Arc::clone(&uid);
        pod.facts.created = Some(whole_seconds(self.now));
        self.pods.push(pod);
        uid
    }
}

/// The decision on a snapshot, with what it was made on. Data that it asks for is read: these nodes exist,
/// and `prove` answers the dry run. A decision that asks for data that it already has is returned as it is.
pub fn decide_and_read(
    mut snapshot: Snapshot,
    nodes: &BTreeMap<Arc<str>, NodeFacts>,
    mut prove: impl FnMut(&Template) -> DryRun,
) -> (Snapshot, Decision) {
    let mut proven = false;
    loop {
        let decision = decide(&snapshot);
        match &decision {
            Decision::Read(Read::Live) if !snapshot.live => snapshot.live = true,
            Decision::Read(Read::DryRun { .. }) if !proven => {
                proven = true;
                snapshot.dry_run = prove(&snapshot.deployment.spec.template);
            }
            Decision::Read(Read::Sources(sources))
                if sources.iter().any(|source| !snapshot.sources.contains_key(source)) =>
            {
                for source in sources {
                    snapshot.sources.entry(source.clone()).or_insert(true);
                }
                snapshot.live = true;
            }
            Decision::Read(Read::Nodes(names))
                if names.iter().any(|name| !snapshot.nodes.contains_key(name)) =>
            {
                let read = |name: &Arc<str>| (Arc::clone(name), nodes.get(name).cloned());
                snapshot.nodes.extend(names.iter().map(read));
            }
            _ => return (snapshot, decision),
        }
    }
}
