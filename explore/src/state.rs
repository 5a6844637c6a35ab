//! A state: everything that a decision reads, in a canonical form, so that states that differ in nothing else are one state.
//!
//! Pods are named by their place: larger priorities come first, then UIDs in ascending order. Of times only their effect is kept: a
//! timer runs or has expired. All pods have the same age. Within one priority, pods that are equally ready are ordered by UID, and a
//! new pod is last.

use std::collections::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;
use ordereddeployment_api::{OrderedDeploymentStatus, PausePoint};
use ordereddeployment_planner::{ComparisonResult, Failure, Pod, Point, Set};
use ordereddeployment_preview::SimulatedCluster;
use ordereddeployment_sorter::{Facts, Phase};
use serde_json::Value;

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
}

/// The old and new numbers of pods.
type Names = Vec<(u16, u16)>;

/// Every status found so far, each stored once.
#[derive(Default)]
pub struct Statuses {
    stored: HashMap<u128, Arc<StoredStatus>>,
    /// By status and new names of pods: the result, since most states rename their pods in the same few ways.
    renamed: HashMap<(u128, Names), Arc<StoredStatus>>,
}

impl Statuses {
    /// A stored status, with its pods renamed.
    fn renamed(&mut self, stored: &StoredStatus, names: &BTreeMap<u16, u16>) -> Result<Arc<StoredStatus>> {
        let key = (stored.key, names.iter().map(|(old, new)| (*old, *new)).collect::<Names>());
        if let Some(found) = self.renamed.get(&key) {
            return Ok(Arc::clone(found));
        }
        let found = self.canonical(&stored.status, names)?;
        self.renamed.insert(key, Arc::clone(&found));
        Ok(found)
    }

    /// The canonical form of a status, with its pods renamed.
    pub fn canonical(
        &mut self,
        status: &OrderedDeploymentStatus,
        names: &BTreeMap<u16, u16>,
    ) -> Result<Arc<StoredStatus>> {
        let mut value = serde_json::to_value(status).context("cannot write a status")?;
        remove_unread(&mut value);
        rename(&mut value, names);
        let key = fingerprint(&value.to_string());
        if let Some(found) = self.stored.get(&key) {
            return Ok(Arc::clone(found));
        }
        let status = serde_json::from_value(value).context("cannot read a status")?;
        let stored = Arc::new(StoredStatus { status, key });
        self.stored.insert(key, Arc::clone(&stored));
        Ok(stored)
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
    pub fn first(setup: &Setup, statuses: &mut Statuses) -> Result<Self> {
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
            status: statuses.canonical(&OrderedDeploymentStatus::default(), &BTreeMap::new())?,
            sets: sets.collect(),
            pods: pods.collect(),
            failure: None,
            refused_since: None,
            faults: 0,
        };
        state.canonical(statuses)
    }

    /// The same state with its pods named by their places.
    pub fn canonical(mut self, statuses: &mut Statuses) -> Result<Self> {
        self.pods.sort_by_key(|pod| (-pod.priority, pod.id));
        let names: BTreeMap<u16, u16> = self.pods.iter().map(|pod| pod.id).zip(0..).collect();
        let mut same = names.iter().all(|(old, new)| old == new);
        if let Some(hold) = &self.status.status.hold {
            same &= id_of(&hold.pod_uid).is_none_or(|id| names.contains_key(&id));
        }
        let gone = |uid: &str| id_of(uid).is_some_and(|id| !names.contains_key(&id));
        same &= !self.status.status.passed.iter().flatten().any(|passed| gone(&passed.pod_uid));
        if !same {
            self.status = statuses.renamed(&self.status, &names)?;
        }
        for (pod, place) in self.pods.iter_mut().zip(0..) {
            pod.id = place;
        }
        Ok(self)
    }

    /// The identity of the state.
    pub fn key(&self) -> u128 {
        let failure = self.failure.as_ref().map(|failure| format!("{failure:?}"));
        fingerprint(&(
            (self.replicas, self.template, self.paused, self.faults),
            self.status.key,
            &self.sets,
            &self.pods,
            (failure, self.refused_since),
        ))
    }

    /// The world that the planner observes.
    pub fn world(&self, setup: &Setup) -> SimulatedCluster {
        let mut deployment = setup.deployment.clone();
        deployment.spec.replicas = self.replicas;
        deployment.spec.paused = self.paused;
        if self.template != setup.case.template {
            deployment.spec.template = setup.templates[usize::from(self.template)].0.clone();
        }
        deployment.status = Some(self.status.status.clone());
        let sets = self.sets.iter().map(|set| {
            let (_, template, hash) = &setup.templates[usize::from(set.template)];
            Set {
                name: format!("web-{hash}"),
                uid: set_uid(set.template),
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
        SimulatedCluster {
            deployment,
            sets: sets.collect(),
            pods: self.pods.iter().map(pod).collect(),
            nodes: BTreeMap::new(),
            now: now(),
            failure: self.failure.clone(),
            refused_since: self.refused_since,
            known_points: BTreeMap::new(),
            taken_names: BTreeSet::new(),
            sources: BTreeMap::new(),
            // The templates are different for the API server, too.
            comparison: ComparisonResult::New,
            count: 5000,
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
        let status = world.deployment.status.clone().unwrap_or_default();
        if status != self.status.status {
            // Pods keep their names until the next canonical form.
            let names: BTreeMap<u16, u16> = state.pods.iter().map(|pod| (pod.id, pod.id)).collect();
            state.status = statuses.canonical(&status, &names)?;
        }
        Ok(state)
    }
}

pub fn set_uid(template: u8) -> Arc<str> {
    format!("set-t{template}").into()
}

pub fn uid(id: u16) -> String {
    format!("uid-{id:04}")
}

/// The number in a UID.
pub fn id_of(uid: &str) -> Option<u16> {
    uid.strip_prefix("uid-")?.parse().ok()
}

fn pod(state: &PodState) -> Pod {
    let at = |side, duration| Point::At { side, duration: Ok(duration) };
    Pod {
        name: format!("pod-{:04}", state.id),
        set: set_uid(state.template),
        resource_version: "1".to_owned(),
        facts: Facts {
            uid: uid(state.id).into(),
            node: Some("n".into()),
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

/// Removes what no decision reads: messages, and times that do not matter.
fn remove_unread(status: &mut Value) {
    let old = Value::from(old().to_string());
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition["message"] = "".into();
        condition["lastTransitionTime"] = old.clone();
        if condition["type"] != "Progressing" {
            condition["lastUpdateTime"] = old.clone();
        }
    }
    for passed in status["passed"].as_array_mut().into_iter().flatten() {
        passed["resumedAt"] = old.clone();
    }
}

/// Renames pods. Deleted pods get one common name, and their passed points are removed.
fn rename(value: &mut Value, names: &BTreeMap<u16, u16>) {
    if let Some(passed) = value.get_mut("passed").and_then(Value::as_array_mut) {
        let is_there = |uid: &str| id_of(uid).is_none_or(|id| names.contains_key(&id));
        passed.retain(|one| one["podUID"].as_str().is_some_and(is_there));
        passed.sort_by_key(|one| one["podUID"].as_str().map(str::to_owned));
        passed.dedup();
        if passed.is_empty() {
            value.as_object_mut().map(|status| status.remove("passed"));
        }
    }
    rename_all(value, names);
}

fn rename_all(value: &mut Value, names: &BTreeMap<u16, u16>) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|one| rename_all(one, names)),
        Value::Object(all) => all.values_mut().for_each(|one| rename_all(one, names)),
        Value::String(text) => {
            for prefix in ["uid-", "pod-"] {
                let Some(rest) = text.strip_prefix(prefix) else { continue };
                let (number, rest) = rest.split_at_checked(4).unwrap_or((rest, ""));
                let new = number.parse().ok().and_then(|id: u16| names.get(&id));
                let renamed = match new {
                    Some(new) => format!("{prefix}{new:04}{rest}"),
                    None => format!("{prefix}gone{rest}"),
                };
                *text = renamed;
                return;
            }
        }
        _ => {}
    }
}

/// A hash of 128 bits, which identifies a state.
fn fingerprint(value: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        value.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}
