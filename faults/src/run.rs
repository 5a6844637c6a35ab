//! Plays a case: a fresh sandbox, the controller's instances, the steps, the faults, the healing, the rest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use ordereddeployment_api::crds;
use ordereddeployment_controller::{Clock, DecisionLog};
use ordereddeployment_sandbox::{self as sandbox, Collector, NodeSpec, Sandbox};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::case::{Case, Fault, Span, WatchHow, When};
use crate::chaos::Chaos;
use crate::instance::{Frozen, Setup, keep};
use crate::log::{Decided, Log, Mark, What};
use crate::people::Somebody;

/// When every run begins.
const BASE: &str = "2030-01-01T00:00:00Z";
/// From the healing to the moment by which everything has to have settled.
const SETTLING: Duration = Duration::from_secs(900);
/// The same where the rollout is complete by then, and nothing is left over that only a long time ends.
const SETTLED: Duration = Duration::from_secs(60);
/// What is still to be told, is told within that time.
const UNTOLD: Duration = Duration::from_secs(10);
/// How many decisions a run may make: one that decides without end must not take all memory.
const MOST_DECISIONS: usize = 30_000;
/// How many pods they may be about, in all.
const MOST_PODS: usize = 3_000_000;
/// From then to the end: nothing may be written any more. Longer than what looks at everything again by the clock.
const RESTING: Duration = Duration::from_secs(400);

/// Why a case could not be played at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no runtime.
    #[error("cannot start a runtime: {0}")]
    Runtime(#[source] std::io::Error),
    /// The sandbox did not start.
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    /// The CRDs were refused.
    #[error("cannot create the CRDs: {0}")]
    Define(#[source] kube::Error),
}

/// Plays a case to its end, in a thread of its own: it takes some milliseconds, and every run finds the thread as the others
/// do.
///
/// # Errors
/// Where nothing could be played at all. Whatever goes wrong in a run is in the log.
pub fn run(case: &Case) -> Result<Log, Error> {
    let alone = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.map_err(Error::Runtime)?.block_on(play(case))
    };
    let done = std::thread::scope(|scope| scope.spawn(alone).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The keys of hash maps, the same in each run. The standard library asks for them once a thread, by a weak symbol, so
/// that whoever wants no randomness can stand in; the queue of kube-runtime goes through such maps in their order.
#[allow(unsafe_code, reason = "the symbol is C's")]
// SAFETY: nothing else in this program has the name, and the signature is the one of Linux.
#[unsafe(no_mangle)]
extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: who asks hands over that many bytes to be filled.
    unsafe { buffer.write_bytes(0x5e, length) };
    isize::try_from(length).unwrap_or(isize::MAX)
}

/// The log under way.
#[derive(Clone)]
struct Writer {
    log: Arc<Mutex<Log>>,
    /// How many pods the decisions were about, in all.
    weight: Arc<AtomicUsize>,
    sandbox: Arc<Sandbox>,
}

impl Writer {
    fn mark(&self, what: What) {
        let (at, requests) = (self.sandbox.now(), self.sandbox.answered());
        self.write(|log| log.marks.push(Mark { at, requests, what }));
    }

    fn write(&self, entry: impl FnOnce(&mut Log)) {
        entry(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What the decisions of that instance are told to.
    fn decision_log(&self, instance: u32) -> DecisionLog {
        let writer = self.clone();
        DecisionLog::to(move |snapshot, decision| {
            let before = writer.weight.fetch_add(snapshot.pods.len(), Ordering::Relaxed);
            // A panic of a controller is what a run tells of best.
            assert!(before <= MOST_PODS, "it decides without end");
            let decided = Decided {
                at: writer.sandbox.now(),
                requests: writer.sandbox.answered(),
                instance,
                snapshot: snapshot.clone(),
                decision: decision.clone(),
            };
            writer.write(|log| {
                assert!(log.decisions.len() < MOST_DECISIONS, "it decides without end");
                log.decisions.push(decided);
            });
        })
    }
}

async fn play(case: &Case) -> Result<Log, Error> {
    let start = Instant::now();
    let ticking = sandbox::Clock::simulated(BASE.parse().unwrap_or(Timestamp::UNIX_EPOCH));
    let pools = case.cluster.pools.iter().enumerate();
    let config = sandbox::Config {
        seed: case.seed,
        nodes: pools.map(|(place, pool)| NodeSpec::in_pool(&format!("n{}", place + 1), pool)).collect(),
        ready_delay: Duration::from_millis(case.cluster.ready),
        termination_delay: Duration::from_millis(case.cluster.gone),
        clock: ticking.clone(),
        journal: true,
        ..sandbox::Config::default()
    };
    let sandbox = Arc::new(Sandbox::start(config).await?);
    define(&sandbox.connect("setup")?).await?;
    let writer = Writer { log: Arc::default(), weight: Arc::default(), sandbox: Arc::clone(&sandbox) };
    let somebody = Somebody::new(&sandbox, ticking.clone())?;
    let (told, mut strikes) = mpsc::unbounded_channel();
    let chaos = Chaos::new(case, start, &sandbox, somebody.clone(), told);
    let frozen = Frozen::default();

    let teller = {
        let writer = writer.clone();
        tokio::spawn(async move {
            while let Some(what) = strikes.recv().await {
                writer.mark(What::Struck(what));
            }
        })
    };
    let offsets = Offsets::default();
    let setup = Setup {
        chaos: chaos.clone(),
        server: sandbox.connect("controller")?,
        clock: {
            let offsets = offsets.clone();
            Arc::new(move |instance| jumping(instance, ticking.clone(), offsets.clone()))
        },
        seed: case.seed,
        elects: case.cluster.instances > 1,
        frozen: frozen.clone(),
        decision_log: {
            let writer = writer.clone();
            Arc::new(move |instance| writer.decision_log(instance))
        },
        mark: {
            let writer = writer.clone();
            Arc::new(move |what| writer.mark(what))
        },
    };
    let mut tasks = vec![teller.abort_handle()];
    for instance in 1..=case.cluster.instances.max(1) {
        tasks.push(tokio::spawn(keep(setup.clone(), instance)).abort_handle());
    }
    let timed =
        Timed { start, writer: writer.clone(), somebody: somebody.clone(), frozen, offsets: offsets.clone() };
    let faults = tokio::spawn(timed.strike(case.faults.clone())).abort_handle();
    for (place, step) in case.steps.iter().enumerate() {
        let in_time = somebody.wait(&step.when).await;
        let refused = somebody.act(&step.act).await.err().map(|refusal| refusal.to_string());
        writer.mark(What::Step { place, in_time, refused });
    }
    sleep_until(end_of(case, start)).await;
    faults.abort();
    chaos.heal();
    sandbox.set_collector(Collector::default());
    // Somebody sets the clocks right, too: one that is hours behind keeps pods from being available for hours.
    offsets.lock().unwrap_or_else(PoisonError::into_inner).clear();
    writer.mark(What::Healed);
    sleep(SETTLED).await;
    if lingers(case) || !somebody.wait(&When::Complete(0)).await {
        sleep(SETTLING.saturating_sub(SETTLED)).await;
    }
    sleep(UNTOLD).await;
    writer.mark(What::Rest);
    sleep(RESTING).await;
    writer.mark(What::End);
    for task in tasks {
        task.abort();
    }
    let mut log = Log::default();
    writer.write(|written| log = std::mem::take(written));
    (log.requests, log.commits, log.writes) = (sandbox.requests(), sandbox.commits(), chaos.writes());
    Ok(log)
}

/// Whether something that struck is over only after a long time: a dead connection, which is read from for minutes.
fn lingers(case: &Case) -> bool {
    case.faults.iter().any(|fault| matches!(fault, Fault::Watch { how: WatchHow::HalfOpen, .. }))
}

async fn define(client: &Client) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds() {
        api.create(&PostParams::default(), &crd).await.map_err(Error::Define)?;
    }
    Ok(())
}

/// Whose clocks have jumped by how much; 0: those of all.
type Offsets = Arc<Mutex<Vec<(u32, SignedDuration)>>>;

/// An instance's clock: the server's, and what it has jumped by.
fn jumping(instance: u32, ticking: sandbox::Clock, offsets: Offsets) -> Clock {
    Clock::from_fn(move || {
        let offsets = offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let own = offsets.iter().filter(|(of, _)| [0, instance].contains(of)).map(|(_, by)| *by);
        let now = ticking.now();
        now.checked_add(own.fold(SignedDuration::ZERO, SignedDuration::saturating_add)).unwrap_or(now)
    })
}

/// When the last fault that goes by time is over, at the earliest now.
fn end_of(case: &Case, start: Instant) -> Instant {
    let ends = case.faults.iter().filter_map(Fault::span).map(Span::end);
    let last = start + Duration::from_millis(ends.max().unwrap_or_default());
    last.max(Instant::now())
}

/// What faults that go by time need to strike.
struct Timed {
    start: Instant,
    writer: Writer,
    somebody: Somebody,
    frozen: Frozen,
    offsets: Offsets,
}

impl Timed {
    async fn strike(self, mut faults: Vec<Fault>) {
        let mends = faults.iter().filter_map(|fault| match fault {
            Fault::Somebody { at, mend: Some((after, act)), .. } => {
                Some(Fault::Somebody { at: at.saturating_add(*after), act: act.clone(), mend: None })
            }
            _ => None,
        });
        let mends: Vec<Fault> = mends.collect();
        faults.extend(mends);
        faults.sort_by_key(|fault| fault.span().map(|span| span.at));
        for fault in faults {
            let Some(span) = fault.span() else { continue };
            sleep_until(self.start + Duration::from_millis(span.at)).await;
            self.writer.mark(What::Struck(format!("{fault:?}")));
            match fault {
                Fault::Freeze { instance, span } => {
                    self.frozen.freeze(instance, self.start + Duration::from_millis(span.end()));
                }
                Fault::Jump { instance, by, .. } => {
                    let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
                    offsets.push((instance, SignedDuration::from_millis(by)));
                }
                Fault::Compact { .. } => self.writer.sandbox.compact(),
                Fault::Somebody { act, .. } => {
                    // Refusals are part of what happens.
                    let _ = self.somebody.act(&act).await;
                }
                // These strike where the controllers ask.
                Fault::Crash { .. }
                | Fault::Request { .. }
                | Fault::Slow { .. }
                | Fault::Before { .. }
                | Fault::Watch { .. }
                | Fault::Cut { .. } => {}
            }
        }
    }
}
