//! One reconciliation of one OrderedDeployment, in rounds: snapshot, decide, apply, record, report.
//!
//! [`Reconciler::run`] is the pipeline; the modules below are its steps. The requests of an act run in
//! parallel and return effects, which `record` applies to the state in memory. Live reads and status writes
//! change it themselves.

pub(crate) mod apply;
pub(crate) mod claim;
pub(crate) mod context;
pub(crate) mod live;
pub(crate) mod merge_patch;
pub(crate) mod observation;
pub(crate) mod plain;
pub(crate) mod reconciler;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod reports;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod templates;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ordereddeployment_api::names::reason;
use ordereddeployment_kubernetes::{Named, Worker, backoff};
use ordereddeployment_planner::{Act, Decision, FailureKind, Read, Record, Snapshot, decide, decide_sets};
use ordereddeployment_wire::NamespacedUid;
use tokio::time::Instant;

use crate::cache::entry::{Entry, SetEntry};
use crate::error::Error;
use crate::metrics::WaitTimes;
use crate::objects::single_set;
use crate::reconcile::context::Context;
use crate::reconcile::live::LiveObject;
use crate::reconcile::observation::Observation;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::record::{Interrupt, Silent};
use crate::reconcile::report::{REPORT_INTERVAL, StatusChange, StatusWrite};
use crate::reconcile::state::live::LiveReadReason;

/// The most decisions of one reconciliation: other objects wait for the worker.
const ROUNDS: usize = 100;
/// The shortest requeue interval.
const SHORTEST: Duration = Duration::from_millis(1);
/// When a process that is not the leader, or stands aside, tries again. Until then it says nothing.
const NOT_LEADING: Duration = Duration::from_secs(1);
/// The resync period: every object is reconciled again after it, even without an event.
const RESYNC: Duration = Duration::from_secs(300);

/// The result of a reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing to do before that time has passed.
    Idle(Duration),
    /// A write failed. Requeue with backoff, at the latest after this time.
    Failed(Duration),
    /// The API server refused an eviction. The controller asks again after that time.
    Refused(Duration),
    /// There may be more to do.
    Unfinished,
    /// A live read is due, and waits for that time: too many were due lately. Nothing is decided before it.
    Deferred(Duration),
    /// The object is deleted or terminating.
    Nothing,
    /// The object is not found. It is read again while the watch still shows it: the answer can be wrong.
    NotFound,
}

/// Reconciles one OrderedDeployment, because of an event at that time, if any. Returns when to reconcile
/// again; `None`: an event shows it. An error is logged, and the object is requeued.
pub(crate) async fn reconcile(
    named: &Named,
    event: Option<Instant>,
    ctx: &Context,
    worker: Worker,
) -> Option<Duration> {
    let started = Instant::now();
    // The object may have been deleted while it waited in the queue.
    let deployment = ctx.shown(named)?;
    let Named { namespace, name } = named.clone();
    let state = ctx.state(&deployment);
    let mut state = state.lock().await;
    if let Some(until) = state.failures.not_before.filter(|until| started < *until) {
        return Some(until - started);
    }
    state.refresh(Arc::clone(&deployment));
    state.nodes.clear();
    state.sources.clear();
    let mut reconciler = Reconciler {
        ctx,
        worker,
        requests: ctx.requests.for_object(&namespace, event),
        state: &mut state,
        observation: Observation::default(),
        namespace,
        name,
        key: NamespacedUid::of(&deployment.metadata),
        live: false,
        raced: false,
        has_raced: false,
        missed: 0,
        taken: 0,
        conflicts: 0,
    };
    let mut end = reconciler.run().await;
    reconciler.state.failures.not_before = reconciler.requests.retry_after();
    let waits = if reconciler.refresh() { reconciler.waits() } else { WaitTimes::default() };
    ctx.metrics.waits(&reconciler.key, &reconciler.name, waits);
    if reconciler.state.claims.message(|_| true).is_some() {
        reconciler.state.live.ask(LiveReadReason::Conflict);
        if let Ok(Outcome::Idle(wait)) = end {
            end = Ok(Outcome::Failed(wait));
        }
    }
    let missed = reconciler.missed > 0;
    if let Err(error) = &end
        && error.is_forbidden()
        && reconciler.state.failures.error != Some(error.to_string())
    {
        // Once: the same answer is not published again until something works.
        reconciler.warn(reason::NOT_PERMITTED, error.to_string());
    }
    let result = match &end {
        Ok(Outcome::Failed(_) | Outcome::Refused(_) | Outcome::NotFound) => "failed",
        Ok(_) => "ok",
        Err(_) => "error",
    };
    ctx.metrics.reconciles.with_label_values(&[result]).inc();
    ctx.metrics.reconcile_duration.observe(started.elapsed().as_secs_f64());
    if let Ok(Outcome::Idle(_) | Outcome::Nothing) = end {
        (state.failures.in_a_row, state.failures.error) = (0, None);
    } else if !matches!(end, Ok(Outcome::Unfinished | Outcome::Deferred(_) | Outcome::Refused(_))) {
        // A refused eviction has its own backoff. Other requests may fail in turn with it, and keep theirs.
        state.failures.in_a_row = state.failures.in_a_row.saturating_add(1);
    }
    let asked = state
        .failures
        .not_before
        .map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
    let after = |wait: Duration| Some(wait.max(asked));
    if missed {
        return after(Duration::ZERO);
    }
    match end {
        Ok(Outcome::Idle(wait) | Outcome::Refused(wait) | Outcome::Deferred(wait)) => after(wait),
        Ok(Outcome::NotFound) => after(backoff::after(state.failures.in_a_row)),
        Ok(Outcome::Unfinished) => after(Duration::ZERO),
        Ok(Outcome::Nothing) => None,
        Ok(Outcome::Failed(wait)) => after(backoff::after(state.failures.in_a_row).min(wait)),
        Err(error) if error.is_not_leading() => after(NOT_LEADING),
        Err(error) => {
            let wait = backoff::after(state.failures.in_a_row).max(asked);
            let error = error.to_string();
            if state.failures.error.as_ref() == Some(&error) {
                tracing::debug!(%error, ?wait, "will try again");
            } else {
                tracing::warn!(%error, ?wait, "will try again");
            }
            state.failures.error = Some(error);
            after(wait)
        }
    }
}

impl Reconciler<'_> {
    async fn run(&mut self) -> Result<Outcome, Error> {
        // Whether a write failed in this reconciliation: then the next decision is only reported.
        let mut failed = false;
        // Whether everything that no longer matches was released since the last live read.
        let mut released = false;
        let started = Instant::now();
        for _ in 0..ROUNDS {
            // Snapshot: the object, its sets and its pods, merged from cache and expectations; or read live.
            if !self.refresh() {
                return Ok(Outcome::Nothing);
            }
            if let Some(reason) = self.live_read_reason() {
                if reason.is_by_others() && !failed {
                    let now = Instant::now();
                    if let Some(wait) = self.state.live.pace.wait(now) {
                        return Ok(Outcome::Deferred(wait));
                    }
                    self.state.live.pace.count(now);
                }
                match self.read_live(reason).await? {
                    LiveObject::Present => {}
                    // From now on the garbage collector deletes what the object owns.
                    LiveObject::Terminating => return Ok(Outcome::Nothing),
                    LiveObject::NotFound => return Ok(Outcome::NotFound),
                }
                // The live read may show more objects that no longer match.
                released = false;
                continue;
            }
            self.observation = self.observe();
            if !std::mem::replace(&mut released, true) {
                self.state.claims.unreleased.clear();
            }
            let has_learned = self.release().await?;
            if std::mem::take(&mut self.raced) {
                self.state.live.ask(LiveReadReason::Conflict);
                released = false;
                continue;
            }
            if has_learned {
                // The requests took time: the watches may show more, also of the object itself.
                continue;
            }
            let snapshot = self.snapshot();

            // Decide.
            let decision = match (self.ctx.owns_sets, self.decide(&snapshot)) {
                (true, Decision::Act(act)) => Decision::Act(self.defer_sizes(act)),
                (false, Decision::Act(act)) if !self.has_confirmed_sizes(&act).await? => continue,
                (_, decision) => decision,
            };
            if let Some(log) = &self.ctx.decision_log {
                log(&snapshot, &decision);
            }

            // Apply and record; report if nothing is left to do.
            match decision {
                Decision::Read(read) => self.read(&snapshot, read).await?,
                Decision::Record(record) => match self.store(&record).await {
                    // The API server did not store all of it: no other write may follow.
                    Ok(StatusWrite::InPart) => return Ok(Outcome::Failed(RESYNC)),
                    Ok(StatusWrite::Yes | StatusWrite::Conflict) => {}
                    Err(error) => {
                        self.report_unstored_pause(&error).await;
                        return Err(error);
                    }
                },
                Decision::Act(act) if failed => return self.report(&act, true).await,
                Decision::Act(act) if act.is_idle() && self.state.failures.current.is_some() => {
                    // What failed before is no longer asked for.
                    self.nothing_fails();
                    self.state.reporting.known_points = act.points;
                }
                Decision::Act(act) if act.is_idle() => {
                    self.recount_at_rest().await;
                    match self.report(&act, false).await? {
                        Outcome::Unfinished => {}
                        outcome => return Ok(outcome),
                    }
                }
                Decision::Act(act) if self.conflicts_midway(&act, started).await => {}
                Decision::Act(act) => {
                    self.live = false;
                    match self.apply(&act).await {
                        Ok(()) => self.nothing_fails(),
                        Err(Interrupt::DecideAgain) => released = false,
                        Err(Interrupt::Unfinished) => {
                            self.nothing_fails();
                            return Ok(Outcome::Unfinished);
                        }
                        Err(Interrupt::Silent(Silent::NotLeading)) => {
                            return Ok(Outcome::Deferred(NOT_LEADING));
                        }
                        Err(Interrupt::Silent(Silent::NamespaceTerminates)) => {
                            return Ok(Outcome::Idle(RESYNC));
                        }
                        Err(Interrupt::Failed(failure)) => {
                            self.state.failures.current = Some(failure);
                            failed = true;
                        }
                    }
                }
            }
        }
        tracing::debug!("much to do: letting other objects go first");
        Ok(Outcome::Unfinished)
    }

    /// Before pods of a plain Deployment are deleted because a set was made smaller: reads the Deployment,
    /// unless that was done since the set was changed. A newer generation means that a user changed it,
    /// perhaps after annotating a pod: then everything is read live, and the answer is no.
    async fn has_confirmed_sizes(&mut self, act: &Act) -> Result<bool, Error> {
        let targets = act.deletes.iter().flat_map(|group| &group.targets);
        let of_sets: BTreeSet<&Arc<str>> = targets.map(|target| &target.pod.set).collect();
        let generation = |entry: &Arc<SetEntry>| entry.object.metadata.generation.unwrap_or(0);
        let sets = self.observation.sets.iter().map(|entry| (Arc::clone(entry.uid()), generation(entry)));
        let sets: BTreeMap<Arc<str>, i64> = sets.collect();
        if of_sets.iter().all(|uid| self.state.writes.confirmed_sets.get(*uid) == sets.get(*uid)) {
            return Ok(true);
        }
        if !self.live && single_set(&self.name).is_none() && self.read_object().await? == LiveObject::NotFound
        {
            self.state.live.ask(LiveReadReason::Generation);
        }
        self.state.writes.confirmed_sets = sets;
        Ok(self.live || self.live_read_reason().is_none())
    }

    fn decide(&self, snapshot: &Snapshot) -> Decision {
        if self.ctx.owns_sets { decide(snapshot) } else { decide_sets(snapshot) }
    }

    /// Reads what a decision asks for.
    async fn read(&mut self, snapshot: &Snapshot, read: Read) -> Result<(), Error> {
        match read {
            Read::Live => self.state.live.ask(LiveReadReason::Asked),
            Read::Nodes(names) => self.read_nodes(&names).await?,
            Read::Sources(sources) => self.read_sources(&sources).await?,
            Read::Template(sets) => {
                let record = self.compare_templates(snapshot, &sets).await;
                self.state.templates.comparison = Some(record);
            }
            Read::DryRun { hash } => {
                let answer = self.try_template(&hash).await;
                let template = &self.state.deployment.spec.template;
                self.state.templates.record(template, answer, Instant::now());
            }
        }
        Ok(())
    }

    /// When a dry run without an answer is repeated.
    fn asks_again(&self) -> Option<Duration> {
        self.state.templates.asks_again(&self.state.deployment.spec.template, Instant::now())
    }

    /// Stores a status that must be stored before any other write.
    async fn store(&mut self, record: &Record) -> Result<StatusWrite, Error> {
        let stored = self.store_status(&record.status).await?;
        if stored == StatusWrite::Yes {
            self.publish(&record.events);
        }
        Ok(stored)
    }

    /// What the object waits for, for metrics.
    fn waits(&self) -> WaitTimes {
        let status = self.state.deployment.status.as_ref();
        let refused = [FailureKind::Evict, FailureKind::EvictAmbiguous];
        WaitTimes {
            held: status.and_then(|status| status.hold.as_ref()).map(|hold| hold.since.0),
            blocked: status.and_then(|status| status.blocked.as_ref()).map(|blocked| blocked.since.0),
            refused: refused.iter().filter_map(|what| self.state.failures.since.get(what).copied()).min(),
        }
    }

    fn nothing_fails(&mut self) {
        self.state.failures.current = None;
        self.state.failures.refused = None;
    }

    /// Reports, and returns when to reconcile again.
    async fn report(&mut self, act: &Act, failed: bool) -> Result<Outcome, Error> {
        let now = self.ctx.clock.now();
        let until = |time: Timestamp| Duration::try_from(time.duration_since(now)).unwrap_or_default();
        let change = StatusChange::of(&self.status(), &act.status);
        let since = self.state.reporting.reported.map(|reported| reported.elapsed());
        let left = since.map_or(Duration::ZERO, |since| change.every().saturating_sub(since));
        // A status that was not stored in full is retried with the backoff of failures.
        if !failed && !left.is_zero() && self.state.reporting.unstored.is_empty() {
            let asks = self.asks_again();
            let wait = [act.requeue, self.publishes_after(), asks].into_iter().flatten();
            return Ok(Outcome::Idle(wait.fold(left, Duration::min).max(SHORTEST)));
        }
        let stored = self.store_status(&act.status).await?;
        if stored == StatusWrite::Conflict {
            return Ok(if failed { Outcome::Failed(RESYNC) } else { Outcome::Unfinished });
        }
        if change != StatusChange::Nothing {
            self.state.reporting.reported = Some(Instant::now());
        }
        if !failed {
            self.state.failures.since.retain(|what, _| *what == FailureKind::Claim);
            self.publish(&act.events);
            self.state.reporting.known_points.clone_from(&act.points);
        }
        let sets_wait = self.sets_wait().filter(|_| change != StatusChange::Conditions);
        let all_stored = if self.ctx.owns_sets {
            sets_wait.is_some() || self.report_sets().await
        } else {
            // The Deployment controller waits for these statuses.
            self.report_plain_sets(act).await
        };
        self.warn_of_malformed();
        if failed {
            return Ok(self.refused(act));
        }
        // A second later, so that the entry has expired for certain.
        let expires = self.expectations_expire().map(|time| until(time) + Duration::from_secs(1));
        let asks = self.asks_again();
        let wait = [act.requeue, expires, sets_wait, self.publishes_after(), asks]
            .into_iter()
            .flatten()
            .fold(RESYNC, Duration::min);
        let wait = wait.max(SHORTEST);
        Ok(if all_stored && stored == StatusWrite::Yes { Outcome::Idle(wait) } else { Outcome::Failed(wait) })
    }

    /// Reports during a reconciliation whose requests are slow; fast ones report at their end only, and the
    /// end shows a failure. Returns whether another client wrote in between. Not for a Deployment.
    async fn conflicts_midway(&mut self, act: &Act, started: Instant) -> bool {
        let since = self.state.reporting.reported.map_or(started, |reported| reported.max(started)).elapsed();
        let change = StatusChange::of(&self.status(), &act.status);
        if !self.ctx.owns_sets || change == StatusChange::Nothing || since < REPORT_INTERVAL {
            return false;
        }
        self.state.reporting.reported = Some(Instant::now());
        matches!(self.store_status(&act.status).await, Ok(StatusWrite::Conflict))
    }

    /// When sizes that lag must be written.
    fn publishes_after(&self) -> Option<Duration> {
        self.state.reporting.publishes_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// The end of a reconciliation in which a write failed: refused evictions have their own backoff.
    fn refused(&self, act: &Act) -> Outcome {
        let evicts =
            self.state.failures.current.as_ref().is_some_and(|failure| {
                matches!(failure.what, FailureKind::Evict | FailureKind::EvictAmbiguous)
            });
        match self.state.failures.refused.as_ref().filter(|_| evicts) {
            Some(refused) => {
                let wait = refused.until.saturating_duration_since(Instant::now());
                Outcome::Refused(act.requeue.map_or(wait, |requeue| requeue.min(wait)).max(SHORTEST))
            }
            None => Outcome::Failed(RESYNC),
        }
    }
}
