//! Statuses in their canonical form, in which pods are named by their places, and without what no decision reads.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use ordereddeployment_api::names::condition;
use ordereddeployment_api::{Hold, OrderedDeploymentStatus, Rollout};
use ordereddeployment_planner::Pod;
use rustc_hash::FxHashMap;

use crate::case::Setup;
use crate::pods::{PodState, id_of, old, pod};

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
    /// The pods keep their numbers.
    pub fn same(pods: &[PodState]) -> Self {
        Self(pods.iter().map(|pod| (pod.id, pod.id)).collect())
    }

    /// The pods are named by their places.
    pub fn by_place(pods: &[PodState]) -> Self {
        Self(pods.iter().map(|pod| pod.id).zip(0..).collect())
    }

    /// Whether every pod keeps its number.
    pub fn is_same(&self) -> bool {
        self.0.iter().all(|(old, new)| old == new)
    }

    /// The new number of a pod, if it exists.
    pub fn get(&self, old: u16) -> Option<u16> {
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
    /// The pod as the planner observes it.
    pub fn pod(&mut self, state: &PodState, setup: &Setup) -> Arc<Pod> {
        Arc::clone(self.pods.entry(*state).or_insert_with(|| Arc::new(pod(state, setup))))
    }

    /// A stored status, with its pods renamed.
    pub fn renamed(&mut self, stored: &Arc<StoredStatus>, names: &Names) -> Arc<StoredStatus> {
        if stored.mentioned.iter().any(|id| names.renames(*id)) {
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
            let mentioned = rename(&mut status, names);
            Arc::new(StoredStatus { status, key, mentioned })
        });
        Arc::clone(stored)
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
        passed_points,
        abort_requested,
        retry_requested,
        aborted,
        pause,
        // No decision reads it.
        history: _,
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
    bytes.rollout(rollout.as_ref());
    bytes.hold(hold.as_ref());
    bytes.number(blocked.as_ref().map(|blocked| blocked.since.0.as_second()));
    bytes.pod(blocked.as_ref().map(|blocked| blocked.id.as_str()));
    let mut passed: Vec<&str> = passed.iter().flatten().map(|passed| passed.pod_uid.as_str()).collect();
    passed.retain(|uid| id_of(uid).is_none_or(|id| names.get(id).is_some()));
    passed.sort_unstable();
    passed.dedup();
    bytes.number(Some(length(passed.len())));
    for uid in passed {
        bytes.pod(Some(uid));
    }
    bytes.pod(resume_requested.as_deref());
    let points = passed_points.iter().flatten();
    let mut points: Vec<_> = points.map(|passed| (passed.name.as_str(), passed.group.as_deref())).collect();
    points.sort_unstable();
    points.dedup();
    bytes.number(Some(length(points.len())));
    for point in points {
        bytes.point(Some(point));
    }
    bytes.number(*abort_requested);
    bytes.number(*retry_requested);
    bytes.number(aborted.as_ref().map(|aborted| aborted.revision));
    bytes.number(aborted.as_ref().map(|aborted| aborted.to));
    bytes.text(aborted.as_ref().map(|aborted| aborted.template_hash.as_str()));
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

    fn rollout(&mut self, rollout: Option<&Rollout>) {
        self.number(rollout.map(|rollout| rollout.revision));
        if let Some(rollout) = rollout {
            let Rollout { revision: _, template_hash, replicas, scaled_from, from, suspended, completed } =
                rollout;
            self.text(Some(template_hash));
            self.number(Some(*replicas));
            self.sizes(scaled_from.as_ref());
            self.number(from.as_ref().map(|from| from.revision));
            self.text(from.as_ref().map(|from| from.template_hash.as_str()));
            self.number(suspended.as_ref().map(|suspended| suspended.replicas));
            self.sizes(suspended.as_ref().map(|suspended| &suspended.sizes));
            self.bytes.push(u8::from(*completed));
        }
    }

    fn hold(&mut self, hold: Option<&Hold>) {
        self.number(hold.map(|hold| hold.revision));
        if let Some(hold) = hold {
            let Hold {
                id,
                pod,
                pod_uid,
                node,
                point,
                declared,
                revision: _,
                since,
                until,
                deleted,
                replicas,
                sizes,
            } = hold;
            self.point(declared.as_ref().map(|point| (point.name.as_str(), point.group.as_deref())));
            let updated = declared.as_ref().and_then(|point| point.after_updated.as_ref());
            self.text(updated.map(|updated| format!("{updated:?}")).as_deref());
            self.pod(Some(id));
            self.pod(Some(pod));
            self.pod(Some(pod_uid));
            self.text(node.as_deref());
            self.bytes.push(*point as u8);
            self.number(Some(since.0.as_second()));
            self.number(until.as_ref().map(|until| until.0.as_second()));
            self.number(deleted.map(i32::from));
            self.number(Some(*replicas));
            self.sizes(Some(sizes));
        }
    }

    /// A declared point and its group of nodes.
    fn point(&mut self, point: Option<(&str, Option<&str>)>) {
        self.text(point.map(|(name, _)| name));
        self.text(point.and_then(|(_, group)| group));
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
    if let Some(points) = &mut status.passed_points {
        for passed in points.iter_mut() {
            passed.resumed_at = old().into();
        }
        points.sort_by(|one, other| (&one.name, &one.group).cmp(&(&other.name, &other.group)));
        points.dedup();
    }
    if let Some(aborted) = &mut status.aborted {
        aborted.at = old().into();
        aborted.reason.clear();
    }
    status.history = None;
}

/// Renames pods. Deleted pods get one common name, and their passed points are removed. Returns the new numbers of the pods that are
/// mentioned.
fn rename(status: &mut OrderedDeploymentStatus, names: &Names) -> Vec<u16> {
    if let Some(passed) = &mut status.passed {
        passed.retain(|one| id_of(&one.pod_uid).is_none_or(|id| names.get(id).is_some()));
        passed.sort_by(|one, other| one.pod_uid.cmp(&other.pod_uid));
        passed.dedup();
    }
    status.passed = status.passed.take().filter(|passed| !passed.is_empty());
    let mut mentioned = Vec::new();
    let hold = status.hold.iter_mut().flat_map(|hold| [&mut hold.id, &mut hold.pod, &mut hold.pod_uid]);
    let passed = status.passed.iter_mut().flatten().map(|passed| &mut passed.pod_uid);
    let blocked = status.blocked.iter_mut().map(|blocked| &mut blocked.id);
    for text in hold.chain(passed).chain(blocked).chain(&mut status.resume_requested) {
        mentioned.extend(rename_in(text, names));
    }
    mentioned
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

/// A hash of 128 bits, which identifies a state or a status.
pub fn fingerprint(bytes: &[u8]) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(salt);
        hasher.write(bytes);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}
