//! One pass over one OrderedDeployment: observe, plan, execute, report, until there is nothing more to do.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube_runtime::controller::Action;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{Act, Decision, Event, Hindrance, Read, Record, decide};
use tokio::time::Instant;

use crate::context::Context;
use crate::execute::Halt;
use crate::memory::Due;
use crate::metrics::Waits;
use crate::observe::Found;
use crate::pass::Pass;
use crate::report::{News, Stored};
use crate::{Error, backoff};

/// How many decisions one pass makes at most: others want their turn.
const ROUNDS: usize = 100;
/// How soon a pass follows another at the earliest, where it waits for time to pass.
const SHORTEST: Duration = Duration::from_millis(1);
/// How soon everything is looked at again, even if nothing is seen to happen.
const RESYNC: Duration = Duration::from_secs(300);

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
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
    if ctx.shown(&namespace, &name, deployment.metadata.uid.as_deref().unwrap_or_default()).is_none() {
        // It went while it waited for its turn.
        return Action::await_change();
    }
    let memory = ctx.memory(&deployment);
    let mut memory = memory.lock().await;
    if let Some(until) = memory.not_before.filter(|until| started < *until) {
        return Action::requeue(until - started);
    }
    memory.refresh(Arc::clone(&deployment));
    memory.nodes.clear();
    memory.sources.clear();
    let mut pass = Pass {
        ctx: &ctx,
        calls: ctx.calls.for_one(),
        memory: &mut memory,
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
    pass.memory.not_before = pass.calls.asked_to_wait();
    let waits = if pass.is_shown() { pass.waits() } else { Waits::default() };
    ctx.metrics.waits(&pass.uid, &pass.namespace, &pass.name, waits);
    if pass.memory.unclaimed().is_some() {
        pass.memory.due = Some(Due::Conflict);
        if let Ok(End::Idle(wait)) = end {
            end = Ok(End::Failed(wait));
        }
    }
    let result = match &end {
        Ok(End::Failed(_) | End::Refused(_) | End::NotFound) => "failed",
        Ok(_) => "ok",
        Err(_) => "error",
    };
    ctx.metrics.reconciles.with_label_values(&[result]).inc();
    ctx.metrics.reconcile_duration.observe(started.elapsed().as_secs_f64());
    if let Ok(End::Idle(_) | End::Nothing | End::Refused(_)) = end {
        memory.failures = 0;
    } else if !matches!(end, Ok(End::Unfinished)) {
        memory.failures = memory.failures.saturating_add(1);
    }
    let asked =
        memory.not_before.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
    let after = |wait: Duration| Action::requeue(wait.max(asked));
    match end {
        Ok(End::Idle(wait) | End::Refused(wait)) => after(wait),
        Ok(End::NotFound) => after(backoff::after(memory.failures)),
        Ok(End::Unfinished) => after(Duration::ZERO),
        Ok(End::Nothing) => Action::await_change(),
        Ok(End::Failed(wait)) => after(backoff::after(memory.failures).min(wait)),
        Err(error) => {
            let wait = backoff::after(memory.failures).max(asked);
            tracing::warn!(%error, ?wait, "will try again");
            after(wait)
        }
    }
}

impl Pass<'_> {
    async fn run(&mut self) -> Result<End, Error> {
        let mut failed = false;
        let mut released = false;
        for _ in 0..ROUNDS {
            if !self.is_shown() {
                return Ok(End::Nothing);
            }
            if let Some(due) = self.settle() {
                match self.read_live(due).await? {
                    Found::There => {
                        // It may show more that matches no more.
                        released = false;
                        continue;
                    }
                    // What it owns is the garbage collector's from now on.
                    Found::Terminating => return Ok(End::Nothing),
                    Found::Nowhere => return Ok(End::NotFound),
                }
            }
            if !std::mem::replace(&mut released, true) {
                self.memory.unreleased.clear();
            }
            self.release().await?;
            if std::mem::take(&mut self.raced) {
                self.memory.due = Some(Due::Conflict);
                released = false;
                continue;
            }
            let observed = self.observe();
            let decision = match decide(&observed) {
                Decision::Act(act) => Decision::Act(self.fold(act)),
                other => other,
            };
            self.ctx.journal.tell(&observed, &decision);
            match decision {
                Decision::Read(Read::Live) => self.memory.due = Some(Due::Asked),
                Decision::Read(Read::Nodes(names)) => self.read_nodes(&names).await?,
                Decision::Read(Read::Sources(sources)) => self.read_sources(&sources).await?,
                Decision::Read(Read::Template(sets)) => self.compare_templates(&sets).await,
                Decision::Read(Read::DryRun { hash }) => self.try_template(&hash).await,
                Decision::Record(record) => {
                    if self.record(&record).await? == Stored::InPart {
                        // What must be stored before anything is done is not.
                        return Ok(End::Failed(RESYNC));
                    }
                }
                Decision::Act(act) if failed => return self.end(&act, true).await,
                Decision::Act(act) if act.is_idle() && self.memory.failure.is_some() => {
                    // What failed before is not wanted any more.
                    self.nothing_fails();
                    self.memory.known_points.clone_from(&act.points);
                }
                Decision::Act(act) if act.is_idle() => match self.end(&act, false).await? {
                    End::Unfinished => {}
                    end => return Ok(end),
                },
                Decision::Act(act) => {
                    self.live = false;
                    match self.execute(&act).await {
                        Ok(()) => self.nothing_fails(),
                        Err(Halt::DecideAgain) => released = false,
                        Err(Halt::Unfinished) => {
                            self.nothing_fails();
                            return Ok(End::Unfinished);
                        }
                        Err(Halt::Failed(failure)) => {
                            self.memory.failure = Some(failure);
                            failed = true;
                        }
                    }
                }
            }
        }
        tracing::debug!("much to do: letting others go first");
        Ok(End::Unfinished)
    }

    /// What the object waits for, for metrics.
    fn waits(&self) -> Waits {
        let status = self.memory.deployment.status.as_ref();
        let refused = [Hindrance::Evict, Hindrance::EvictAmbiguous];
        Waits {
            held: status.and_then(|status| status.hold.as_ref()).map(|hold| hold.since.0),
            blocked: status.and_then(|status| status.blocked.as_ref()).map(|blocked| blocked.since.0),
            refused: refused.iter().filter_map(|what| self.memory.failing_since.get(what).copied()).min(),
        }
    }

    fn nothing_fails(&mut self) {
        self.memory.failure = None;
        self.memory.refused = None;
    }

    /// Stores what must be stored before anything is done.
    async fn record(&mut self, record: &Record) -> Result<Stored, Error> {
        let stored = self.store_status(&record.status).await?;
        if stored == Stored::Yes {
            self.tell(&record.events);
        }
        Ok(stored)
    }

    /// Reports and says when to come back.
    async fn end(&mut self, act: &Act, failed: bool) -> Result<End, Error> {
        let now = self.ctx.clock.now();
        let until = |time: Timestamp| Duration::try_from(time.duration_since(now)).unwrap_or_default();
        let news = News::of(&self.status(), &act.status);
        let since = self.memory.reported.map(|reported| reported.elapsed());
        let left = since.map_or(Duration::ZERO, |since| news.every().saturating_sub(since));
        // What is not stored is tried again at the pace of failures.
        if !failed && !left.is_zero() && self.memory.unstored.is_empty() {
            let asks = self.memory.asks_again(Instant::now());
            let wait = [act.requeue, self.publishes_at().map(until), asks].into_iter().flatten();
            return Ok(End::Idle(wait.fold(left, Duration::min).max(SHORTEST)));
        }
        let stored = self.store_status(&act.status).await?;
        if stored == Stored::Conflict {
            return Ok(if failed { End::Failed(RESYNC) } else { End::Unfinished });
        }
        if news != News::Nothing {
            self.memory.reported = Some(Instant::now());
        }
        if !failed {
            self.memory.failing_since.retain(|what, _| *what == Hindrance::Claim);
            self.tell(&act.events);
            self.memory.known_points.clone_from(&act.points);
        }
        let all_stored = self.report_sets().await;
        self.warn_of_malformed();
        if failed {
            return Ok(self.refused(act));
        }
        // A moment later, so that the time really is over.
        let expires = self.overlay_expires().map(|time| until(time) + Duration::from_secs(1));
        let publishes = self.publishes_at().map(until);
        let asks = self.memory.asks_again(Instant::now());
        let wait = [act.requeue, expires, publishes, asks].into_iter().flatten().fold(RESYNC, Duration::min);
        let wait = wait.max(SHORTEST);
        Ok(if all_stored && stored == Stored::Yes { End::Idle(wait) } else { End::Failed(wait) })
    }

    /// The end of a pass in which a write failed: refused evictions have a pace of their own.
    fn refused(&self, act: &Act) -> End {
        let evicts = self
            .memory
            .failure
            .as_ref()
            .is_some_and(|failure| matches!(failure.what, Hindrance::Evict | Hindrance::EvictAmbiguous));
        match self.memory.refused.as_ref().filter(|_| evicts) {
            Some(refused) => {
                let wait = refused.until.saturating_duration_since(Instant::now());
                End::Refused(act.requeue.map_or(wait, |requeue| requeue.min(wait)).max(SHORTEST))
            }
            None => End::Failed(RESYNC),
        }
    }

    fn tell(&self, events: &[Event]) {
        for event in events {
            let resume = match event.reason {
                reason::PAUSE_POINT_RESUMED => Some("accepted"),
                reason::RESUME_IGNORED => Some("ignored"),
                _ => None,
            };
            if let Some(result) = resume {
                self.ctx.metrics.resumes.with_label_values(&[result]).inc();
            }
            self.ctx.events.tell(&self.memory.deployment, event);
        }
    }
}
