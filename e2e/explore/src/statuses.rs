//! Statuses in their canonical form, in which pods are named by their places, and without what no decision
//! reads.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use anyhow::Result;
use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_api::names::condition;
use ordereddeployment_planner::Pod;
use rustc_hash::FxHashMap;

use crate::pods::{PodState, old};

/// The first number of a pod that is gone, and whose pause point is ahead.
const GONE: u16 = 900;

/// A status in its canonical form.
#[derive(Debug)]
pub struct StoredStatus {
    pub status: OrderedDeploymentStatus,
    pub key: u128,
    /// The numbers of the pods that it names.
    mentioned: Vec<u16>,
}

/// The old and new numbers of pods.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Names(Vec<(u16, u16)>);

impl Names {
    /// The pods keep their numbers, and those that are gone and have a point ahead.
    pub fn by_id(pods: &[PodState], status: &OrderedDeploymentStatus) -> Self {
        let names = Self::by_place(pods, status);
        Self(names.0.into_iter().map(|(id, _)| (id, id)).collect())
    }

    /// The pods are named by their places, and those that are gone and have a point ahead by the place of
    /// that.
    pub fn by_place(pods: &[PodState], status: &OrderedDeploymentStatus) -> Self {
        let mut names: Vec<(u16, u16)> = pods.iter().map(|pod| pod.id).zip(0..).collect();
        let points = status.rollout.iter().flat_map(|rollout| rollout.points.iter().flatten());
        let ids = points.filter_map(|point| number(&point.id));
        let gone: Vec<u16> = ids.filter(|id| names.iter().all(|(known, _)| known != id)).collect();
        names.extend(gone.into_iter().zip(GONE..));
        Self(names)
    }

    /// Whether every pod keeps its number.
    pub fn is_same(&self) -> bool {
        self.0.iter().all(|(old, new)| old == new)
    }

    /// The new number of a pod, if it exists or has a point ahead.
    pub fn get(&self, old: u16) -> Option<u16> {
        self.0.iter().find(|(other, _)| *other == old).map(|(_, new)| *new)
    }

    /// The text with the pod that it names renamed; `None` if that pod is gone.
    pub fn renamed(&self, text: &str) -> Option<String> {
        let Some(id) = number(text) else { return Some(text.to_owned()) };
        let (prefix, rest) = text.split_at(4);
        Some(format!("{prefix}{:04}{}", self.get(id)?, rest.get(4..).unwrap_or_default()))
    }
}

/// The number of the pod that this text names.
fn number(text: &str) -> Option<u16> {
    let rest = text.strip_prefix("uid-").or_else(|| text.strip_prefix("pod-"))?;
    rest.get(..4)?.parse().ok()
}

/// Every status found so far, each stored once.
#[derive(Default)]
pub struct Statuses {
    stored: RefCell<FxHashMap<u128, Arc<StoredStatus>>>,
    /// The pods of snapshots.
    pods: RefCell<FxHashMap<PodState, Arc<Pod>>>,
}

impl Statuses {
    /// The pod as the planner observes it, made once.
    pub fn pod(&self, state: &PodState, make: impl FnOnce() -> Pod) -> Arc<Pod> {
        let mut pods = self.pods.borrow_mut();
        Arc::clone(pods.entry(*state).or_insert_with(|| Arc::new(make())))
    }

    /// A stored status, with its pods renamed.
    pub fn renamed(&self, stored: &Arc<StoredStatus>, names: &Names) -> Result<Arc<StoredStatus>> {
        let is_renamed = |id: &u16| names.get(*id) != Some(*id);
        if stored.mentioned.iter().any(is_renamed) {
            self.canonical(&stored.status, names)
        } else {
            Ok(Arc::clone(stored))
        }
    }

    /// The canonical form of a status, with its pods renamed.
    pub fn canonical(&self, status: &OrderedDeploymentStatus, names: &Names) -> Result<Arc<StoredStatus>> {
        let mut status = status.clone();
        remove_unread(&mut status);
        let mentioned = rename(&mut status, names);
        let key = fingerprint(&serde_json::to_vec(&status)?);
        let mut stored = self.stored.borrow_mut();
        let stored = stored.entry(key).or_insert_with(|| Arc::new(StoredStatus { status, key, mentioned }));
        Ok(Arc::clone(stored))
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
    if let Some(aborted) = &mut status.aborted {
        aborted.at = old().into();
        aborted.reason.clear();
    }
    status.history = None;
}

/// Renames pods. Points of pods that are gone are dropped where they are passed. Returns the new numbers of
/// the pods that are mentioned.
fn rename(status: &mut OrderedDeploymentStatus, names: &Names) -> Vec<u16> {
    if let Some(passed) = &mut status.passed {
        passed.retain(|one| names.renamed(&one.id).is_some());
        passed.sort_by(|one, other| one.id.cmp(&other.id));
    }
    status.passed = status.passed.take().filter(|passed| !passed.is_empty());
    let mut mentioned = Vec::new();
    let hold = status.hold.iter_mut().flat_map(|hold| [&mut hold.id, &mut hold.pod, &mut hold.pod_uid]);
    let passed = status.passed.iter_mut().flatten().flat_map(|one| [&mut one.id, &mut one.pod_uid]);
    let points = status.rollout.iter_mut().flat_map(|rollout| rollout.points.iter_mut().flatten());
    let points = points.map(|point| &mut point.id);
    let blocked = status.blocked.iter_mut().map(|blocked| &mut blocked.id);
    for text in hold.chain(passed).chain(points).chain(blocked).chain(&mut status.resume_requested) {
        match names.renamed(text) {
            Some(renamed) => *text = renamed,
            None => text.replace_range(4..8, "gone"),
        }
        mentioned.extend(number(text));
    }
    mentioned
}

/// A hash of 128 bits, which identifies a state or a status.
pub fn fingerprint(of: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, of).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}
