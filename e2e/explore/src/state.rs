//! A state: everything that a decision reads, in a canonical form, so that states that differ in nothing else
//! are one state.
//!
//! Pods are named by their place: larger priorities come first, then UIDs in ascending order. Of times only
//! their effect is kept: a timer runs or has expired. All pods have the same age. Within one priority, pods
//! that are equally ready are ordered by UID, and a new pod is last.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;
use ordereddeployment_api::{ConditionStatus, OrderedDeployment, OrderedDeploymentStatus, Rollout, Scaling};
use ordereddeployment_oracle::History;
use ordereddeployment_planner::{Failure, Set, Snapshot};
use ordereddeployment_preview::SimulatedCluster;

use crate::case::PodPausePoint;
use crate::pods::{PodState, id_of, now, old};
use crate::setup::Setup;
use crate::statuses::{Names, StoredStatus, fingerprint};

/// A set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetState {
    pub template: u8,
    pub revision: i64,
    pub replicas: i32,
    pub served: Option<i64>,
}

/// The status at the start: nothing, or what a complete rollout to the first template leaves.
fn first_status(setup: &Setup) -> OrderedDeploymentStatus {
    let rollout = setup.case.aborts.then(|| Rollout {
        revision: 1,
        template_hash: setup.templates[0].2.clone(),
        replicas: setup.case.replicas,
        points: Some(Vec::new()),
        node_groups: None,
        from: None,
        scaling: Some(Scaling { reached: setup.case.replicas, to: None }),
        pause: None,
        scaled_from: None,
        completed: true,
    });
    OrderedDeploymentStatus { rollout, ..OrderedDeploymentStatus::default() }
}

/// A state of a cluster.
#[derive(Clone, Debug)]
pub struct State {
    pub replicas: i32,
    pub template: u8,
    pub paused: bool,
    /// Whether a user has removed the declared pause points.
    pub without_points: bool,
    pub status: Arc<StoredStatus>,
    pub sets: Vec<SetState>,
    pub pods: Vec<PodState>,
    pub failure: Option<Failure>,
    /// Since when creates are refused.
    pub refused_since: Option<Timestamp>,
    /// The number of faults so far.
    pub faults: u8,
    /// What somebody outside knows of the rollout.
    pub history: Arc<History>,
}

impl State {
    /// The initial state of a cluster.
    pub fn first(setup: &Setup) -> Result<Self> {
        let case = &setup.case;
        let templates: BTreeSet<u8> = case.pods.iter().map(|pod| pod.template).collect();
        let sets = templates.into_iter().map(|template| SetState {
            template,
            revision: i64::from(template) + 1,
            replicas: i32::try_from(case.pods.iter().filter(|pod| pod.template == template).count())
                .unwrap_or(0),
            served: Some(i64::from(template == 0 && case.aborts)),
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
        let mut state = Self {
            replicas: case.replicas,
            template: case.template,
            paused: false,
            without_points: false,
            status: setup.statuses.canonical(&first_status(setup), &Names::default())?,
            sets: sets.collect(),
            pods: pods.collect(),
            failure: None,
            refused_since: None,
            faults: 0,
            history: Arc::default(),
        };
        if let Some(set) = state.sets(setup).first().filter(|_| case.aborts) {
            state.history = Arc::new(History::served(set, case.replicas));
        }
        state.canonical(setup)
    }

    /// The same state with its pods named by their places.
    pub fn canonical(mut self, setup: &Setup) -> Result<Self> {
        self.pods.sort_by_key(|pod| (-pod.priority, pod.id));
        let names = Names::by_place(&self.pods, &self.status.status);
        self.status = setup.statuses.renamed(&self.status, &names)?;
        if !names.is_same() || self.history.names().any(|name| names.renamed(name).is_none()) {
            Arc::make_mut(&mut self.history).rename(|name| names.renamed(name));
        }
        for (pod, place) in self.pods.iter_mut().zip(0..) {
            pod.id = place;
        }
        Ok(self)
    }

    /// The identity of the state.
    pub fn key(&self) -> u128 {
        let mut history = DefaultHasher::new();
        self.history.hash(&mut history);
        let failure = self.failure.as_ref().map(|failure| format!("{failure:?}"));
        let spec = (self.replicas, self.template, self.paused, self.without_points);
        let creates = (failure, self.refused_since);
        fingerprint(&(self.status.key, spec, &self.sets, &self.pods, creates, self.faults, history.finish()))
    }

    /// What a decision in this state is made on.
    pub fn snapshot(&self, setup: &Setup) -> Snapshot {
        let pods = self.pods.iter().map(|state| setup.statuses.pod(state, || setup.pod(state))).collect();
        Snapshot { pods, ..self.without_pods(setup).observed() }
    }

    /// The cluster in this state.
    pub fn cluster(&self, setup: &Setup) -> SimulatedCluster {
        let pods = self.pods.iter().map(|state| setup.pod(state)).collect();
        SimulatedCluster { pods, ..self.without_pods(setup) }
    }

    fn without_pods(&self, setup: &Setup) -> SimulatedCluster {
        SimulatedCluster {
            sets: self.sets(setup),
            failure: self.failure.clone(),
            refused_since: self.refused_since,
            count: 5000,
            ..SimulatedCluster::new(self.deployment(setup), now())
        }
    }

    fn deployment(&self, setup: &Setup) -> OrderedDeployment {
        let mut deployment = setup.deployment.clone();
        deployment.spec.replicas = self.replicas;
        deployment.spec.paused = self.paused;
        if self.without_points {
            deployment.spec.strategy.pause_points = None;
        }
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
                served: set.served,
                desired_replicas: None,
                terminating: false,
            }
        });
        sets.collect()
    }

    /// The state with another stored status. Its pods keep their names.
    pub fn with_status(mut self, status: &OrderedDeploymentStatus, setup: &Setup) -> Result<Self> {
        if *status != self.status.status {
            let names = Names::by_id(&self.pods, status);
            self.status = setup.statuses.canonical(status, &names)?;
        }
        Ok(self)
    }

    /// The state of a cluster after this state. Its pods keep their names.
    pub fn after(&self, cluster: &SimulatedCluster, setup: &Setup) -> Result<Self> {
        let mut state = self.clone();
        state.failure.clone_from(&cluster.failure);
        state.refused_since = cluster.refused_since;
        let template_of = |hash: &str| {
            let place = setup.templates.iter().position(|(.., one)| one == hash);
            place.and_then(|place| u8::try_from(place).ok()).context("a set has an unknown template")
        };
        state.sets.clear();
        let mut by_uid = BTreeMap::new();
        for set in &cluster.sets {
            let template = template_of(&set.hash)?;
            by_uid.insert(Arc::clone(&set.uid), template);
            state.sets.push(SetState {
                template,
                revision: set.revision,
                replicas: set.replicas,
                served: set.served,
            });
        }
        state.sets.sort_by_key(|set| set.template);
        state.pods.clear();
        for pod in &cluster.pods {
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
        match &cluster.deployment.status {
            Some(status) => state.with_status(status, setup),
            None => Ok(state),
        }
    }
}

/// As a line of a trace.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "D = {}, to v{}{}:",
            self.replicas,
            self.template + 1,
            if self.paused { ", paused" } else { "" }
        )?;
        for pod in &self.pods {
            write!(f, " pod-{:04} (v{}, priority {}", pod.id, pod.template + 1, pod.priority)?;
            if pod.point != PodPausePoint::None {
                write!(f, ", {:?}", pod.point)?;
            }
            let is = match (pod.terminating, pod.ready, pod.started) {
                (true, ..) => "terminating",
                (_, true, _) => "ready",
                (_, _, true) => "unready",
                _ => "pending",
            };
            write!(f, ", {is});")?;
        }
        let status = &self.status.status;
        if let Some(hold) = &status.hold {
            let timed = if hold.until.is_some() { ", timed" } else { "" };
            write!(f, " hold {}{timed};", hold.id)?;
        }
        let points = status.rollout.iter().flat_map(|rollout| rollout.points.iter().flatten());
        for point in points {
            match point.share {
                Some(share) => write!(f, " ahead {} ({} of {});", point.id, share.limit, share.replicas)?,
                None => write!(f, " ahead {};", point.id)?,
            }
        }
        let passed: Vec<&str> = status.passed.iter().flatten().map(|one| one.id.as_str()).collect();
        if !passed.is_empty() {
            write!(f, " passed {};", passed.join(", "))?;
        }
        if let Some(aborted) = &status.aborted {
            write!(f, " aborted to revision {};", aborted.to)?;
        }
        if let Some(requested) = &status.resume_requested {
            write!(f, " resume requested: {requested};")?;
        }
        for condition in status.conditions.iter().flatten() {
            let is_true = condition.status == ConditionStatus::True;
            if is_true && ["Complete", "Stalled"].contains(&condition.type_.as_str()) {
                write!(f, " {} ({});", condition.type_, condition.reason)?;
            }
        }
        if let Some(failure) = &self.failure {
            write!(f, " the last create failed: {};", failure.message)?;
        }
        Ok(())
    }
}
