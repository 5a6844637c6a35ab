//! Applies a decision, in its order: sets, then creates, then deletes. Each write is recorded before the next
//! one. A failure ends the act. Creates are the exception: a refused create ends the creates of its set; the
//! other sets get theirs, and no pod is deleted.
//!
//! Many creates are split: after some of them the deletes go, which do not depend on the others, and the next
//! decision makes more. Otherwise no old pod goes while hundreds of new ones are created.
//!
//! An act is one batch: between its parts the controller checks that the decision is still valid.

mod creates;
mod deletes;
mod recount;
mod sets;

use std::sync::Arc;
use std::time::Duration;

use ordereddeployment_api::PodDeletion;
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{Act, Create, DeleteGroup, SetChange, Target};
use tokio::time::Instant;

use crate::cache::entry::{Entry, SetEntry, number};
use crate::reconcile::live::LiveObject;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::record::Interrupt;
use crate::reconcile::state::live::LiveReadReason;
use creates::Batches;

/// The minimum interval between two writes of the sizes of a rollout's sets.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

/// The most pods that one act creates for one set, or deletes. Then the next round reads the object again, so
/// that a user can undo a mistaken request for two billion pods.
const MOST: usize = 1000;

/// The most pods and sets that are created before the object is read live again. Its watch can be dead for
/// minutes, and the garbage collector deletes what is created for a deleted object, and more are created.
const UNREAD: usize = 100;

/// The most deletes between two checks of the object: a webhook may be slow for each of them.
const PARALLEL_DELETES: usize = 100;

/// How many pods an act creates before its deletes, if it deletes any: five batches, of 1, 2, 4, 8 and 16.
const BEFORE_DELETES: usize = 31;

/// How long one act evicts: each eviction is a separate request.
const EVICTING: Duration = Duration::from_secs(3);

/// What a decision was made for: the generation, and the requests to resume, to abort and to retry.
type Wanted = (i64, Option<String>, Option<i64>, Option<i64>);

/// How much one act may still delete.
struct Allowance {
    pods: usize,
    /// The end of its evictions.
    until: Instant,
}

impl Reconciler<'_> {
    /// Applies an act.
    pub(crate) async fn apply(&mut self, act: &Act) -> Result<(), Interrupt> {
        let wanted = self.wanted();
        let next = std::mem::replace(&mut self.state.writes.next_batch, 1);
        self.note_sizes(&act.sets);
        for change in &act.sets {
            self.check_still_wanted(&wanted)?;
            if matches!(change, SetChange::Create { .. }) {
                self.check_object_exists(&wanted, 1).await?;
            }
            let effects = self.change_set(change).await;
            self.record(effects)?;
        }
        self.publish(&act.events);
        self.state.reporting.known_points.clone_from(&act.points);
        if self.state.live.due.is_some() {
            return Err(Interrupt::DecideAgain);
        }
        let batches = |create: &Create| Batches::of(create.count.min(MOST), next);
        let mut creates: Vec<(&Create, Batches)> =
            act.creates.iter().map(|create| (create, batches(create))).collect();
        // Evictions take long.
        let splits =
            !act.deletes.is_empty() && self.state.deployment.spec.pod_deletion == PodDeletion::Delete;
        let first = if splits { BEFORE_DELETES } else { MOST };
        let mut interrupt = self.create_all(&mut creates, first, &wanted).await.err();
        if interrupt.is_none() {
            interrupt = self.delete_pods(&act.deletes, &wanted).await.err();
        }
        if matches!(interrupt, Some(Interrupt::Failed(_)))
            && let Err(stop) = self.create_all(&mut creates, MOST, &wanted).await
        {
            // Refused deletes, which are tried again later and later, delay no create.
            stop.add_to(&mut interrupt);
        }
        let is_left = creates.iter().any(|(create, batches)| batches.left > 0 || create.count > MOST);
        if is_left {
            if interrupt.is_none() {
                self.state.writes.next_batch =
                    creates.iter().map(|(_, batches)| batches.next).max().unwrap_or(1);
            }
            Interrupt::Unfinished.add_to(&mut interrupt);
        }
        interrupt.map_or(Ok(()), Err)
    }

    /// Creates pods for each set until at least that many of it are sent, or none is left.
    async fn create_all(
        &mut self,
        creates: &mut [(&Create, Batches)],
        most: usize,
        wanted: &Wanted,
    ) -> Result<(), Interrupt> {
        let mut interrupt = None;
        for (create, batches) in creates.iter_mut().filter(|(_, batches)| batches.left > 0) {
            // Also after a failure or a missing answer for another set: all creates of an act together stay
            // below the ceiling, so that the creates of this set are correct whatever happened to the others.
            if let Err(stop) = self.create_pods(create, batches, most, wanted).await {
                batches.left = 0;
                stop.add_to(&mut interrupt);
            }
        }
        interrupt.map_or(Ok(()), Err)?;
        if self.state.live.due.is_some() { Err(Interrupt::DecideAgain) } else { Ok(()) }
    }

    async fn create_pods(
        &mut self,
        create: &Create,
        batches: &mut Batches,
        most: usize,
        wanted: &Wanted,
    ) -> Result<(), Interrupt> {
        let Some(set) = self.observation.set_of(&create.hash).cloned() else {
            tracing::warn!(hash = create.hash, "no set for the pods to create");
            return Err(Interrupt::DecideAgain);
        };
        if let Some(effect) = creates::selects_no_pod(&set) {
            return self.record(vec![effect]);
        }
        if self.state.writes.altered_creates.contains_key(set.uid()) {
            let effects = self.try_pod(&set).await;
            self.record(effects)?;
        }
        let end = batches.left.saturating_sub(most);
        let mut is_first = self.is_first_of(&set);
        while batches.left > end {
            let batch = batches.take();
            self.check_still_wanted(wanted)?;
            self.check_set_exists(&set)?;
            self.check_object_exists(wanted, batch).await?;
            let effects = self.create_batch(&set, batch, std::mem::take(&mut is_first)).await;
            self.record(effects)?;
        }
        Ok(())
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
        let ready = self.ready_pods();
        // A budget can refuse the eviction of an unavailable pod forever.
        let evict = self.state.deployment.spec.pod_deletion == PodDeletion::Evict;
        let (evicted, deleted): (Vec<_>, Vec<_>) =
            group.targets.iter().partition(|target| evict && target.available);
        for part in deleted.chunks(PARALLEL_DELETES) {
            self.check_targets(part.iter().copied(), wanted)?;
            let effects = self.delete_batch(part, group.purpose).await;
            self.record(effects)?;
        }
        // One by one: an eviction uses up the budget, and the next one in parallel would be refused.
        for target in evicted {
            if Instant::now() >= allowance.until {
                // Other objects wait for the worker, and the order may have changed.
                return Err(Interrupt::Unfinished);
            }
            self.check_targets(std::iter::once(target), wanted)?;
            let effects = self.evict(target, group.purpose, ready).await;
            self.record(effects)?;
        }
        Ok(())
    }

    /// What the user asks for: the generation, and the requests in the status.
    fn wanted(&self) -> Wanted {
        let status = self.state.deployment.stored_status();
        let resume = status.resume_requested.clone();
        (self.state.generation(), resume, status.abort_requested, status.retry_requested)
    }

    /// Checks what the watch shows of the object now. The act ends if the object is gone or terminating, or
    /// if the user asks for something else than at the decision.
    fn check_still_wanted(&mut self, wanted: &Wanted) -> Result<(), Interrupt> {
        let is_wanted = self.refresh() && self.wanted() == *wanted && !self.is_resized();
        if is_wanted { Ok(()) } else { Err(Interrupt::DecideAgain) }
    }

    /// Whether the watch shows another size of a plain ReplicaSet by now.
    fn is_resized(&self) -> bool {
        let cache = self.ctx.cache();
        let resized = |entry: &Arc<SetEntry>| {
            let shown = cache.sets.get(entry.key()).filter(|shown| shown.version() > entry.version());
            shown.is_some_and(|shown| shown.set.replicas != entry.set.replicas)
        };
        !self.ctx.owns_sets && self.observation.sets.iter().any(resized)
    }

    /// Whether the watch shows by now that the set is being deleted, or gone: then its pods go too. If it has
    /// another owner, it is reconciled under another name, at the same time.
    fn check_set_exists(&self, set: &SetEntry) -> Result<(), Interrupt> {
        let cache = self.ctx.cache();
        let shown = cache.sets.get(set.key());
        let leaves = shown.is_some_and(|shown| {
            shown.is_terminating() || (shown.version() > set.version() && shown.owner() != set.owner())
        });
        let is_gone = cache.sets.tombstone(set.key()).is_some_and(|version| version >= set.version());
        if leaves || is_gone { Err(Interrupt::DecideAgain) } else { Ok(()) }
    }

    /// [`Self::check_still_wanted`], and whether the watch shows these pods as they were at the decision.
    fn check_targets<'t>(
        &mut self,
        mut targets: impl Iterator<Item = &'t Target>,
        wanted: &Wanted,
    ) -> Result<(), Interrupt> {
        self.check_still_wanted(wanted)?;
        let (cache, key) = (self.ctx.cache(), &self.key);
        let changed = targets.any(|target| {
            let Some(shown) = cache.pods.get(&key.sibling(Arc::clone(target.uid()))) else { return false };
            let (decided_on, now) = (&target.pod, &shown.pod);
            shown.version() > number(&decided_on.resource_version)
                && (decided_on.facts.priority, &decided_on.point) != (now.facts.priority, &now.point)
        });
        if changed { Err(Interrupt::DecideAgain) } else { Ok(()) }
    }

    /// Checks that the object still exists before that many more pods or sets are created.
    async fn check_object_exists(&mut self, wanted: &Wanted, more: usize) -> Result<(), Interrupt> {
        if self.state.writes.created + more <= UNREAD {
            return Ok(());
        }
        if matches!(self.read_object().await, Ok(LiveObject::Present)) {
            return self.check_still_wanted(wanted);
        }
        // The next round reads the object live, and ends as for any object that cannot be found or read.
        self.state.live.ask(LiveReadReason::Created);
        Err(Interrupt::DecideAgain)
    }

    /// Removes the sizes of the sets from an act if they may lag and were written a moment ago.
    pub(crate) fn defer_sizes(&mut self, mut act: Act) -> Act {
        let now = Instant::now();
        self.state.reporting.publishes_at = None;
        if !act.may_lag || act.sets.is_empty() {
            return act;
        }
        let due = self.state.reporting.published.map(|published| published + PUBLISH_INTERVAL);
        if let Some(due) = due.filter(|due| *due > now) {
            act.sets.clear();
            act.events.retain(|event| event.reason != reason::SCALING_REPLICA_SET);
            self.state.reporting.publishes_at = Some(due);
        } else {
            self.state.reporting.published = Some(now);
        }
        act
    }
}
