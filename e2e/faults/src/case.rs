//! What is played: a cluster, the steps of its users, and faults. Plain data, so that a case can be printed,
//! kept and shrunk.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Simulated time in milliseconds.
pub type Millis = u64;

/// One run. Equal cases give equal runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name of its scenario.
    pub name: String,
    /// The seed of UIDs and pod names.
    pub seed: u64,
    /// The cluster before the first step.
    pub cluster: Cluster,
    /// The steps, one after the other.
    pub steps: Vec<Step>,
    /// The faults. They are independent: any subset is a case too.
    pub faults: Vec<Fault>,
    /// The outcome without faults.
    #[serde(default)]
    pub outcome: Outcome,
    /// Whether the campaign injects two crashes, at every pair of writes.
    #[serde(default)]
    pub short: bool,
}

/// The outcome of a case without faults, after its last step. Faults that change the spec or the pause
/// points, or that delay a step, can lead to another outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The object is complete and its condition says so.
    #[default]
    Complete,
    /// The rollout is held and stays held.
    Held,
    /// `spec.paused` is set and stays set.
    Paused,
    /// The rollout waits for something that never happens, and `Stalled` says so: `InOrder` behind an unready
    /// pod, a template that the server refuses, a template whose pods never become ready.
    Stalled,
    /// The object and everything that it owned are deleted.
    Deleted,
    /// The object is deleted; its sets are orphans, and its pods still exist.
    Orphaned,
    /// Unknown: the times of the steps are random.
    Any,
}

/// The cluster before the first step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The pool of each node; nodes are named `n1`, `n2`, ….
    pub pools: Vec<String>,
    /// The time from the assignment of a pod to Ready.
    pub ready_delay: Millis,
    /// The time from the `deletionTimestamp` of a pod to its end.
    pub termination_delay: Millis,
    /// The number of instances of the controller. Several instances elect a leader.
    pub instances: u32,
    /// The maximum number of objects in a page of a list; 0: as many as the request asks for.
    pub page_limit: u32,
}

impl Default for Cluster {
    fn default() -> Self {
        let pools = ["inference", "inference", "hybrid", "hybrid"].map(str::to_owned).to_vec();
        Self { pools, ready_delay: 1000, termination_delay: 500, instances: 1, page_limit: 0 }
    }
}

/// An action, and when it happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub wait_for: WaitFor,
    pub action: UserAction,
}

/// What a step waits for, no longer than two minutes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum WaitFor {
    /// That much time after the step before.
    After(Millis),
    Complete,
    /// The rollout is held, and no resume is requested.
    Held,
    /// That many pods of the current template exist, ready or not.
    UpdatedPods(usize),
    /// The condition of that type has that reason.
    ConditionReason(String, String),
    /// No object is at that path.
    NotFound(String),
    /// The object at that path has that value at that JSON pointer.
    FieldEquals(String, String, Value),
}

/// One of the pods of that moment, in the order of their names. The number counts from 0, modulo the number
/// of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodSelector {
    /// Of all pods that do not terminate.
    Any(usize),
    /// Of those of the current template's set.
    Updated(usize),
    /// Of those of other sets.
    Old(usize),
    /// The held pod.
    Held,
    /// Of those without an owner.
    Orphan(usize),
}

/// What a user does to the cluster, or a kubelet or a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum UserAction {
    /// Creates an object, by its `apiVersion` and `kind`.
    Create(Value),
    /// Patches the spec of the OrderedDeployment with a merge patch.
    PatchSpec(Value),
    /// Patches the object at that path with a merge patch.
    Patch(String, Value),
    /// Deletes the object at that path, with these options.
    Delete(String, Value),
    /// Sets an annotation of a pod, or removes it.
    AnnotatePod(PodSelector, String, Option<String>),
    /// Deletes a pod, as `kubectl delete pod` does.
    DeletePod(PodSelector),
    /// Deletes a pod without a grace period. A watch may never show it terminating.
    ForceDeletePod(PodSelector),
    /// Sets the Ready condition of a pod, as its kubelet does.
    SetReady(PodSelector, bool),
    /// Sets the phase of a pod to Failed, as its kubelet does.
    FailPod(PodSelector),
    PatchPod(PodSelector, Value),
    RemoveFinalizers,
    /// Deletes a pod without a grace period, and creates another one of the same name; with the same owners,
    /// or with none.
    ReplacePod(PodSelector, bool),
    /// Deletes a node, and its pods at once, as the pod garbage collector does later.
    DeleteNode(String),
    /// Stops the kubelet of a node.
    StopNode(String),
    StartNode(String),
    Resume(ResumeRequest),
    Abort,
    /// Requests to start the aborted rollout again.
    Retry,
    /// Makes the garbage collector slow (the least time between two of its writes), lets it lag (how late it
    /// observes a change), or freezes it for that time.
    SetGarbageCollector {
        pace: Millis,
        lag: Millis,
        frozen: Millis,
    },
    /// A tenant of another namespace creates an object with the labels and the owner of an object of this
    /// one.
    Forge(Forgery),
    /// Patches the status of the OrderedDeployment with fields that only the controller writes.
    ForgeStatus(Value),
    NoAction,
}

/// What a tenant of another namespace creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Forgery {
    /// A pod of the set with that place, with this delete priority, and with a pause point.
    Pod(usize, i32),
    /// A set of the OrderedDeployment, with the name of one of its sets, and a pod of it.
    Set(usize),
    /// The same, being deleted.
    TerminatingSet(usize),
    /// A pod without an owner.
    Orphan,
}

impl Forgery {
    /// One of each.
    pub const ALL: [Self; 5] =
        [Self::Pod(0, -1000), Self::Pod(1, 1000), Self::Set(0), Self::TerminatingSet(1), Self::Orphan];
}

impl Case {
    /// Whether a tenant of another namespace forges objects.
    pub fn has_forgeries(&self) -> bool {
        self.actions().any(|action| matches!(action, UserAction::Forge(_)))
    }

    /// Whether somebody who may patch the status writes what only the controller writes.
    pub fn has_forged_status(&self) -> bool {
        self.actions().any(|action| matches!(action, UserAction::ForgeStatus(_)))
    }

    fn actions(&self) -> impl Iterator<Item = &UserAction> {
        let steps = self.steps.iter().map(|step| &step.action);
        let faults = self.faults.iter().filter_map(|fault| match fault {
            Fault::Action { action, .. } | Fault::ActionBefore { action, .. } => Some(action),
            _ => None,
        });
        steps.chain(faults)
    }
}

/// What a resume request names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResumeRequest {
    /// The current hold. Without a hold, nothing is requested.
    Current,
    /// All points of the current revision.
    All,
    /// The hold before the current one. Without such a hold, nothing is requested.
    Previous,
    /// A hold at that pod in the current revision. It may not exist.
    AtPod(PodSelector),
    /// This text.
    Raw(String),
}

/// Something that goes wrong. Instances are numbered from 1; times count from the start of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Fault {
    /// The instance that sends that write crashes, and starts again. Writes of all instances are counted from
    /// 1, without leases.
    Crash { write: u32, moment: Moment, restart_after: Millis },
    /// So many matching requests fail, after so many that succeed.
    Request { matcher: RequestMatcher, skip: u32, times: u32, effect: RequestFault },
    /// Matching requests are slow. Each takes a part of these times: until the server receives it, and from
    /// then until the controller receives the response.
    Latency { matcher: RequestMatcher, before: Millis, after: Millis },
    /// A user action happens just before the server receives a matching request, after so many others.
    ActionBefore { matcher: RequestMatcher, skip: u32, action: UserAction },
    /// Watches of that resource fail; an empty string matches all.
    Watch { plural: String, span: Span, effect: WatchFault },
    /// An instance is disconnected from the server.
    Partition { instance: u32, span: Span },
    /// The process of an instance is stopped, and continued afterwards.
    Freeze { instance: u32, span: Span },
    /// The clock of an instance jumps by that many milliseconds; 0: the clocks of all instances.
    ClockJump {
        #[serde(default)]
        instance: u32,
        at: Millis,
        by: i64,
    },
    /// The server compacts its history: watches that are resumed from an earlier version expire.
    Compaction { at: Millis },
    /// A user action happens, independent of the steps. Another one may undo it, so much later.
    Action {
        at: Millis,
        action: UserAction,
        #[serde(default)]
        undo: Option<(Millis, UserAction)>,
    },
}

impl Fault {
    /// When it happens, if that depends on the time and not on a request.
    pub fn span(&self) -> Option<Span> {
        match self {
            Self::Freeze { span, .. } | Self::Partition { span, .. } | Self::Watch { span, .. } => {
                Some(*span)
            }
            Self::ClockJump { at, .. } | Self::Compaction { at } => Some(Span { start: *at, duration: 1 }),
            Self::Action { at, undo, .. } => {
                // An action may take several requests.
                let duration = undo.as_ref().map_or(0, |(after, _)| *after).saturating_add(100);
                Some(Span { start: *at, duration })
            }
            _ => None,
        }
    }
}

/// A span of simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// When it begins, from the start of the run.
    pub start: Millis,
    /// How long it lasts.
    pub duration: Millis,
}

impl Span {
    pub fn end(self) -> Millis {
        self.start.saturating_add(self.duration)
    }

    pub(crate) fn contains(self, time: Millis) -> bool {
        self.start <= time && time < self.end()
    }
}

/// How a watch fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchFault {
    /// Every event is late by that time.
    Delay(Millis),
    /// No event arrives in this span. All of them arrive afterwards.
    Freeze,
    /// The connection is half open: nothing arrives until the client times out.
    HalfOpen,
    /// The connection breaks at the start of the span, and whenever it is opened again in the span.
    Disconnect,
    /// Every event arrives twice.
    Duplicate,
    /// The watch expires at the start of the span.
    Expire,
    /// Lists and new watches in this span show a state that is that many versions old.
    Rewind(u64),
}

/// A moment of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// The write is not sent.
    BeforeRequest,
    /// The server carries out the write, and the controller does not receive the response.
    BeforeResponse,
    /// The controller receives the response, and sends no other request.
    AfterResponse,
}

/// Matches requests of the controllers. An empty string matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestMatcher {
    /// `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`; `write`: any write that
    /// [`Fault::Crash`] counts.
    pub verb: String,
    /// For example `pods`.
    pub plural: String,
    /// `status` or `eviction`; an empty string matches all.
    pub subresource: String,
    /// Only lists with a continue token.
    pub continued: bool,
    /// Only requests whose body contains this text.
    #[serde(default)]
    pub body_contains: String,
    /// Only dry runs, or only others.
    #[serde(default)]
    pub dry_run: Option<bool>,
}

impl RequestMatcher {
    /// The requests of that verb for that resource, with any body.
    pub fn of(verb: &str, plural: &str, subresource: &str) -> Self {
        let (verb, plural, subresource) = (verb.to_owned(), plural.to_owned(), subresource.to_owned());
        Self { verb, plural, subresource, ..Self::default() }
    }
}

/// How a request fails. `applied`: the server carries it out all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestFault {
    /// That is the response.
    Response { code: u16, reason: String, message: String, applied: bool },
    /// The connection is reset.
    Reset { applied: bool },
    /// No response arrives until the client times out.
    NoResponse { applied: bool },
    /// The request reaches the server that much later.
    Delay(Millis),
    /// A webhook changes the object before it is stored: a merge patch.
    Mutate(Value),
    /// A user updates the same object just before. The update does not matter to the controller.
    UpdateBefore,
    /// A user deletes the same object just before, without a grace period.
    DeleteBefore,
    /// A user sets that annotation of the same object just before, or removes it: after the decision and
    /// before the request.
    AnnotateBefore(String, Option<String>),
}

impl RequestFault {
    /// Whether the server carries out the request and the controller does not receive the response.
    pub fn loses_response(&self) -> bool {
        let (Self::Response { applied, .. } | Self::Reset { applied } | Self::NoResponse { applied }) = self
        else {
            return false;
        };
        *applied
    }
}
