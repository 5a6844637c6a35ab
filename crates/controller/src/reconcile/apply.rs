//! Execute: what a decision asks for, in its order: sets, then creates, then deletes. A failure ends it, but for creates: one
//! that the API server refuses ends the round of its set, the other sets have theirs, and nothing is deleted after that.
//! One act is not more than one batch: between its parts it looks whether it is still wanted.
//!
//! Nothing is decided here. What was done is remembered until the watch shows it; what may or may not have been done is
//! read live before the next decision.

mod creates;
mod deletes;
mod refusals;
mod sets;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{Act, Failure, FailureKind};

use crate::client::error::RequestError;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::snapshot::LiveObject;
use crate::reconcile::state::LiveReadReason;

/// How long the sizes of a rollout's sets may be behind its last batch, where none follows it.
const UNPUBLISHED: SignedDuration = SignedDuration::from_secs(10);

/// The most pods that one act creates of one set, or deletes. Then the object is looked at anew: whoever asked for two billion
/// pods by mistake must be able to take it back.
const MOST: usize = 1000;

/// How many pods and sets are created at most until the object is read live again. Its watch can be dead for minutes, and the
/// garbage collector deletes what is created for an object that is gone, which looks like a reason to create more.
const UNREAD: usize = 100;

/// Why an act was not carried out whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// The API server refused something, or failed: wait before trying again.
    Failed(Failure),
    /// Something is not as it was when the decision was made.
    DecideAgain,
    /// There is more to do than is done without looking at the object anew.
    Unfinished,
}

/// Keeps the first failure of several reasons to stop; a failure outweighs a need to decide again, and both that there is more.
fn worst(halt: &mut Option<Interrupt>, stop: Interrupt) {
    let keeps = match halt {
        Some(Interrupt::Failed(_)) => true,
        Some(Interrupt::DecideAgain) => stop == Interrupt::Unfinished,
        Some(Interrupt::Unfinished) | None => false,
    };
    if !keeps {
        *halt = Some(stop);
    }
}

impl Reconciler<'_> {
    pub(crate) async fn execute(&mut self, act: &Act) -> Result<(), Interrupt> {
        self.decided_on = self.requested();
        // As they are now: what changes from here on is not what was decided on.
        let decided = if act.deletes.is_empty() { Vec::new() } else { self.pods(&self.sets()) };
        for change in &act.sets {
            self.check_still_wanted()?;
            self.change_set(change).await?;
        }
        for event in &act.events {
            self.ctx.events.publish(&self.state.deployment, event);
        }
        self.state.known_points.clone_from(&act.points);
        if self.state.live_read.is_some() {
            return Err(Interrupt::DecideAgain);
        }
        let mut halt = None;
        for create in &act.creates {
            // Also after one of another set that failed, or was not answered: all creates of an act fit below the ceiling together,
            // so that those of this set are right whatever became of the others.
            if let Err(stop) = self.create_pods(&create.hash, create.count).await {
                worst(&mut halt, stop);
            }
        }
        halt.map_or(Ok(()), Err)?;
        if self.state.live_read.is_some() {
            return Err(Interrupt::DecideAgain);
        }
        self.delete_groups(&act.deletes, decided).await
    }

    /// What is asked for: the generation, and who asks the rollout to go on.
    fn requested(&self) -> (i64, Option<String>) {
        let status = self.state.deployment.status.as_ref();
        (self.state.generation(), status.and_then(|status| status.resume_requested.clone()))
    }

    /// Looks at what the watch shows of the object by now. One that is gone or being deleted, and one that asks for something else
    /// than what was decided on, ends the act.
    fn check_still_wanted(&mut self) -> Result<(), Interrupt> {
        if self.is_cached() && self.requested() == self.decided_on {
            Ok(())
        } else {
            Err(Interrupt::DecideAgain)
        }
    }

    /// Makes sure that the object is still there before so many more are created.
    async fn check_object_exists(&mut self, more: usize) -> Result<(), Interrupt> {
        if self.state.created + more <= UNREAD {
            return Ok(());
        }
        if matches!(self.read_deployment().await, Ok(LiveObject::Present)) {
            return self.check_still_wanted();
        }
        // The next round reads it again, and ends as for any object that cannot be found or read.
        self.state.live_read = Some(LiveReadReason::Created);
        Err(Interrupt::DecideAgain)
    }

    /// The act without what it says of the sizes of its sets, where these may be published with the next batch: every second batch
    /// publishes. What stays unpublished for [`UNPUBLISHED`] is published even if no batch follows.
    pub(crate) fn fold(&mut self, mut act: Act) -> Act {
        let now = self.ctx.clock.now();
        let since = self.state.unpublished.filter(|since| *since <= now);
        let lags = if !act.may_lag || act.sets.is_empty() {
            None
        } else if act.deletes.is_empty() {
            since.filter(|since| now.duration_since(*since) < UNPUBLISHED)
        } else {
            // No more than this one batch may be behind.
            (since.is_none() && act.deletes.len() == 1).then_some(now)
        };
        if lags.is_some() {
            act.sets.clear();
            act.events.retain(|event| event.reason != reason::SCALING_REPLICA_SET);
        }
        self.state.unpublished = lags;
        act
    }

    /// When sizes that are not published yet have to be.
    pub(crate) fn publishes_at(&self) -> Option<Timestamp> {
        self.state.unpublished?.checked_add(UNPUBLISHED).ok()
    }

    /// Takes note of a failed write, tells of it, and ends the act.
    fn failed(
        &mut self,
        what: FailureKind,
        verb: &str,
        doing: &str,
        error: &RequestError,
        message: String,
    ) -> Interrupt {
        self.ctx.metrics.write_failed(verb);
        if error.is_outcome_unknown() {
            self.state.live_read = Some(LiveReadReason::Unknown);
        }
        self.warn(what.reason(), format!("Error {doing}: {message}"));
        let now = self.ctx.clock.now();
        Interrupt::Failed(self.state.failed(what, message, now))
    }
}
