//! One pass over one OrderedDeployment: observe, plan, execute, report, until there is nothing more to do.

pub(crate) mod apply;
pub(crate) mod claim;
pub(crate) mod compare;
pub(crate) mod compared;
pub(crate) mod merge_patch;
pub(crate) mod reconciler;
pub(crate) mod report;
pub(crate) mod snapshot;
pub(crate) mod state;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube_runtime::controller::Action;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{Act, Decision, Event, FailureKind, Read, Record, decide};
use tokio::time::Instant;

use crate::Error;
use crate::reconcile::apply::Interrupt;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::report::{StatusChange, StatusWrite};
use crate::reconcile::snapshot::LiveObject;
use crate::reconcile::state::LiveReadReason;
use crate::runtime::backoff;
use crate::runtime::context::Context;
use crate::runtime::metrics::WaitTimes;

/// How many decisions one pass makes at most: others want their turn.
const ROUNDS: usize = 100;
/// How soon a pass follows another at the earliest, where it waits for time to pass.
const SHORTEST: Duration = Duration::from_millis(1);
/// How soon everything is looked at again, even if nothing is seen to happen.
const RESYNC: Duration = Duration::from_secs(300);

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing more to do before that time is over.
    Idle(Duration),
    /// A write failed. It is tried again after the usual wait, at the latest after this time.
    Failed(Duration),
    /// An eviction was refused, and is asked for again after that time.
    Refused(Duration),
    /// There may be more to do.
    Unfinished,
    /// The object is gone, or going.
    Nothing,
    /// The object is not found. It is read again while the watch still shows it: the answer may be wrong.
    NotFound,
}

/// Looks at one OrderedDeployment. What goes wrong is logged and tried again later.
pub(crate) async fn reconcile(deployment: Arc<OrderedDeployment>, ctx: Arc<Context>) -> Action {
    let started = Instant::now();
    let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
    if ctx.cached(&namespace, &name, deployment.metadata.uid.as_deref().unwrap_or_default()).is_none() {
        // It went while it waited for its turn.
        return Action::await_change();
    }
    let state = ctx.state(&deployment);
    let mut state = state.lock().await;
    if let Some(until) = state.not_before.filter(|until| started < *until) {
        return Action::requeue(until - started);
    }
    state.refresh(Arc::clone(&deployment));
    state.nodes.clear();
    state.sources.clear();
    let mut pass = Reconciler {
        ctx: &ctx,
        requests: ctx.requests.for_object(),
        state: &mut state,
        namespace,
        name,
        uid: deployment.uid().unwrap_or_default().into(),
        live: false,
        raced: false,
        has_raced: false,
        taken: 0,
        conflicts: 0,
        decided_on: (0, None),
    };
    let mut end = pass.run().await;
    pass.state.not_before = pass.requests.retry_after();
    let waits = if pass.is_cached() { pass.waits() } else { WaitTimes::default() };
    ctx.metrics.waits(&pass.uid, &pass.namespace, &pass.name, waits);
    if pass.state.unclaimed().is_some() {
        pass.state.live_read = Some(LiveReadReason::Conflict);
        if let Ok(Outcome::Idle(wait)) = end {
            end = Ok(Outcome::Failed(wait));
        }
    }
    let result = match &end {
        Ok(Outcome::Failed(_) | Outcome::Refused(_) | Outcome::NotFound) => "failed",
        Ok(_) => "ok",
        Err(_) => "error",
    };
    ctx.metrics.reconciles.with_label_values(&[result]).inc();
    ctx.metrics.reconcile_duration.observe(started.elapsed().as_secs_f64());
    if let Ok(Outcome::Idle(_) | Outcome::Nothing | Outcome::Refused(_)) = end {
        state.failures = 0;
    } else if !matches!(end, Ok(Outcome::Unfinished)) {
        state.failures = state.failures.saturating_add(1);
    }
    let asked =
        state.not_before.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
    let after = |wait: Duration| Action::requeue(wait.max(asked));
    match end {
        Ok(Outcome::Idle(wait) | Outcome::Refused(wait)) => after(wait),
        Ok(Outcome::NotFound) => after(backoff::after(state.failures)),
        Ok(Outcome::Unfinished) => after(Duration::ZERO),
        Ok(Outcome::Nothing) => Action::await_change(),
        Ok(Outcome::Failed(wait)) => after(backoff::after(state.failures).min(wait)),
        Err(error) => {
            let wait = backoff::after(state.failures).max(asked);
            tracing::warn!(%error, ?wait, "will try again");
            after(wait)
        }
    }
}

impl Reconciler<'_> {
    async fn run(&mut self) -> Result<Outcome, Error> {
        let mut failed = false;
        let mut released = false;
        for _ in 0..ROUNDS {
            if !self.is_cached() {
                return Ok(Outcome::Nothing);
            }
            if let Some(due) = self.live_read_reason() {
                match self.read_live(due).await? {
                    LiveObject::Present => {
                        // It may show more that matches no more.
                        released = false;
                        continue;
                    }
                    // What it owns is the garbage collector's from now on.
                    LiveObject::Terminating => return Ok(Outcome::Nothing),
                    LiveObject::NotFound => return Ok(Outcome::NotFound),
                }
            }
            if !std::mem::replace(&mut released, true) {
                self.state.unreleased.clear();
            }
            self.release().await?;
            if std::mem::take(&mut self.raced) {
                self.state.live_read = Some(LiveReadReason::Conflict);
                released = false;
                continue;
            }
            let snapshot = self.observe();
            let decision = match decide(&snapshot) {
                Decision::Act(act) => Decision::Act(self.fold(act)),
                other => other,
            };
            self.ctx.decision_log.record(&snapshot, &decision);
            match decision {
                Decision::Read(Read::Live) => self.state.live_read = Some(LiveReadReason::Asked),
                Decision::Read(Read::Nodes(names)) => self.read_nodes(&names).await?,
                Decision::Read(Read::Sources(sources)) => self.read_sources(&sources).await?,
                Decision::Read(Read::Template(sets)) => self.compare_templates(&sets).await,
                Decision::Read(Read::DryRun { hash }) => self.try_template(&hash).await,
                Decision::Record(record) => {
                    if self.record(&record).await? == StatusWrite::InPart {
                        // What must be stored before anything is done is not.
                        return Ok(Outcome::Failed(RESYNC));
                    }
                }
                Decision::Act(act) if failed => return self.end(&act, true).await,
                Decision::Act(act) if act.is_idle() && self.state.failure.is_some() => {
                    // What failed before is not wanted any more.
                    self.nothing_fails();
                    self.state.known_points.clone_from(&act.points);
                }
                Decision::Act(act) if act.is_idle() => match self.end(&act, false).await? {
                    Outcome::Unfinished => {}
                    end => return Ok(end),
                },
                Decision::Act(act) => {
                    self.live = false;
                    match self.execute(&act).await {
                        Ok(()) => self.nothing_fails(),
                        Err(Interrupt::DecideAgain) => released = false,
                        Err(Interrupt::Unfinished) => {
                            self.nothing_fails();
                            return Ok(Outcome::Unfinished);
                        }
                        Err(Interrupt::Failed(failure)) => {
                            self.state.failure = Some(failure);
                            failed = true;
                        }
                    }
                }
            }
        }
        tracing::debug!("much to do: letting others go first");
        Ok(Outcome::Unfinished)
    }

    /// What the object waits for, for metrics.
    fn waits(&self) -> WaitTimes {
        let status = self.state.deployment.status.as_ref();
        let refused = [FailureKind::Evict, FailureKind::EvictAmbiguous];
        WaitTimes {
            held: status.and_then(|status| status.hold.as_ref()).map(|hold| hold.since.0),
            blocked: status.and_then(|status| status.blocked.as_ref()).map(|blocked| blocked.since.0),
            refused: refused.iter().filter_map(|what| self.state.failing_since.get(what).copied()).min(),
        }
    }

    fn nothing_fails(&mut self) {
        self.state.failure = None;
        self.state.refused = None;
    }

    /// Stores what must be stored before anything is done.
    async fn record(&mut self, record: &Record) -> Result<StatusWrite, Error> {
        let stored = self.store_status(&record.status).await?;
        if stored == StatusWrite::Yes {
            self.publish(&record.events);
        }
        Ok(stored)
    }

    /// Reports and says when to come back.
    async fn end(&mut self, act: &Act, failed: bool) -> Result<Outcome, Error> {
        let now = self.ctx.clock.now();
        let until = |time: Timestamp| Duration::try_from(time.duration_since(now)).unwrap_or_default();
        let news = StatusChange::of(&self.status(), &act.status);
        let since = self.state.reported.map(|reported| reported.elapsed());
        let left = since.map_or(Duration::ZERO, |since| news.every().saturating_sub(since));
        // What is not stored is tried again at the pace of failures.
        if !failed && !left.is_zero() && self.state.unstored.is_empty() {
            let asks = self.state.asks_again(Instant::now());
            let wait = [act.requeue, self.publishes_at().map(until), asks].into_iter().flatten();
            return Ok(Outcome::Idle(wait.fold(left, Duration::min).max(SHORTEST)));
        }
        let stored = self.store_status(&act.status).await?;
        if stored == StatusWrite::Conflict {
            return Ok(if failed { Outcome::Failed(RESYNC) } else { Outcome::Unfinished });
        }
        if news != StatusChange::Nothing {
            self.state.reported = Some(Instant::now());
        }
        if !failed {
            self.state.failing_since.retain(|what, _| *what == FailureKind::Claim);
            self.publish(&act.events);
            self.state.known_points.clone_from(&act.points);
        }
        let all_stored = self.report_sets().await;
        self.warn_of_malformed();
        if failed {
            return Ok(self.refused(act));
        }
        // A moment later, so that the time really is over.
        let expires = self.expectations_expire().map(|time| until(time) + Duration::from_secs(1));
        let publishes = self.publishes_at().map(until);
        let asks = self.state.asks_again(Instant::now());
        let wait = [act.requeue, expires, publishes, asks].into_iter().flatten().fold(RESYNC, Duration::min);
        let wait = wait.max(SHORTEST);
        Ok(if all_stored && stored == StatusWrite::Yes { Outcome::Idle(wait) } else { Outcome::Failed(wait) })
    }

    /// The end of a pass in which a write failed: refused evictions have a pace of their own.
    fn refused(&self, act: &Act) -> Outcome {
        let evicts =
            self.state.failure.as_ref().is_some_and(|failure| {
                matches!(failure.what, FailureKind::Evict | FailureKind::EvictAmbiguous)
            });
        match self.state.refused.as_ref().filter(|_| evicts) {
            Some(refused) => {
                let wait = refused.until.saturating_duration_since(Instant::now());
                Outcome::Refused(act.requeue.map_or(wait, |requeue| requeue.min(wait)).max(SHORTEST))
            }
            None => Outcome::Failed(RESYNC),
        }
    }

    fn publish(&self, events: &[Event]) {
        for event in events {
            let resume = match event.reason {
                reason::PAUSE_POINT_RESUMED => Some("accepted"),
                reason::RESUME_IGNORED => Some("ignored"),
                _ => None,
            };
            if let Some(result) = resume {
                self.ctx.metrics.resumes.with_label_values(&[result]).inc();
            }
            self.ctx.events.publish(&self.state.deployment, event);
        }
    }
}
