//! What is played: a cluster, steps that people take, and faults. Plain data, so that a case can be printed, kept and shrunk.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A span of simulated time, in milliseconds.
pub type Millis = u64;

/// One run. Equal cases run equally.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The name of its scenario.
    pub name: String,
    /// Decides UIDs and the names of pods.
    pub seed: u64,
    /// What stands before anything happens.
    pub cluster: Cluster,
    /// What people do, one after the other.
    pub steps: Vec<Step>,
    /// What goes wrong. Each stands for itself: any subset is a case too.
    pub faults: Vec<Fault>,
    /// What it comes to where nothing goes wrong.
    #[serde(default)]
    pub ends: Ends,
    /// Whether it is short enough to be crashed twice at every pair of writes.
    #[serde(default)]
    pub short: bool,
}

/// What a case comes to where nothing goes wrong, once its last step was taken. Where somebody does more than the steps say
/// (a pause point more, another spec), or where a step came in another moment than it was meant for, it can end otherwise:
/// what stands then decides, a hold, a pause, a pod that never gets ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ends {
    /// The object says that it is complete, and is.
    #[default]
    Complete,
    /// It is held, and nobody resumes it.
    Held,
    /// `spec.paused` is set, and stays.
    Paused,
    /// It waits for something that never comes, and says so in `Stalled`: `InOrder` behind an unready pod, a template that the
    /// server refuses, a template whose pods never get ready.
    Stalled,
    /// The object is gone, and all that it owned.
    Gone,
    /// The object is gone; its sets were left, owned by nobody, and its pods.
    Orphaned,
    /// Nobody says: with times that were drawn its steps may find another world than they were meant for.
    Anyhow,
}

/// What stands before anything happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// The pool of each node; nodes are named `n1`, `n2`, ….
    pub pools: Vec<String>,
    /// From a pod's assignment to Ready.
    pub ready: Millis,
    /// From a pod's mark of deletion to its end.
    pub gone: Millis,
    /// How many instances of the controller run. More than one stand for a lead.
    pub instances: u32,
    /// How many objects a page of a list has at most, whatever was asked for; 0: as many as were asked for.
    pub page: u32,
}

impl Default for Cluster {
    fn default() -> Self {
        let pools = ["inference", "inference", "hybrid", "hybrid"].map(str::to_owned).to_vec();
        Self { pools, ready: 1000, gone: 500, instances: 1, page: 0 }
    }
}

/// Something that somebody does, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What is waited for.
    pub when: When,
    /// What is done then.
    pub act: Act,
}

/// What is waited for before a step; where it does not come, no longer than the time given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum When {
    /// That much time after the step before.
    After(Millis),
    /// Until the rollout is complete.
    Complete(Millis),
    /// Until it is held, and nobody has asked to resume.
    Held(Millis),
    /// Until there are that many pods of the current template, ready or not.
    Updated(usize, Millis),
    /// Until the condition of that type has that reason.
    Reason(String, String, Millis),
    /// Until there is nothing at that path.
    Gone(String, Millis),
    /// Until the object at that path has that value at that JSON pointer.
    Shows(String, String, Value, Millis),
}

/// One of the pods there are at that moment, by name; a number counts on from the first and around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pick {
    /// Of all pods that do not terminate.
    Any(usize),
    /// Of those of the current template's set.
    Updated(usize),
    /// Of those of other sets.
    Old(usize),
    /// The held one.
    Held,
    /// Of those that no controller owns.
    Orphan(usize),
}

/// What somebody does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Act {
    /// Creates an object, by its `apiVersion` and `kind`.
    Create(Value),
    /// Changes the spec of the OrderedDeployment: a merge patch.
    Spec(Value),
    /// Changes any object: a merge patch of that path.
    Patch(String, Value),
    /// Deletes any object, with these options.
    Delete(String, Value),
    /// Sets an annotation of a pod, or takes it away.
    Annotate(Pick, String, Option<String>),
    /// Deletes a pod, as `kubectl delete pod` does.
    DeletePod(Pick),
    /// Deletes a pod with no grace: it is gone at once, and no watch need show it terminating.
    KillPod(Pick),
    /// Says that a pod is ready, or is not, as its kubelet would.
    Ready(Pick, bool),
    /// Lets a pod fail, as its kubelet would.
    Fail(Pick),
    /// Changes a pod: a merge patch.
    Pod(Pick, Value),
    /// Takes all finalizers from all pods.
    Free,
    /// Deletes a pod with no grace, and creates another one of the same name; with the same owners, or with none.
    Replace(Pick, bool),
    /// Deletes a node, and its pods at once, as the collector of pods does some time after.
    NodeGone(String),
    /// Takes a node out of service: its kubelet is not heard of any more.
    NodeLost(String),
    /// Brings it back.
    NodeBack(String),
    /// Asks to resume.
    Resume(Resumption),
    /// Makes the garbage collector slow, late, or stop for a while.
    Collector {
        /// The least time between two of its writes.
        pace: Millis,
        /// How late it sees a change.
        lag: Millis,
        /// How long it is not given the processor.
        frozen: Millis,
    },
    /// Nothing: the waiting before it is what counts.
    Nothing,
}

/// What a resume names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resumption {
    /// The hold there is; where there is none, nothing is asked.
    Current,
    /// All points of the present revision.
    All,
    /// The hold that was seen before the present one; where there was none, nothing is asked.
    Earlier,
    /// A hold at that pod in the present revision, which need not be.
    At(Pick),
    /// This, whatever stands.
    Text(String),
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fault {
    /// The instance that makes that write (counted over all instances, from 1; leases are not counted) dies.
    Crash {
        /// Which write.
        write: u32,
        /// At which moment of it.
        moment: Moment,
        /// How long until a fresh instance starts in its stead.
        back: Millis,
    },
    /// Requests that match are not answered as they should be.
    Request {
        /// Which requests.
        class: Class,
        /// How many of them go well before.
        skip: u32,
        /// How many of them do not.
        times: u32,
        /// What becomes of them.
        how: How,
    },
    /// Requests that match take time, each a part of this.
    Slow {
        /// Which requests.
        class: Class,
        /// The most from the moment they are sent to the moment they are carried out.
        before: Millis,
        /// The most from then to the moment the answer is heard.
        after: Millis,
    },
    /// Somebody does something just before a request that matches is carried out.
    Before {
        /// Which requests.
        class: Class,
        /// How many of them come before it.
        skip: u32,
        /// What.
        act: Act,
    },
    /// Watches that match show what there is in another way than they should.
    Watch {
        /// The resource; an empty string matches all.
        plural: String,
        /// The span of time in which it strikes.
        span: Span,
        /// What becomes of them.
        how: WatchHow,
    },
    /// An instance reaches nobody, and nobody reaches it.
    Cut {
        /// Which one, from 1.
        instance: u32,
        /// From when to when.
        span: Span,
    },
    /// An instance is not given the processor.
    Freeze {
        /// Which one, from 1.
        instance: u32,
        /// From when to when.
        span: Span,
    },
    /// The controllers' clocks jump, by so many milliseconds.
    Jump {
        /// Whose, from 1; 0: of all.
        #[serde(default)]
        instance: u32,
        /// When, from the start of the run.
        at: Millis,
        /// By how much.
        by: i64,
    },
    /// The server forgets its history: watches resumed from before it expire.
    Compact {
        /// When, from the start of the run.
        at: Millis,
    },
    /// Somebody does something, whatever the steps are at.
    Somebody {
        /// When, from the start of the run.
        at: Millis,
        /// What.
        act: Act,
        /// How they mend it, and how long after. It belongs to the act: what nobody mends stays broken.
        #[serde(default)]
        mend: Option<(Millis, Act)>,
    },
}

impl Fault {
    /// When it strikes, where that goes by time and not by what is asked.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        match self {
            Self::Freeze { span, .. } | Self::Cut { span, .. } | Self::Watch { span, .. } => Some(*span),
            Self::Jump { at, .. } | Self::Compact { at } => Some(Span { at: *at, lasts: 1 }),
            Self::Somebody { at, mend, .. } => {
                // Time enough for what takes several requests.
                let lasts = mend.as_ref().map_or(0, |(after, _)| *after).saturating_add(100);
                Some(Span { at: *at, lasts })
            }
            Self::Crash { .. } | Self::Request { .. } | Self::Slow { .. } | Self::Before { .. } => None,
        }
    }
}

/// A span of simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// When it begins, from the start of the run.
    pub at: Millis,
    /// How long it lasts.
    pub lasts: Millis,
}

impl Span {
    /// When it is over, from the start of the run.
    #[must_use]
    pub fn end(self) -> Millis {
        self.at.saturating_add(self.lasts)
    }

    pub(crate) fn contains(self, time: Millis) -> bool {
        self.at <= time && time < self.end()
    }
}

/// What becomes of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchHow {
    /// Every event comes that much late.
    Delay(Millis),
    /// Nothing comes in this span; all of it after.
    Freeze,
    /// The connection is dead, and neither side knows: nothing comes any more until the client gives up reading.
    HalfOpen,
    /// The connection breaks when the span begins, and whenever it is opened again in it.
    Break,
    /// Every event comes twice.
    Double,
    /// The watch says that it expired, when the span begins.
    Expire,
    /// What lists and starts of watches show in this span is that many versions of the store old.
    Rewind(u64),
}

/// A moment of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// It is not sent any more.
    Before,
    /// It is carried out, and nobody hears the answer.
    Unanswered,
    /// The answer is heard, and nothing is asked after it.
    Answered,
}

/// A class of requests of the controllers. An empty string matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`; `write`: any write that crashes are counted by.
    pub verb: String,
    /// `pods`.
    pub plural: String,
    /// `status`, `eviction`; an empty string matches all.
    pub subresource: String,
    /// Only lists that go on with a continue token.
    pub continued: bool,
    /// Only requests whose body has these words.
    #[serde(default)]
    pub says: String,
    /// Only dry runs, or only others.
    #[serde(default)]
    pub dry_run: Option<bool>,
}

impl Class {
    /// The requests of that verb for these objects, whatever they say.
    #[must_use]
    pub fn of(verb: &str, plural: &str, subresource: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            plural: plural.to_owned(),
            subresource: subresource.to_owned(),
            ..Self::default()
        }
    }
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// It is answered with this code, reason and message; carried out before, or not.
    Answer {
        /// The status code.
        code: u16,
        /// The status reason.
        reason: String,
        /// The message.
        message: String,
        /// Whether it was carried out.
        applied: bool,
    },
    /// The connection breaks.
    Reset {
        /// Whether it was carried out.
        applied: bool,
    },
    /// No answer comes until the client gives up reading.
    Hang {
        /// Whether it was carried out.
        applied: bool,
    },
    /// It reaches the server that much later.
    Late(Millis),
    /// A webhook changes the object before it is stored: a merge patch.
    Mutated(Value),
    /// Somebody writes the same object just before, which changes nothing that counts.
    Overtaken,
    /// Somebody deletes the same object just before, with no grace.
    Gone,
    /// Somebody sets that annotation of the same object just before, or takes it away: between the decision and the
    /// request that it led to.
    Annotated(String, Option<String>),
}

impl How {
    /// Whether it is carried out, and who asked is not told.
    #[must_use]
    pub fn is_unheard(&self) -> bool {
        matches!(
            self,
            Self::Answer { applied: true, .. } | Self::Reset { applied: true } | Self::Hang { applied: true }
        )
    }
}
