//! A state: everything that a decision reads, in a canonical form, so that states that differ in nothing else are one state.
//!
//! Pods are named by their place: larger priorities come first, then UIDs in ascending order. Of times only their effect is kept: a
//! timer runs or has expired. All pods have the same age. Within one priority, pods that are equally ready are ordered by UID, and a
//! new pod is last.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;
use ordereddeployment_api::names::condition;
use ordereddeployment_api::{
    Condition, Hold, OrderedDeployment, OrderedDeploymentStatus, PausePoint, Rollout,
};
use ordereddeployment_planner::{
    ComparisonResult, DryRun, Failure, Pod, Point, Set, Snapshot, make_hashes_unique,
};
use ordereddeployment_preview::SimulatedCluster;
use ordereddeployment_sorter::{Facts, Nodes, Phase};
use rustc_hash::FxHashMap;

use crate::case::{PodPausePoint, Setup};

/// The time of every decision, in seconds.
const NOW: i64 = 2_000_000_000;
/// The time of everything that has expired or does not matter.
const OLD: i64 = NOW - 100_000;
/// How long a timed pause point lasts.
const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);

pub fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap_or_default()
}

pub fn old() -> Timestamp {
    Timestamp::from_second(OLD).unwrap_or_default()
}

/// A pod.
#[allow(clippy::struct_excessive_bools, reason = "each is an independent fact")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PodState {
    /// The number in its name and UID, until the next canonical form.
    pub id: u16,
    pub template: u8,
    pub priority: i8,
    pub point: PodPausePoint,
    pub ready: bool,
    /// Whether its containers run.
    pub started: bool,
    pub terminating: bool,
    /// Whether it never becomes ready.
    pub never_ready: bool,
}

impl PodState {
    pub fn is_active(&self) -> bool {
        !self.terminating
    }
}

/// A set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetState {
    pub template: u8,
    pub revision: i64,
    pub replicas: i32,
}

/// A status in its canonical form.
#[derive(Debug)]
pub struct StoredStatus {
    pub status: OrderedDeploymentStatus,
    key: u128,
    /// The numbers of the pods that it names.
    named: Vec<u16>,
}

/// The old and new numbers of pods.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Names(Vec<(u16, u16)>);

impl Names {
    /// The pods keep their numbers.
    pub fn same(pods: &[PodState]) -> Self {
        Self(pods.iter().map(|pod| (pod.id, pod.id)).collect())
    }

    /// The pods are named by their places.
    fn by_place(pods: &[PodState]) -> Self {
        Self(pods.iter().map(|pod| pod.id).zip(0..).collect())
    }

    /// The new number of a pod, if it exists.
    fn get(&self, old: u16) -> Option<u16> {
        self.0.iter().find(|(other, _)| *other == old).map(|(_, new)| *new)
    }

    fn renames(&self, id: u16) -> bool {
        self.get(id) != Some(id)
    }
}

/// Every status found so far, each stored once.
#[derive(Default)]
pub struct Statuses {
    stored: FxHashMap<u128, Arc<StoredStatus>>,
    /// The pods of snapshots.
    pods: FxHashMap<PodState, Arc<Pod>>,
}

impl Statuses {
    fn pod(&mut self, state: &PodState, setup: &Setup) -> Arc<Pod> {
        Arc::clone(self.pods.entry(*state).or_insert_with(|| Arc::new(pod(state, setup))))
    }

    /// A stored status, with its pods renamed.
    fn renamed(&mut self, stored: &Arc<StoredStatus>, names: &Names) -> Arc<StoredStatus> {
        if stored.named.iter().any(|id| names.renames(*id)) {
            self.canonical(&stored.status, names)
        } else {
            Arc::clone(stored)
        }
    }

    /// The canonical form of a status, with its pods renamed.
    pub fn canonical(&mut self, status: &OrderedDeploymentStatus, names: &Names) -> Arc<StoredStatus> {
        let key = fingerprint(&encoded(status, names));
        let stored = self.stored.entry(key).or_insert_with(|| {
            let mut status = status.clone();
            remove_unread(&mut status);
            let named = rename(&mut status, names);
            Arc::new(StoredStatus { status, key, named })
        });
        Arc::clone(stored)
    }
}

/// A state of a cluster.
#[derive(Clone, Debug)]
pub struct State {
    pub replicas: i32,
    pub template: u8,
    pub paused: bool,
    pub status: Arc<StoredStatus>,
    pub sets: Vec<SetState>,
    pub pods: Vec<PodState>,
    pub failure: Option<Failure>,
    /// Since when creates are refused.
    pub refused_since: Option<Timestamp>,
    /// The number of faults so far.
    pub faults: u8,
}

impl State {
    /// The initial state of a cluster.
    pub fn first(setup: &Setup, statuses: &mut Statuses) -> Self {
        let case = &setup.case;
        let templates: BTreeSet<u8> = case.pods.iter().map(|pod| pod.template).collect();
        let sets = templates.into_iter().map(|template| SetState {
            template,
            revision: i64::from(template) + 1,
            replicas: i32::try_from(case.pods.iter().filter(|pod| pod.template == template).count())
                .unwrap_or(0),
        });
        let pods = case.pods.iter().zip(0..).map(|(pod, id)| PodState {
            id,
            template: pod.template,
            priority: pod.priority,
            point: pod.point,
            ready: !pod.never_ready,
            started: true,
            terminating: false,
            never_ready: pod.never_ready,
        });
        let state = Self {
            replicas: case.replicas,
            template: case.template,
            paused: false,
            status: statuses.canonical(&OrderedDeploymentStatus::default(), &Names::default()),
            sets: sets.collect(),
            pods: pods.collect(),
            failure: None,
            refused_since: None,
            faults: 0,
        };
        state.canonical(statuses)
    }

    /// The same state with its pods named by their places.
    pub fn canonical(mut self, statuses: &mut Statuses) -> Self {
        self.pods.sort_by_key(|pod| (-pod.priority, pod.id));
        let names = Names::by_place(&self.pods);
        let mut same = names.0.iter().all(|(old, new)| old == new);
        if let Some(hold) = &self.status.status.hold {
            same &= id_of(&hold.pod_uid).is_none_or(|id| names.get(id).is_some());
        }
        let gone = |uid: &str| id_of(uid).is_some_and(|id| names.get(id).is_none());
        same &= !self.status.status.passed.iter().flatten().any(|passed| gone(&passed.pod_uid));
        if !same {
            self.status = statuses.renamed(&self.status, &names);
        }
        for (pod, place) in self.pods.iter_mut().zip(0..) {
            pod.id = place;
        }
        self
    }

    /// The identity of the state.
    pub fn key(&self) -> u128 {
        let mut bytes = Vec::with_capacity(64 + 16 * (self.sets.len() + self.pods.len()));
        bytes.extend(self.status.key.to_le_bytes());
        bytes.extend(self.replicas.to_le_bytes());
        bytes.extend([self.template, u8::from(self.paused), self.faults]);
        bytes.push(u8::try_from(self.sets.len()).unwrap_or(u8::MAX));
        for SetState { template, revision, replicas } in &self.sets {
            bytes.push(*template);
            bytes.extend(revision.to_le_bytes());
            bytes.extend(replicas.to_le_bytes());
        }
        bytes.push(u8::try_from(self.pods.len()).unwrap_or(u8::MAX));
        for PodState { id, template, priority, point, ready, started, terminating, never_ready } in &self.pods
        {
            let flags = [ready, started, terminating, never_ready];
            let flags = flags.into_iter().fold(0, |flags, flag| flags << 1 | u8::from(*flag));
            bytes.extend(id.to_le_bytes());
            bytes.extend([*template, priority.cast_unsigned(), *point as u8, flags]);
        }
        bytes.push(u8::from(self.refused_since.is_some()));
        bytes.extend(self.refused_since.iter().flat_map(|since| since.as_second().to_le_bytes()));
        if let Some(failure) = &self.failure {
            bytes.extend(format!("{failure:?}").as_bytes());
        }
        fingerprint(&bytes)
    }

    /// What a decision in this state is made on.
    pub fn snapshot(&self, setup: &Setup, statuses: &mut Statuses) -> Snapshot {
        let mut sets = self.sets(setup);
        make_hashes_unique(&mut sets);
        Snapshot {
            deployment: Arc::new(self.deployment(setup)),
            sets,
            pods: self.pods.iter().map(|state| statuses.pod(state, setup)).collect(),
            nodes: Nodes::new(),
            now: now(),
            live: false,
            dry_run: DryRun::Unknown,
            failure: self.failure.clone(),
            known_points: BTreeMap::new(),
            taken_names: BTreeSet::new(),
            sources: BTreeMap::new(),
            // The templates are different for the API server, too.
            comparison: ComparisonResult::New,
        }
    }

    /// The cluster in this state.
    pub fn world(&self, setup: &Setup) -> SimulatedCluster {
        SimulatedCluster {
            deployment: self.deployment(setup),
            sets: self.sets(setup),
            pods: self.pods.iter().map(|state| pod(state, setup)).collect(),
            nodes: BTreeMap::new(),
            now: now(),
            failure: self.failure.clone(),
            refused_since: self.refused_since,
            known_points: BTreeMap::new(),
            taken_names: BTreeSet::new(),
            sources: BTreeMap::new(),
            comparison: ComparisonResult::New,
            count: 5000,
        }
    }

    fn deployment(&self, setup: &Setup) -> OrderedDeployment {
        let mut deployment = setup.deployment.clone();
        deployment.spec.replicas = self.replicas;
        deployment.spec.paused = self.paused;
        if self.template != setup.case.template {
            deployment.spec.template = setup.templates[usize::from(self.template)].0.clone();
        }
        deployment.status = Some(self.status.status.clone());
        deployment
    }

    fn sets(&self, setup: &Setup) -> Vec<Set> {
        let sets = self.sets.iter().map(|set| {
            let (_, template, hash) = &setup.templates[usize::from(set.template)];
            Set {
                name: format!("web-{hash}"),
                uid: Arc::clone(&setup.sets[usize::from(set.template)]),
                hash: hash.clone(),
                revision: set.revision,
                created: Some(old()),
                replicas: set.replicas,
                min_ready_seconds: 0,
                template: template.clone(),
                equal_templates: Vec::new(),
                terminating: false,
            }
        });
        sets.collect()
    }

    /// The state with another stored status. Its pods keep their names.
    pub fn with_status(&self, status: &OrderedDeploymentStatus, statuses: &mut Statuses) -> Self {
        let mut state = self.clone();
        state.store(status, statuses);
        state
    }

    fn store(&mut self, status: &OrderedDeploymentStatus, statuses: &mut Statuses) {
        // Pods keep their names until the next canonical form.
        let names = Names::same(&self.pods);
        let is_renamed = || self.status.named.iter().any(|id| names.renames(*id));
        let is_same =
            *status == self.status.status || (is_read_alike(status, &self.status.status) && !is_renamed());
        if !is_same {
            self.status = statuses.canonical(status, &names);
        }
    }

    /// The state of a world after this state. Its pods keep their names.
    pub fn after(&self, world: &SimulatedCluster, setup: &Setup, statuses: &mut Statuses) -> Result<Self> {
        let mut state = self.clone();
        state.failure.clone_from(&world.failure);
        state.refused_since = world.refused_since;
        let template_of = |hash: &str| {
            let place = setup.templates.iter().position(|(.., one)| one == hash);
            place.and_then(|place| u8::try_from(place).ok()).context("a set has an unknown template")
        };
        state.sets.clear();
        let mut by_uid = BTreeMap::new();
        for set in &world.sets {
            let template = template_of(&set.hash)?;
            by_uid.insert(Arc::clone(&set.uid), template);
            state.sets.push(SetState { template, revision: set.revision, replicas: set.replicas });
        }
        state.sets.sort_by_key(|set| set.template);
        state.pods.clear();
        for pod in &world.pods {
            let id = id_of(&pod.facts.uid).context("a pod has no number")?;
            let known = self.pods.iter().find(|known| known.id == id).copied();
            let new = || -> Result<PodState> {
                Ok(PodState {
                    id,
                    template: *by_uid.get(&pod.set).context("a pod has no set")?,
                    priority: 0,
                    point: PodPausePoint::None,
                    ready: false,
                    started: false,
                    terminating: false,
                    never_ready: false,
                })
            };
            let known = known.map_or_else(new, Ok)?;
            state.pods.push(PodState { terminating: pod.terminating, ..known });
        }
        if let Some(status) = &world.deployment.status {
            state.store(status, statuses);
        }
        Ok(state)
    }
}

/// The number in a UID.
pub fn id_of(uid: &str) -> Option<u16> {
    uid.strip_prefix("uid-")?.parse().ok()
}

fn pod(state: &PodState, setup: &Setup) -> Pod {
    let named = setup.pods.get(usize::from(state.id)).cloned();
    // A new pod has another number until the next canonical form.
    let (name, uid) =
        named.unwrap_or_else(|| (format!("pod-{:04}", state.id), format!("uid-{:04}", state.id).into()));
    let at = |side, duration| Point::At { side, duration: Ok(duration) };
    Pod {
        name,
        set: Arc::clone(&setup.sets[usize::from(state.template)]),
        resource_version: "1".to_owned(),
        facts: Facts {
            uid,
            node: Some(Arc::clone(&setup.node)),
            phase: if state.started { Phase::Running } else { Phase::Pending },
            ready: state.ready,
            ready_since: Some(old()),
            created: Some(old()),
            priority: Some(i32::from(state.priority)),
            ..Facts::default()
        },
        terminating: state.terminating,
        ends: None,
        finished: false,
        failed: None,
        unscheduled: None,
        point: match state.point {
            PodPausePoint::None => Point::None,
            PodPausePoint::Before => at(PausePoint::Before, None),
            PodPausePoint::After => at(PausePoint::After, None),
            PodPausePoint::BeforeTimed => at(PausePoint::Before, Some(MINUTE)),
            PodPausePoint::AfterTimed => at(PausePoint::After, Some(MINUTE)),
        },
    }
}

/// Whether two statuses differ only in what no decision reads: what [`remove_unread`] removes.
fn is_read_alike(one: &OrderedDeploymentStatus, other: &OrderedDeploymentStatus) -> bool {
    // Destructured, so that a new field does not compile without being compared.
    let OrderedDeploymentStatus {
        observed_generation,
        replicas,
        updated_replicas,
        ready_replicas,
        available_replicas,
        unavailable_replicas,
        terminating_replicas,
        collision_count,
        selector,
        conditions,
        rollout,
        hold,
        blocked,
        passed,
        resume_requested,
        pause,
    } = one;
    let counts = [
        (replicas, other.replicas),
        (updated_replicas, other.updated_replicas),
        (ready_replicas, other.ready_replicas),
        (available_replicas, other.available_replicas),
        (unavailable_replicas, other.unavailable_replicas),
        (terminating_replicas, other.terminating_replicas),
        (collision_count, other.collision_count),
    ];
    let read = |condition: &Condition| {
        let is_progress = condition.type_ == condition::PROGRESSING;
        is_progress.then(|| condition.last_update_time.clone())
    };
    let conditions_alike = |one: &Condition, other: &Condition| {
        (&one.type_, one.status, &one.reason, read(one))
            == (&other.type_, other.status, &other.reason, read(other))
    };
    counts.into_iter().all(|(one, other)| *one == other)
        && (observed_generation, rollout, hold, blocked, pause)
            == (&other.observed_generation, &other.rollout, &other.hold, &other.blocked, &other.pause)
        && (selector, resume_requested) == (&other.selector, &other.resume_requested)
        && passed.is_some() == other.passed.is_some()
        && passed.iter().flatten().map(|one| &one.pod_uid).eq(other
            .passed
            .iter()
            .flatten()
            .map(|one| &one.pod_uid))
        && match (conditions, &other.conditions) {
            (Some(one), Some(other)) => {
                one.len() == other.len()
                    && one.iter().zip(other).all(|(one, other)| conditions_alike(one, other))
            }
            (one, other) => one.is_none() && other.is_none(),
        }
}

/// The canonical form of a status as bytes, without making it: what [`remove_unread`] and [`rename`] leave.
fn encoded(status: &OrderedDeploymentStatus, names: &Names) -> Vec<u8> {
    // Destructured, so that a new field does not compile without being encoded.
    let OrderedDeploymentStatus {
        observed_generation,
        replicas,
        updated_replicas,
        ready_replicas,
        available_replicas,
        unavailable_replicas,
        terminating_replicas,
        collision_count,
        selector,
        conditions,
        rollout,
        hold,
        blocked,
        passed,
        resume_requested,
        pause,
    } = status;
    let mut bytes = Bytes { bytes: Vec::with_capacity(512), names };
    bytes.number(*observed_generation);
    for count in [
        replicas,
        updated_replicas,
        ready_replicas,
        available_replicas,
        unavailable_replicas,
        terminating_replicas,
        collision_count,
    ] {
        bytes.number(*count);
    }
    bytes.text(selector.as_deref());
    bytes.number(conditions.as_ref().map(|conditions| length(conditions.len())));
    for condition in conditions.iter().flatten() {
        bytes.text(Some(&condition.type_));
        bytes.bytes.push(condition.status as u8);
        bytes.text(Some(&condition.reason));
        let read = condition.type_ == condition::PROGRESSING;
        bytes.number(read.then(|| condition.last_update_time.0.as_second()));
    }
    bytes.number(rollout.as_ref().map(|rollout| rollout.revision));
    if let Some(Rollout { revision: _, template_hash, replicas, scaled_from }) = rollout {
        bytes.text(Some(template_hash));
        bytes.number(Some(*replicas));
        bytes.sizes(scaled_from.as_ref());
    }
    bytes.number(hold.as_ref().map(|hold| hold.revision));
    if let Some(hold) = hold {
        let Hold { id, pod, pod_uid, node, point, revision: _, since, until, deleted, replicas, sizes } =
            hold;
        bytes.pod(Some(id));
        bytes.pod(Some(pod));
        bytes.pod(Some(pod_uid));
        bytes.text(node.as_deref());
        bytes.bytes.push(*point as u8);
        bytes.number(Some(since.0.as_second()));
        bytes.number(until.as_ref().map(|until| until.0.as_second()));
        bytes.number(deleted.map(i32::from));
        bytes.number(Some(*replicas));
        bytes.sizes(Some(sizes));
    }
    bytes.number(blocked.as_ref().map(|blocked| blocked.since.0.as_second()));
    bytes.pod(blocked.as_ref().map(|blocked| blocked.id.as_str()));
    let mut passed: Vec<&str> = passed.iter().flatten().map(|passed| passed.pod_uid.as_str()).collect();
    passed.retain(|uid| id_of(uid).is_none_or(|id| names.get(id).is_some()));
    passed.sort_unstable();
    passed.dedup();
    bytes.number(Some(length(passed.len())));
    passed.into_iter().for_each(|uid| bytes.pod(Some(uid)));
    bytes.pod(resume_requested.as_deref());
    bytes.number(pause.as_ref().map(|pause| pause.replicas));
    bytes.sizes(pause.as_ref().map(|pause| &pause.sizes));
    bytes.bytes
}

fn length(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// A status in the making of its bytes.
struct Bytes<'n> {
    bytes: Vec<u8>,
    names: &'n Names,
}

impl Bytes<'_> {
    fn number(&mut self, number: Option<impl Into<i64>>) {
        self.bytes.push(u8::from(number.is_some()));
        if let Some(number) = number {
            self.bytes.extend(number.into().to_le_bytes());
        }
    }

    fn text(&mut self, text: Option<&str>) {
        self.number(text.map(|text| length(text.len())));
        self.bytes.extend(text.unwrap_or_default().as_bytes());
    }

    /// A text that may name a pod.
    fn pod(&mut self, text: Option<&str>) {
        match text.and_then(|text| renamed(text, self.names)) {
            Some((renamed, _)) => self.text(Some(&renamed)),
            None => self.text(text),
        }
    }

    fn sizes(&mut self, sizes: Option<&BTreeMap<String, i32>>) {
        self.number(sizes.map(|sizes| length(sizes.len())));
        for (hash, size) in sizes.into_iter().flatten() {
            self.text(Some(hash));
            self.number(Some(*size));
        }
    }
}

/// Removes what no decision reads: messages, and times that do not matter.
fn remove_unread(status: &mut OrderedDeploymentStatus) {
    for condition in status.conditions.iter_mut().flatten() {
        condition.message.clear();
        condition.last_transition_time = old().into();
        if condition.type_ != condition::PROGRESSING {
            condition.last_update_time = old().into();
        }
    }
    for passed in status.passed.iter_mut().flatten() {
        passed.resumed_at = old().into();
    }
}

/// Renames pods. Deleted pods get one common name, and their passed points are removed. Returns the new numbers of the pods that are
/// named.
fn rename(status: &mut OrderedDeploymentStatus, names: &Names) -> Vec<u16> {
    if let Some(passed) = &mut status.passed {
        passed.retain(|one| id_of(&one.pod_uid).is_none_or(|id| names.get(id).is_some()));
        passed.sort_by(|one, other| one.pod_uid.cmp(&other.pod_uid));
        passed.dedup();
    }
    status.passed = status.passed.take().filter(|passed| !passed.is_empty());
    let mut named = Vec::new();
    let hold = status.hold.iter_mut().flat_map(|hold| [&mut hold.id, &mut hold.pod, &mut hold.pod_uid]);
    let passed = status.passed.iter_mut().flatten().map(|passed| &mut passed.pod_uid);
    let blocked = status.blocked.iter_mut().map(|blocked| &mut blocked.id);
    for text in hold.chain(passed).chain(blocked).chain(&mut status.resume_requested) {
        named.extend(rename_in(text, names));
    }
    named
}

/// Renames the pod that this text names. Returns its new number.
fn rename_in(text: &mut String, names: &Names) -> Option<u16> {
    let (renamed, new) = renamed(text, names)?;
    *text = renamed;
    new
}

/// The text with the pod that it names renamed, and the pod's new number.
fn renamed(text: &str, names: &Names) -> Option<(String, Option<u16>)> {
    let prefix = ["uid-", "pod-"].into_iter().find(|prefix| text.starts_with(prefix))?;
    let rest = text.get(prefix.len()..)?;
    let (number, rest) = rest.split_at_checked(4).unwrap_or((rest, ""));
    let new = number.parse().ok().and_then(|id| names.get(id));
    let renamed = match new {
        Some(new) => format!("{prefix}{new:04}{rest}"),
        None => format!("{prefix}gone{rest}"),
    };
    Some((renamed, new))
}

/// A hash of 128 bits, which identifies a state.
fn fingerprint(bytes: &[u8]) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(salt);
        hasher.write(bytes);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}
