//! The input and the output of a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ordereddeployment_api::names::reason;
use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentStatus, PausePoint, Template};
use ordereddeployment_sorter::{Facts, Nodes, Why};

/// The complete input of a decision. Equal snapshots give equal decisions.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The object: its spec, and the stored status, which contains what must survive a restart.
    pub deployment: Arc<OrderedDeployment>,
    /// The sets that it controls.
    pub sets: Vec<Set>,
    /// The pods of those sets, including finished and terminating ones.
    pub pods: Vec<Arc<Pod>>,
    /// The known nodes that rules of `deletionOrder.nodePriorities` need.
    pub nodes: Nodes,
    /// The time of the decision.
    pub now: Timestamp,
    /// Whether object and pods were read live for this decision, not from a cache that may lag.
    pub live: bool,
    /// Whether the API server accepts pods of the current template, as far as known.
    pub dry_run: DryRun,
    /// The failure of the last act, if any.
    pub failure: Option<Failure>,
    /// The pause points of the last decision: UID and name of their pods. Used only to warn of lost ones.
    pub known_points: BTreeMap<Arc<str>, String>,
    /// UIDs of plain ReplicaSets whose pods are not all known: one could not be adopted or released.
    pub unclaimed: BTreeSet<Arc<str>>,
    /// Names of sets with another owner, which our sets cannot have.
    pub taken_names: BTreeSet<String>,
    /// The requested migration sources: whether each still exists. See [`Read::Sources`].
    pub sources: BTreeMap<Source, bool>,
    /// The API server's comparison of the template with those of the sets: see [`Read::Template`].
    pub comparison: ComparisonResult,
}

/// Whether a new spelling of a template equals the template of a set, according to the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ComparisonResult {
    /// Not compared.
    #[default]
    Not,
    /// It equals the template of the set with this UID.
    Equal(Arc<str>),
    /// It equals the template of no set. The same if the API server cannot compare.
    New,
    /// There is no answer yet.
    NoAnswer {
        /// Since when the API server is asked.
        since: Timestamp,
        /// When it is asked again.
        again: Timestamp,
        /// Why there is no answer.
        message: String,
    },
}

/// A migration source: an object of Kubernetes from which an OrderedDeployment adopts pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The Deployment of that name.
    Deployment(String),
    /// The ReplicaSet of that name.
    ReplicaSet(String),
}

/// The fields of a set that decisions read.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// Its UID: the owner of its pods.
    pub uid: Arc<str>,
    /// Its `pod-template-hash`, made unique by [`make_hashes_unique`](crate::make_hashes_unique).
    pub hash: String,
    /// Its revision; 0 if the annotation is missing or malformed.
    pub revision: i64,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The published size.
    pub replicas: i32,
    /// How long its pods must be ready before they are available, in seconds.
    pub min_ready_seconds: i32,
    /// The template of its pods.
    pub template: Template,
    /// The entries of its annotation `equal-templates`.
    pub equal_templates: Vec<String>,
    /// The revision as which it last served, from its annotation
    /// [`SERVED`](ordereddeployment_api::names::annotation::SERVED): 0 if it has not served, `None` without
    /// the annotation.
    pub served: Option<i64>,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// The `replicas` for which the Deployment controller last set the size, for a ReplicaSet.
    pub desired_replicas: Option<i32>,
}

impl Set {
    /// The order in which one of several sets is preferred: sets that are not terminating first, then the
    /// oldest (as in Kubernetes' `FindNewReplicaSet`), then by name.
    pub(crate) fn seniority(&self) -> impl Ord + '_ {
        (self.terminating, self.created, &self.name)
    }
}

/// The fields of a pod that decisions read.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// The UID of its set.
    pub set: Arc<str>,
    /// The version that was read, a precondition of its deletion.
    pub resource_version: String,
    /// The input of the order; its `uid` is the pod's.
    pub facts: Facts,
    /// Whether it has a deletionTimestamp.
    pub terminating: bool,
    /// The deletionTimestamp: when the pod is gone at the latest.
    pub ends: Option<Timestamp>,
    /// Whether it has succeeded or failed.
    pub finished: bool,
    /// For a failed pod: when and why.
    pub failed: Option<Box<Failed>>,
    /// Why the scheduler finds no node for it: its message.
    pub unscheduled: Option<Arc<str>>,
    /// Its pause point, if it has one.
    pub point: Point,
}

/// A pod's failure, as its kubelet reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The time of the failure by the API server's clock; not before the creation of the pod.
    pub at: Timestamp,
    /// Since when its replacement waits: since the controller saw the failure, by its clock; or since the
    /// failure, by the API server's clock, if that was before the first reconciliation.
    pub seen: Timestamp,
    /// The reason in one word, such as `Evicted` or `OutOfcpu`.
    pub reason: Arc<str>,
    /// The message.
    pub message: Arc<str>,
}

/// The pause point in a pod's annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Point {
    /// No pause point.
    #[default]
    None,
    /// The value is malformed: not a pause point, but a hold that began before continues.
    Malformed,
    /// A pause point.
    At {
        /// The side of the pod.
        side: PausePoint,
        /// The duration of the pause; `Ok(None)`: until it is resumed; `Err`: malformed, which counts as
        /// absent, but does not change the end of a hold that began before.
        duration: Result<Option<Duration>, Malformed>,
    },
}

/// The value of an annotation is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Whether the API server accepts pods of the current template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// Not asked yet.
    Unknown,
    /// It accepted a pod or a dry run of one, or it could not decide (the message, for a warning).
    Accepted,
    /// It refused the template, with this message.
    Refused(String),
    /// It failed, or gave no answer: the message. The dry run is repeated later.
    NoAnswer(String),
}

/// Why the last act was not carried out completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The operation that failed.
    pub what: FailureKind,
    /// The message of the API server.
    pub message: String,
    /// Since when failures of this kind follow each other without a success in between.
    pub since: Timestamp,
}

/// The operation that a [`Failure`] prevented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// A pod or a set could not be adopted or released: the owned objects are not known completely.
    Claim,
    /// A pod could not be created.
    Create,
    /// A pod could not be deleted.
    Delete,
    /// A PodDisruptionBudget refused an eviction.
    Evict,
    /// An eviction was refused since several PodDisruptionBudgets select the pod: a retry does not help.
    EvictAmbiguous,
}

impl FailureKind {
    /// The reason in conditions and events.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Claim => reason::FAILED_CLAIM,
            Self::Create => reason::FAILED_CREATE,
            Self::Delete => reason::FAILED_DELETE,
            Self::Evict => reason::EVICTION_REFUSED,
            Self::EvictAmbiguous => reason::SEVERAL_BUDGETS,
        }
    }
}

/// The next step.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Read this, then decide again. No write may come before.
    Read(Read),
    /// Store this status, then decide again with it. No other write may come before.
    Record(Record),
    /// Carry out this act. If it changed anything, decide again.
    Act(Act),
}

/// Data that must be read before a decision is possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The object and its pods, live.
    Live,
    /// These nodes, live.
    Nodes(BTreeSet<Arc<str>>),
    /// Whether the template equals that of one of these sets, spelled differently: their UIDs, in the order
    /// of the comparison. For [`Snapshot::comparison`]; [`Comparison`](crate::Comparison) makes it.
    Template(Vec<Arc<str>>),
    /// Whether these sources still exist, then object and pods, live: those of deleted ones can be adopted.
    Sources(BTreeSet<Source>),
    /// A dry-run create of a pod of the set with this template hash, for [`Snapshot::dry_run`].
    DryRun {
        /// The current template's hash.
        hash: String,
    },
}

/// A status to store before any other write, with the version that was read as a precondition.
#[derive(Clone, Debug)]
pub struct Record {
    /// The complete status; only what differs from the stored one is written.
    pub status: OrderedDeploymentStatus,
    /// Events to publish once it is stored.
    pub events: Vec<Event>,
}

/// The writes of an act: first sets, then creates, then deletes, then the status.
#[derive(Clone, Debug, Default)]
pub struct Act {
    /// Changes of sets, in this order.
    pub sets: Vec<SetChange>,
    /// Whether `sets` only publishes the sizes of a running rollout, so that a later act can publish them
    /// too. Until then the published sizes still sum up to D.
    pub may_lag: bool,
    /// Pods to create.
    pub creates: Vec<Create>,
    /// Pods to delete: group after group, the pods of one in parallel. The first failure ends the deletions.
    pub deletes: Vec<DeleteGroup>,
    /// Events to publish.
    pub events: Vec<Event>,
    /// The status to report once there is nothing else to do.
    pub status: OrderedDeploymentStatus,
    /// When to decide again, even without an event.
    pub requeue: Option<Duration>,
    /// The current pause points: [`Snapshot::known_points`] of the next decision.
    pub points: BTreeMap<Arc<str>, String>,
    /// UIDs of ReplicaSets whose pods wait for a pause point, with a message that says for which.
    pub held_back: BTreeMap<Arc<str>, String>,
}

impl Act {
    /// Whether there is nothing to do except to report.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.sets.is_empty() && self.creates.is_empty() && self.deletes.is_empty()
    }
}

/// A change of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetChange {
    /// Create the current template's set.
    Create {
        /// Its name.
        name: String,
        /// Its `pod-template-hash`.
        hash: String,
        /// Its revision.
        revision: i64,
        /// Its size.
        replicas: i32,
    },
    /// Change a set; fields with `None` stay.
    Update {
        /// Its UID.
        uid: Arc<str>,
        /// The size to publish.
        replicas: Option<i32>,
        /// Its new revision.
        revision: Option<i64>,
        /// The spec's minReadySeconds (only for the current template's set).
        min_ready_seconds: Option<i32>,
        /// The revision as which it serves.
        served: Option<i64>,
    },
    /// Store on a set that the current template equals its own, spelled differently.
    Equal {
        /// Its UID.
        uid: Arc<str>,
        /// The new entries of the annotation `equal-templates`.
        equal_templates: Vec<String>,
    },
    /// Delete an old set without pods, beyond `revisionHistoryLimit`.
    Delete {
        /// Its UID.
        uid: Arc<str>,
    },
}

/// Pods to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// The `pod-template-hash` of their set; the same [`Act`] may create that set.
    pub hash: String,
    /// How many.
    pub count: usize,
}

/// Pods to delete in parallel: at most 16, all with one priority.
#[derive(Clone, Debug)]
pub struct DeleteGroup {
    /// The purpose.
    pub purpose: Purpose,
    /// The pods, in order.
    pub targets: Vec<Target>,
}

/// The purpose of a deletion. The User-Agent contains it, for the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A step of a rollout: `/rollout`.
    Rollout,
    /// A scale-down: `/scale`.
    Scale,
}

/// A pod to delete.
#[derive(Clone, Debug)]
pub struct Target {
    /// The pod at the decision. Its UID and version are preconditions.
    pub pod: Arc<Pod>,
    /// Its priority at the decision.
    pub priority: i32,
    /// Whether it counted as available.
    pub available: bool,
    /// Why it has its place in the order.
    pub why: Why,
}

impl Target {
    /// The pod's UID.
    #[must_use]
    pub fn uid(&self) -> &Arc<str> {
        &self.pod.facts.uid
    }

    /// The pod's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.pod.name
    }
}

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Normal or a warning.
    pub type_: EventType,
    /// One word, from [`ordereddeployment_api::names::reason`].
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
    /// The object that it is about.
    pub regarding: Regarding,
}

/// The two types of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Normal operation.
    Normal,
    /// A user should look at it.
    Warning,
}

/// The object that an [`Event`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regarding {
    /// The OrderedDeployment.
    Deployment,
    /// A set of it.
    Set {
        /// Its name.
        name: String,
        /// Its UID.
        uid: Arc<str>,
    },
    /// A pod of it.
    Pod {
        /// Its name.
        name: String,
        /// Its UID.
        uid: Arc<str>,
    },
}
