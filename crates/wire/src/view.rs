//! Pods, nodes and sets as the API server sends them, narrowed to what the order and the planner read.
//!
//! Decoding keeps these fields and drops all others (managed fields, containers, volumes), so that watching
//! many pods needs little memory. A field with an unexpected type counts as absent: one odd object must not
//! hide the others of its list. Annotations are parsed here, once.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use ordereddeployment_api::names::{GROUP, annotation, pause_point};
use ordereddeployment_api::{OrderedReplicaSet, PausePoint, parse_pause_duration};
use ordereddeployment_sorter::{Facts, NodeFacts, Phase, parse_int32};

use crate::family::Family;
use crate::objects::hash_of;
use ordereddeployment_planner::{Failed, Malformed, Pod, Point, Set};

mod decode;

/// A pod with the fields that this project reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    /// Its metadata, narrowed.
    pub metadata: ObjectMeta,
    node: Option<Arc<str>>,
    phase: Option<String>,
    ready: bool,
    ready_since: Option<Timestamp>,
    restarts: i32,
    sidecar_restarts: i32,
    failed: Option<Box<Failed>>,
    unscheduled: Option<Arc<str>>,
}

/// A malformed annotation, for a warning. One of a pod counts as absent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MalformedAnnotation {
    /// Its value is malformed.
    Value {
        /// Its key.
        key: &'static str,
        /// The first 64 characters of its value: an annotation may have up to 256 KiB.
        value: String,
    },
    /// Its key is in the group of this project, and unknown.
    Key(String),
    /// The declared pause points of a Deployment cannot be used: why.
    Points(String),
}

impl fmt::Display for MalformedAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { key, value } => {
                write!(f, "the value {value:?} of {key} is malformed and counts as absent")
            }
            Self::Points(why) => {
                write!(
                    f,
                    "the annotation {} cannot be used, and a rollout of the Deployment pauses: {why}",
                    annotation::PAUSE_POINTS
                )
            }
            Self::Key(key) => {
                write!(f, "the annotation {key} is unknown and has no effect")?;
                nearest(key).map_or(Ok(()), |known| write!(f, ": did you mean {known}?"))
            }
        }
    }
}

/// The known key that is most similar to this one, if it is similar enough.
fn nearest(key: &str) -> Option<&'static str> {
    let name = |key: &str| key.rsplit('/').next().unwrap_or_default().to_lowercase();
    let name_of_key = name(key);
    let similar = |known: &str| strsim::normalized_damerau_levenshtein(&name_of_key, &name(known));
    let known = annotation::OF_GROUP.into_iter().map(|known| (similar(known), known));
    let (similarity, known) = known.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (similarity >= SIMILAR).then_some(known)
}

/// Less similar keys are not suggested. 0 is nothing in common, 1 is equal.
const SIMILAR: f64 = 0.7;

/// At most so many unknown keys of one object are stored and reported.
const UNKNOWN: usize = 5;

/// The annotations of this project's group that it does not know, such as misspelt ones.
#[must_use]
pub fn unknown_annotations(metadata: &ObjectMeta) -> Vec<MalformedAnnotation> {
    let annotations = metadata.annotations.iter();
    let of_group = annotations
        .flat_map(|annotations| annotations.range::<str, _>((Bound::Included(GROUP), Bound::Unbounded)))
        .map(|(key, _)| key)
        .take_while(|key| key.starts_with(GROUP))
        .filter(|key| key[GROUP.len()..].starts_with('/'));
    let unknown = of_group.filter(|key| !annotation::OF_GROUP.contains(&key.as_str()));
    unknown.take(UNKNOWN).map(|key| MalformedAnnotation::Key(key.clone())).collect()
}

/// The parsed annotations of a pod.
struct Annotations {
    priority: Option<i32>,
    cost: Option<i32>,
    point: Point,
    malformed: Vec<MalformedAnnotation>,
}

/// How many characters of a malformed value are stored.
const SHOWN: usize = 64;

impl PodView {
    /// The node it is assigned to.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Its phase, as the API server gives it.
    #[must_use]
    pub fn phase(&self) -> &str {
        self.phase.as_deref().unwrap_or("Pending")
    }

    /// Whether it runs no more, and never will.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    /// What decisions read of the pod. If no OrderedReplicaSet is its controller, `set` is empty.
    #[must_use]
    pub fn pod(&self) -> Pod {
        self.read_in(Family::Ordered).0
    }

    /// What decisions read of the pod of a set of this family, and the annotations that count as absent
    /// because their values are malformed or their keys unknown.
    #[must_use]
    pub fn read_in(&self, family: Family) -> (Pod, Vec<MalformedAnnotation>) {
        let Annotations { priority, cost, point, malformed } = self.annotations();
        let facts = Facts {
            uid: self.metadata.uid.as_deref().unwrap_or_default().into(),
            node: self.node.clone(),
            phase: Phase::of(self.phase()),
            ready: self.ready,
            ready_since: self.ready_since,
            created: timestamp(self.metadata.creation_timestamp.as_ref()),
            restarts: self.restarts,
            sidecar_restarts: self.sidecar_restarts,
            priority,
            cost,
        };
        let pod = Pod {
            name: self.metadata.name.clone().unwrap_or_default(),
            set: family.set_of(&self.metadata).map(|set| set.uid.as_str()).unwrap_or_default().into(),
            resource_version: self.metadata.resource_version.clone().unwrap_or_default(),
            facts,
            terminating: self.metadata.deletion_timestamp.is_some(),
            ends: timestamp(self.metadata.deletion_timestamp.as_ref()),
            finished: self.has_ended(),
            failed: self.failed.clone(),
            unscheduled: self.unscheduled.clone(),
            point,
        };
        (pod, malformed)
    }

    /// Its annotations, each parsed once.
    fn annotations(&self) -> Annotations {
        // Without allocation if all are known.
        let mut malformed = unknown_annotations(&self.metadata);
        let mut number = |key: &'static str| self.parsed(key, parse_int32, &mut malformed)?.ok();
        let priority = number(annotation::DELETE_PRIORITY);
        let alias = number(annotation::DELETE_PRIORITY_ALIAS);
        let cost = number(annotation::POD_DELETION_COST);
        let side = self.parsed(annotation::PAUSE_POINT, side, &mut malformed);
        let duration = self.parsed(annotation::PAUSE_DURATION, parse_pause_duration, &mut malformed);
        let point = match side {
            None => Point::None,
            Some(Err(Malformed)) => Point::Malformed,
            Some(Ok(side)) => Point::At { side, duration: duration.transpose() },
        };
        Annotations { priority: priority.or(alias), cost, point, malformed }
    }

    /// The value of an annotation, if it exists. A malformed one is recorded.
    fn parsed<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
        malformed: &mut Vec<MalformedAnnotation>,
    ) -> Option<Result<T, Malformed>> {
        let text = self.annotation(key)?;
        let value = parse(text);
        if value.is_none() {
            malformed.push(MalformedAnnotation::Value { key, value: text.chars().take(SHOWN).collect() });
        }
        Some(value.ok_or(Malformed))
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

crate::served_as!(PodView, k8s_openapi::api::core::v1::Pod, metadata);

/// A node with the fields that this project reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    /// Its metadata, narrowed.
    pub metadata: ObjectMeta,
    unschedulable: bool,
    taint_keys: BTreeSet<String>,
}

impl NodeView {
    /// What node rules read of the node.
    #[must_use]
    pub fn facts(&self) -> NodeFacts {
        NodeFacts {
            labels: self.metadata.labels.clone().unwrap_or_default(),
            unschedulable: self.unschedulable,
            taint_keys: self.taint_keys.clone(),
        }
    }
}

crate::served_as!(NodeView, k8s_openapi::api::core::v1::Node, metadata);

/// What decisions read of a set. Its template is without the `pod-template-hash`, to compare it with the
/// deployment's.
#[must_use]
pub fn set(set: &OrderedReplicaSet) -> Set {
    let metadata = &set.metadata;
    let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).map(String::as_str);
    let revision = annotation(annotation::REVISION);
    let equal_templates =
        annotation(annotation::EQUAL_TEMPLATES).unwrap_or_default().split(',').map(str::trim);
    Set {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        hash: hash_of(set).unwrap_or_default().to_owned(),
        revision: revision.and_then(|text| text.parse().ok()).unwrap_or(0),
        created: timestamp(metadata.creation_timestamp.as_ref()),
        replicas: set.spec.replicas,
        min_ready_seconds: set.spec.min_ready_seconds,
        template: set.spec.template.without_hash(),
        equal_templates: equal_templates.filter(|entry| !entry.is_empty()).map(str::to_owned).collect(),
        served: annotation(annotation::SERVED).map(|text| text.parse().unwrap_or(0)),
        terminating: metadata.deletion_timestamp.is_some(),
        desired_replicas: None,
    }
}

/// What decisions read of a ReplicaSet of `apps/v1`. Its name stands for its hash: a ReplicaSet needs no
/// hash, and names are unique. A revision that is no number is -1.
#[must_use]
pub fn plain_set(set: &OrderedReplicaSet) -> Set {
    let annotations = set.metadata.annotations.as_ref();
    let text = |key: &str| annotations?.get(key);
    let read = self::set(set);
    let revision = text(annotation::DEPLOYMENT_REVISION).map_or(0, |text| text.parse().unwrap_or(-1));
    let desired = text(annotation::DESIRED_REPLICAS).and_then(|text| text.parse().ok());
    Set { hash: read.name.clone(), revision, desired_replicas: desired, served: Some(0), ..read }
}

fn side(text: &str) -> Option<PausePoint> {
    match text {
        pause_point::BEFORE | pause_point::TRUE => Some(PausePoint::Before),
        pause_point::AFTER => Some(PausePoint::After),
        _ => None,
    }
}

fn timestamp(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

#[cfg(test)]
#[path = "view/tests.rs"]
mod tests;
