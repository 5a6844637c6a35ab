//! What a decision is made of, and what comes out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ordereddeployment_api::names::reason;
use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentStatus, PausePoint, Template};
use ordereddeployment_sorter::{Facts, Nodes, Why};

/// Everything a decision reads. Two equal ones give the same decision.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The object itself: its spec, and the status as stored, which holds what must survive a restart.
    pub deployment: Arc<OrderedDeployment>,
    /// Its sets: those whose controller it is.
    pub sets: Vec<Set>,
    /// The pods of those sets, finished and terminating ones included.
    pub pods: Vec<Arc<Pod>>,
    /// The nodes that rules of `deletionOrder.nodePriorities` need, as far as known.
    pub nodes: Nodes,
    /// The time of the decision.
    pub now: Timestamp,
    /// Whether object and pods were read live for this decision, rather than out of a cache that may lag.
    pub live: bool,
    /// Whether the API server takes pods of the current template, as far as it was asked.
    pub dry_run: DryRun,
    /// What went wrong when the last decision was carried out.
    pub failure: Option<Failure>,
    /// Pause points seen by the last decision, by UID of their pod: the pod's name. Only for telling which were lost.
    pub known_points: BTreeMap<Arc<str>, String>,
    /// Names of sets that belong to somebody else: a set of ours cannot have them.
    pub taken_names: BTreeSet<String>,
    /// Those that it takes over from and that were asked for: whether they are still there. See [`Read::Sources`].
    pub sources: BTreeMap<Source, bool>,
    /// What the API server says of the template and those of the sets, where it was asked. See [`Read::Template`].
    pub comparison: ComparisonResult,
}

/// What the API server says of a template that no set is known to have: whether it is one of theirs, spelled differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ComparisonResult {
    /// It was not asked.
    #[default]
    Not,
    /// It is the template of the set with this UID.
    Equal(Arc<str>),
    /// It is that of no set. So it is, too, where the server does not compare.
    New,
    /// There is no answer yet.
    NoAnswer {
        /// Since when it is asked.
        since: Timestamp,
        /// When it is asked again.
        again: Timestamp,
        /// Why there is none.
        message: String,
    },
}

/// Something of Kubernetes' own that an OrderedDeployment takes over from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The Deployment of that name.
    Deployment(String),
    /// The ReplicaSet of that name.
    ReplicaSet(String),
}

/// A set, as far as decisions read it.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// Its UID: what its pods name as their owner.
    pub uid: Arc<str>,
    /// Its `pod-template-hash`, as [`make_hashes_unique`](crate::make_hashes_unique) leaves it: no two sets have the same.
    pub hash: String,
    /// Its revision; 0 where the annotation is missing or malformed.
    pub revision: i64,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The published size.
    pub replicas: i32,
    /// How long its pods must be ready before they are available, in seconds.
    pub min_ready_seconds: i32,
    /// The template of its pods.
    pub template: Template,
    /// Its annotation [`EQUAL_TEMPLATES`](ordereddeployment_api::names::annotation::EQUAL_TEMPLATES), an entry each.
    pub equal_templates: Vec<String>,
    /// Whether it is being deleted.
    pub terminating: bool,
}

impl Set {
    /// Which of several sets comes first: one that stays before one that goes, the oldest of those (as Kubernetes'
    /// `FindNewReplicaSet` has it), the first by name of equally old ones.
    pub(crate) fn seniority(&self) -> impl Ord + '_ {
        (self.terminating, self.created, &self.name)
    }
}

/// A pod, as far as decisions read it.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// The UID of its set.
    pub set: Arc<str>,
    /// The version that was read: a delete carries it.
    pub resource_version: String,
    /// What the order reads; its `uid` is the pod's.
    pub facts: Facts,
    /// Whether it has a deletionTimestamp.
    pub terminating: bool,
    /// That time: when it is to be gone at the latest.
    pub ends: Option<Timestamp>,
    /// Whether it succeeded or failed.
    pub finished: bool,
    /// Of a failed one: when and why.
    pub failed: Option<Box<Failed>>,
    /// Why no node takes it: the scheduler's sentence.
    pub unscheduled: Option<Arc<str>>,
    /// Its pause point, if it has one.
    pub point: Point,
}

/// A pod's failure, as its kubelet tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// When, by the API server's clock; not before it was made.
    pub at: Timestamp,
    /// Since when its replacement waits: since it was seen, by the controller's clock, or since it failed, by the API server's,
    /// where that was before the first look.
    pub seen: Timestamp,
    /// One word, such as `Evicted` or `OutOfcpu`.
    pub reason: Arc<str>,
    /// One sentence.
    pub message: Arc<str>,
}

/// What a pod's annotations say of a pause point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Point {
    /// No pause point.
    #[default]
    None,
    /// The key is there, its value is malformed: counts as none, but keeps a hold that began before.
    Malformed,
    /// A pause point.
    At {
        /// On which side of the pod.
        side: PausePoint,
        /// How long the pause lasts; `Ok(None)`: until it is resumed; `Err`: malformed, which counts as absent, but
        /// leaves the end of a hold that began before as it is.
        duration: Result<Option<Duration>, Malformed>,
    },
}

/// An annotation whose value is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Whether the API server takes pods of the current template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// Not asked yet.
    Unknown,
    /// It took one, or a dry run of one, or could not tell (the message, for a warning).
    Accepted,
    /// It refused: its message.
    Refused(String),
    /// It failed, or gave no answer: the message. It is asked again later.
    NoAnswer(String),
}

/// Why the last decision could not be carried out whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was hindered.
    pub what: FailureKind,
    /// The server's words.
    pub message: String,
    /// Since when failures of this kind follow each other without a success in between.
    pub since: Timestamp,
}

/// What a [`Failure`] hindered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// A pod or a set could not be adopted or released: who is there is not known.
    Claim,
    /// A pod could not be created.
    Create,
    /// A pod could not be deleted.
    Delete,
    /// An eviction was refused by a PodDisruptionBudget.
    Evict,
    /// An eviction was refused since several PodDisruptionBudgets select the pod: no waiting helps.
    EvictAmbiguous,
}

impl FailureKind {
    /// The word for it, in conditions and events.
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

/// What is to be done next.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Read this, then decide again. Nothing may be written before.
    Read(Read),
    /// Store this, then decide again on what was stored. Nothing else may be written before.
    Record(Record),
    /// Do this, then, if anything was done, decide again.
    Act(Act),
}

/// What must be read before anything can be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The object and its pods, live.
    Live,
    /// These nodes, live.
    Nodes(BTreeSet<Arc<str>>),
    /// Whether the template is that of one of these sets, spelled differently: their UIDs, in the order to ask for them. For
    /// [`Snapshot::compared`]; [`Comparison`](crate::Comparison) says how.
    Template(Vec<Arc<str>>),
    /// Whether these are still there, and after that the object and its pods, live: what those that are gone had, is there
    /// to be taken.
    Sources(BTreeSet<Source>),
    /// A dry-run create of a pod of the set with this template hash, for [`Snapshot::proof`].
    DryRun {
        /// The current template's hash.
        hash: String,
    },
}

/// A status to store, with the version that was read, before anything is done.
#[derive(Clone, Debug)]
pub struct Record {
    /// The whole status; what differs from the stored one is to be written.
    pub status: OrderedDeploymentStatus,
    /// To be published once it is stored.
    pub events: Vec<Event>,
}

/// What is to be done: first the sets, then creates, then deletes, then the status.
#[derive(Clone, Debug, Default)]
pub struct Act {
    /// Changes of sets, in this order.
    pub sets: Vec<SetChange>,
    /// Whether `sets` only publishes what a running rollout moves, so that it may as well be done with the batch after this
    /// one. Until then the published sizes still sum up to D.
    pub may_lag: bool,
    /// Pods to create.
    pub creates: Vec<Create>,
    /// Pods to delete: one group after the other, the pods of a group in parallel. The first failure ends it all.
    pub deletes: Vec<DeleteGroup>,
    /// To be published.
    pub events: Vec<Event>,
    /// The status to report, once nothing more is to be done.
    pub status: OrderedDeploymentStatus,
    /// After how long to decide again even if nothing is seen to happen.
    pub requeue: Option<Duration>,
    /// The pause points seen: the next decision's [`Snapshot::known_points`].
    pub points: BTreeMap<Arc<str>, String>,
}

impl Act {
    /// Whether there is nothing to do but to report.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.sets.is_empty() && self.creates.is_empty() && self.deletes.is_empty()
    }
}

/// A change of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetChange {
    /// Make the current template's set.
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
    /// Change a set; what is `None` stays.
    Update {
        /// Its UID.
        uid: Arc<str>,
        /// The size to publish.
        replicas: Option<i32>,
        /// The revision it is now.
        revision: Option<i64>,
        /// The spec's minReadySeconds (only for the current template's set).
        min_ready_seconds: Option<i32>,
    },
    /// Store on a set that the current template is its own, spelled differently.
    Equal {
        /// Its UID.
        uid: Arc<str>,
        /// The annotation [`EQUAL_TEMPLATES`](ordereddeployment_api::names::annotation::EQUAL_TEMPLATES) from then on, an entry each.
        equal_templates: Vec<String>,
    },
    /// Delete an old set without pods, beyond the history's limit.
    Delete {
        /// Its UID.
        uid: Arc<str>,
    },
}

/// Pods to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// The `pod-template-hash` of the set they belong to; that set may be made by the same [`Act`].
    pub hash: String,
    /// How many.
    pub count: usize,
}

/// Pods to delete in parallel: at most 16, all of one priority.
#[derive(Clone, Debug)]
pub struct DeleteGroup {
    /// What for.
    pub purpose: Purpose,
    /// The pods, in order.
    pub targets: Vec<Target>,
}

/// What a deletion is for. The User-Agent says so, for the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A step of a rollout: `/rollout`.
    Rollout,
    /// A smaller number of replicas: `/scale`.
    Scale,
}

/// A pod to delete.
#[derive(Clone, Debug)]
pub struct Target {
    /// The pod as the decision was made on it. Its UID and version are preconditions.
    pub pod: Arc<Pod>,
    /// Its priority when the decision was made.
    pub priority: i32,
    /// Whether it counted as available.
    pub available: bool,
    /// Why it goes before the next pod of the order; `None` for the last.
    pub why: Option<Why>,
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
    /// One word, of [`ordereddeployment_api::names::reason`].
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
    /// What it is about.
    pub regarding: Regarding,
}

/// The two types of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Everything is as it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

/// What an [`Event`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regarding {
    /// The OrderedDeployment.
    Deployment,
    /// A pod of it.
    Pod {
        /// Its name.
        name: String,
        /// Its UID.
        uid: Arc<str>,
    },
}
