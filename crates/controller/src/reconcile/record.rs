//! Records the effects of an act: its requests change the state in memory only here.

use std::sync::Arc;

use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{EventType, Failure, FailureKind, Purpose, Target};
use tokio::time::Instant;

use crate::cache::entry::{Entry, PodEntry, SetEntry};
use crate::cache::expectations::Fact;
use crate::reconcile::effect::{Effect, Silent, WriteFailure, word_for};
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::state::live::LiveReadReason;

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
    /// Keeps the most important of several interrupts: the first that ends the reconciliation or failure,
    /// then `DecideAgain`, then `Unfinished`.
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
