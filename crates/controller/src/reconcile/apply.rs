//! Applies a decision, in its order: sets, then creates, then deletes. Each write is recorded before the next one. A failure ends
//! the act, but for creates: a refused create ends the creates of its set, the other sets get theirs, and nothing is deleted after.
//!
//! An act is one batch: between its parts it checks that the decision still stands. Nothing is decided here.

mod creates;
mod deletes;
mod refusals;
mod sets;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::PodDeletion;
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{Act, Create, DeleteGroup, SetChange, Target};
use tokio::time::Instant;

use crate::cache::entry::{Entry, SetEntry, number};
use crate::reconcile::live::LiveObject;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::record::Interrupt;
use crate::reconcile::state::LiveReadReason;
use creates::batches;
use deletes::Ages;

/// How long the sizes of a rollout's sets may be behind its last batch, where none follows it.
const UNPUBLISHED: SignedDuration = SignedDuration::from_secs(10);

/// The most pods that one act creates of one set, or deletes. Then the next round looks at the object again: two billion pods
/// that were asked for by mistake can be taken back.
const MOST: usize = 1000;

/// How many pods and sets are created at most until the object is read live again. Its watch can be dead for minutes, and the
/// garbage collector deletes what is created for an object that is gone, which looks like a reason to create more.
const UNREAD: usize = 100;

/// How many deletes are sent before the object is looked at again: a webhook may take its time for each.
const PARALLEL_DELETES: usize = 100;

/// How long one act evicts: each eviction is a request of its own.
const EVICTING: Duration = Duration::from_secs(3);

/// What a decision was made for: the generation, and the id of a request to resume.
type Wanted = (i64, Option<String>);

/// How much one act may still delete.
struct Allowance {
    pods: usize,
    /// Until when it evicts.
    until: Instant,
}

impl Reconciler<'_> {
    /// Carries an act out.
    pub(crate) async fn apply(&mut self, act: &Act) -> Result<(), Interrupt> {
        let wanted = self.wanted();
        for change in &act.sets {
            self.check_still_wanted(&wanted)?;
            if matches!(change, SetChange::Create { .. }) {
                self.check_object_exists(&wanted, 1).await?;
            }
            let effects = self.change_set(change).await;
            self.record(effects)?;
        }
        self.publish(&act.events);
        self.state.known_points.clone_from(&act.points);
        if self.state.live_read.is_some() {
            return Err(Interrupt::DecideAgain);
        }
        let mut interrupt = None;
        for create in &act.creates {
            // Also after one of another set that failed, or was not answered: all creates of an act fit below the ceiling together,
            // so that those of this set are right whatever became of the others.
            if let Err(stop) = self.create_pods(create, &wanted).await {
                stop.add_to(&mut interrupt);
            }
        }
        interrupt.map_or(Ok(()), Err)?;
        if self.state.live_read.is_some() {
            return Err(Interrupt::DecideAgain);
        }
        self.delete_pods(&act.deletes, &wanted).await
    }

    async fn create_pods(&mut self, create: &Create, wanted: &Wanted) -> Result<(), Interrupt> {
        let Some(set) = self.observation.set_of(&create.hash).cloned() else {
            tracing::warn!(hash = create.hash, "no set for the pods to create");
            return Err(Interrupt::DecideAgain);
        };
        if let Some(effect) = creates::selects_no_pod(&set) {
            return self.record(vec![effect]);
        }
        if self.state.altered_creates.contains_key(set.uid()) {
            let effects = self.try_pod(&set).await;
            self.record(effects)?;
        }
        let mut taken = self.pod_names();
        for batch in batches(create.count.min(MOST)) {
            let names = self.new_pod_names(&set, batch, &mut taken);
            self.check_still_wanted(wanted)?;
            self.check_set_exists(&set)?;
            self.check_object_exists(wanted, batch).await?;
            let effects = self.create_batch(&set, &names).await;
            self.record(effects)?;
        }
        if create.count > MOST { Err(Interrupt::Unfinished) } else { Ok(()) }
    }

    /// Deletes one group after the other.
    async fn delete_pods(&mut self, groups: &[DeleteGroup], wanted: &Wanted) -> Result<(), Interrupt> {
        let mut allowance = Allowance { pods: MOST, until: Instant::now() + EVICTING };
        for (place, group) in groups.iter().enumerate() {
            if allowance.pods < group.targets.len() {
                return Err(Interrupt::Unfinished);
            }
            allowance.pods -= group.targets.len();
            let rest = groups[place..].iter().flat_map(|group| &group.targets).take(allowance.pods + 1);
            self.check_targets(rest, wanted)?;
            self.delete_group(group, &allowance, wanted).await?;
        }
        Ok(())
    }

    async fn delete_group(
        &mut self,
        group: &DeleteGroup,
        allowance: &Allowance,
        wanted: &Wanted,
    ) -> Result<(), Interrupt> {
        let ages = Ages::of_rest(&self.observation, group);
        let ready = self.ready_pods();
        // A budget can refuse an unavailable pod for ever.
        let evict = self.state.deployment.spec.pod_deletion == PodDeletion::Evict;
        let (evicted, deleted): (Vec<_>, Vec<_>) =
            group.targets.iter().partition(|target| evict && target.available);
        for part in deleted.chunks(PARALLEL_DELETES) {
            self.check_targets(part.iter().copied(), wanted)?;
            let effects = self.delete_batch(part, group.purpose, &ages).await;
            self.record(effects)?;
        }
        // One by one: what one eviction takes of a budget, the next would be refused for.
        for target in evicted {
            if Instant::now() >= allowance.until {
                // Other objects want their turn, and by now another pod may have to go.
                return Err(Interrupt::Unfinished);
            }
            self.check_targets(std::iter::once(target), wanted)?;
            let effects = self.evict(target, group.purpose, ready, &ages).await;
            self.record(effects)?;
        }
        Ok(())
    }

    /// What is asked for: the generation, and the id of a request to resume.
    fn wanted(&self) -> Wanted {
        let status = self.state.deployment.status.as_ref();
        (self.state.generation(), status.and_then(|status| status.resume_requested.clone()))
    }

    /// Looks at what the watch shows of the object by now. One that is gone or being deleted, and one that asks for something else
    /// than what was decided on, ends the act.
    fn check_still_wanted(&mut self, wanted: &Wanted) -> Result<(), Interrupt> {
        if self.refresh() && self.wanted() == *wanted { Ok(()) } else { Err(Interrupt::DecideAgain) }
    }

    /// Whether the watch shows by now that the set is being deleted, or gone: then its pods go too.
    fn check_set_exists(&self, set: &SetEntry) -> Result<(), Interrupt> {
        let cache = self.ctx.cache();
        let terminates = cache.sets.get(set.uid()).is_some_and(|shown| shown.is_terminating());
        let is_gone = cache.sets.tombstone(set.uid()).is_some_and(|version| version >= set.version());
        if terminates || is_gone { Err(Interrupt::DecideAgain) } else { Ok(()) }
    }

    /// The same as [`Self::check_still_wanted`], and whether the watch shows these pods, which are to go, as they were when it was decided.
    fn check_targets<'t>(
        &mut self,
        mut targets: impl Iterator<Item = &'t Target>,
        wanted: &Wanted,
    ) -> Result<(), Interrupt> {
        self.check_still_wanted(wanted)?;
        let cache = self.ctx.cache();
        let changed = targets.any(|target| {
            let Some(shown) = cache.pods.get(target.uid()) else { return false };
            let (decided_on, now) = (&target.pod, &shown.pod);
            shown.version() > number(&decided_on.resource_version)
                && (decided_on.facts.priority, &decided_on.point) != (now.facts.priority, &now.point)
        });
        if changed { Err(Interrupt::DecideAgain) } else { Ok(()) }
    }

    /// Makes sure that the object still exists before so many more are created.
    async fn check_object_exists(&mut self, wanted: &Wanted, more: usize) -> Result<(), Interrupt> {
        if self.state.created + more <= UNREAD {
            return Ok(());
        }
        if matches!(self.read_object().await, Ok(LiveObject::Present)) {
            return self.check_still_wanted(wanted);
        }
        // The next round reads it again, and ends as for any object that cannot be found or read.
        self.state.live_read = Some(LiveReadReason::Created);
        Err(Interrupt::DecideAgain)
    }

    /// The act without the sizes of its sets, where these may be published with the next batch: every second batch publishes. What
    /// stays unpublished for [`UNPUBLISHED`] is published even if no batch follows.
    pub(crate) fn defer_sizes(&mut self, mut act: Act) -> Act {
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
}
