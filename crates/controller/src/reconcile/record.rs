//! The effects of requests. Only [`Reconciler::record`] changes the state in memory by them.

use std::sync::Arc;

use ordereddeployment_api::names::reason;
use ordereddeployment_kubernetes::RequestError;
use ordereddeployment_planner::{EventType, Failure, FailureKind, Purpose, Target};
use tokio::time::Instant;

use crate::cache::entry::{Entry, PodEntry, SetEntry};
use crate::cache::expectations::Fact;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::state::live::LiveReadReason;

/// Why a write failed, if nobody can do anything about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silent {
    /// This process is not the leader any more, or stands aside.
    NotLeading,
    /// Nothing can be created in the namespace, and the object goes with it.
    NamespaceTerminates,
}

/// A write that failed.
#[derive(Debug)]
pub(crate) struct WriteFailure {
    pub(crate) kind: FailureKind,
    /// The UID of the set whose pods are written.
    pub(crate) set: Option<Arc<str>>,
    /// The verb, for metrics. `None`: the API server did not fail, but its answer could not be used.
    pub(crate) verb: Option<&'static str>,
    /// The message of the event.
    pub(crate) event: String,
    /// The message of the condition.
    pub(crate) message: String,
    /// Whether the write may have been stored nevertheless.
    pub(crate) outcome_unknown: bool,
    /// Nobody can do anything about it: the act ends without an event.
    pub(crate) silent: Option<Silent>,
}

impl WriteFailure {
    /// A request that failed with that error.
    pub(crate) fn of(
        kind: FailureKind,
        verb: &'static str,
        doing: &str,
        error: &RequestError,
        message: String,
    ) -> Self {
        let event = format!("Error {doing}: {message}");
        Self {
            kind,
            set: None,
            verb: Some(verb),
            event,
            message,
            outcome_unknown: error.is_outcome_unknown(),
            silent: match error {
                RequestError::NotLeading => Some(Silent::NotLeading),
                error if error.says_namespace_terminates() => Some(Silent::NamespaceTerminates),
                _ => None,
            },
        }
    }

    /// An answer that cannot be used: the request succeeded, but the object is not as it was sent.
    pub(crate) fn unusable(verb: Option<&'static str>, event: String, message: String) -> Self {
        Self {
            kind: FailureKind::Create,
            set: None,
            verb,
            event,
            message,
            outcome_unknown: false,
            silent: None,
        }
    }
}

/// What a request did or showed.
#[derive(Debug)]
pub(crate) enum Effect {
    Set(Fact<SetEntry>),
    Pod(Fact<PodEntry>),
    /// A set was created.
    SetCreated,
    /// A pod was created; its entry, if it came back as one of ours.
    PodCreated(Option<PodEntry>),
    /// The pod of that name came back unchanged, for the set with that UID.
    PodAccepted {
        set: Arc<str>,
        name: String,
    },
    /// The API server accepted the deletion of a pod. `terminating`: it still runs for its grace period.
    PodDeleted {
        target: Target,
        purpose: Purpose,
        entry: Option<Arc<PodEntry>>,
        terminating: bool,
    },
    /// An eviction was accepted.
    Evicted,
    /// An eviction was refused while that many pods were ready.
    EvictionRefused {
        uid: Arc<str>,
        ready: usize,
        kind: FailureKind,
        message: String,
    },
    /// A pod was annotated, so that its budget is counted again.
    BudgetsRecounted,
    /// An eviction that was refused a moment ago was not repeated.
    StillRefused(Failure),
    /// A create failed because the name exists, although no known object has it.
    NameTaken,
    /// A set of another owner has that name.
    SetNameTaken(String),
    /// An object that was created for that owner came back changed, so that it is not the owner's.
    Altered {
        owner: Arc<str>,
        message: String,
    },
    /// A dry run for that owner came back unchanged.
    Unaltered(Arc<str>),
    /// A write met a newer version.
    Conflict,
    /// Everything must be read live before the next decision.
    LiveReadDue(LiveReadReason),
    /// A write failed: the act ends.
    Failed(WriteFailure),
    /// An object differs from the snapshot of the decision: the act ends.
    DecideAgain,
}

impl Effect {
    /// A write met a newer version, which a live read shows before the next decision.
    pub(crate) fn conflict() -> Vec<Self> {
        vec![Self::Conflict, Self::LiveReadDue(LiveReadReason::Conflict), Self::DecideAgain]
    }
}

/// A purpose, for metrics and User-Agents.
pub(super) fn word_for(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Rollout => "rollout",
        Purpose::Scale => "scale",
    }
}

/// Why an act was not applied completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// The API server refused a write or failed: retry after a backoff.
    Failed(Failure),
    /// An object differs from the snapshot of the decision.
    DecideAgain,
    /// There is more to do than one act does.
    Unfinished,
    /// A write failed, and nobody can do anything about it.
    Silent(Silent),
}

impl Interrupt {
    /// Keeps the most important of several interrupts: the first end or failure, then `DecideAgain`.
    pub(crate) fn add_to(self, interrupt: &mut Option<Self>) {
        let keeps = match interrupt {
            Some(Self::Failed(_) | Self::Silent(_)) => true,
            Some(Self::DecideAgain) => self == Self::Unfinished,
            Some(Self::Unfinished) | None => false,
        };
        if !keeps {
            *interrupt = Some(self);
        }
    }
}

impl Reconciler<'_> {
    /// Records these effects in their order. An error ends the act.
    pub(crate) fn record(&mut self, effects: Vec<Effect>) -> Result<(), Interrupt> {
        let mut interrupt = None;
        for effect in effects {
            if let Some(stop) = self.record_one(effect) {
                stop.add_to(&mut interrupt);
            }
        }
        interrupt.map_or(Ok(()), Err)
    }

    fn record_one(&mut self, effect: Effect) -> Option<Interrupt> {
        let now = self.ctx.clock.now();
        match effect {
            Effect::Set(fact) => self.record_set(fact),
            Effect::Pod(fact) => self.record_pod(fact),
            Effect::SetCreated => self.state.writes.created += 1,
            Effect::PodCreated(entry) => {
                self.ctx.metrics.pod_creations.inc();
                self.state.writes.created += 1;
                if let Some(entry) = entry {
                    self.record_pod(Fact::Is(Arc::new(entry)));
                }
            }
            Effect::PodAccepted { set, name } => {
                self.state.failures.succeeded(FailureKind::Create);
                let message = format!("Created pod{} {name}", if self.ctx.owns_sets { "" } else { ":" });
                self.publish_about_set(&set, EventType::Normal, reason::SUCCESSFUL_CREATE, message);
            }
            Effect::PodDeleted { target, purpose, entry, terminating } => {
                self.state.failures.succeeded(FailureKind::Delete);
                let fact = match entry {
                    Some(entry) if terminating => Fact::Terminating(entry),
                    _ => Fact::Gone(self.key.sibling(Arc::clone(target.uid()))),
                };
                self.record_deletion(&target, purpose);
                self.record_pod(fact);
            }
            Effect::Evicted => {
                self.state.failures.refused = None;
                self.state.failures.succeeded(FailureKind::Evict);
                self.state.failures.succeeded(FailureKind::EvictAmbiguous);
            }
            Effect::EvictionRefused { uid, ready, kind, message } => {
                self.ctx.metrics.write_failed("evict");
                self.warn(kind.reason(), message.clone());
                let failure = self.state.failures.failed(kind, message, now);
                self.state.failures.refuse(&uid, ready, Instant::now(), failure.clone());
                return Some(Interrupt::Failed(failure));
            }
            Effect::BudgetsRecounted => {
                self.state.writes.recount_due = false;
                self.state.writes.recount_at_rest = false;
            }
            Effect::StillRefused(failure) => return Some(Interrupt::Failed(failure)),
            Effect::NameTaken => self.taken += 1,
            Effect::SetNameTaken(name) => {
                // The planner then counts a hash collision and gives the set another name.
                self.state.writes.taken_names.insert(name);
            }
            Effect::Altered { owner, message } => {
                self.state.writes.altered_creates.insert(owner, message);
            }
            Effect::Unaltered(owner) => {
                self.state.writes.altered_creates.remove(&owner);
            }
            Effect::Conflict => self.conflicts += 1,
            Effect::LiveReadDue(reason) => self.state.live.ask(reason),
            Effect::Failed(failure) => return Some(self.record_failure(failure)),
            Effect::DecideAgain => return Some(Interrupt::DecideAgain),
        }
        None
    }

    /// Records a write or a read of a set.
    pub(crate) fn record_set(&mut self, mut fact: Fact<SetEntry>) {
        if let Fact::Is(entry) = &mut fact
            && let Some(known) = self.observation.set(entry.uid())
        {
            self.state.writes.recount_due |= entry.set.replicas != known.set.replicas;
            // Its template is shared, not stored a second time.
            Arc::make_mut(entry).share(known);
        }
        self.observation.record_set(&fact, &self.key);
        self.state.sets.record(fact, self.ctx.clock.now());
    }

    /// Records a write or a read of a pod.
    pub(crate) fn record_pod(&mut self, fact: Fact<PodEntry>) {
        self.observation.record_pod(&fact);
        self.state.pods.record(fact, self.ctx.clock.now());
    }

    fn record_failure(&mut self, failure: WriteFailure) -> Interrupt {
        let WriteFailure { kind, set, verb, event, message, outcome_unknown, silent } = failure;
        if outcome_unknown {
            self.state.live.ask(LiveReadReason::Unknown);
        }
        if let Some(silent) = silent {
            return Interrupt::Silent(silent);
        }
        if let Some(verb) = verb {
            self.ctx.metrics.write_failed(verb);
        }
        match set {
            Some(set) => self.publish_about_set(&set, EventType::Warning, kind.reason(), event),
            None => self.warn(kind.reason(), event),
        }
        Interrupt::Failed(self.state.failures.failed(kind, message, self.ctx.clock.now()))
    }

    fn record_deletion(&self, target: &Target, purpose: Purpose) {
        let word = word_for(purpose);
        self.ctx.metrics.deleted(word, target.why.rule);
        let (pod, rule) = (target.name(), &target.why);
        let message = if self.ctx.owns_sets {
            format!("Deleted pod {pod} for the {word} ({rule})")
        } else {
            format!("Deleted pod: {pod} ({rule})")
        };
        self.publish_about_set(&target.pod.set, EventType::Normal, reason::SUCCESSFUL_DELETE, message);
    }
}
