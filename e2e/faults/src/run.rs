//! Plays a case: starts a sandbox and the instances of the controller, does the steps, injects the faults,
//! and waits until all settles.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use ordereddeployment_api::crds;
use ordereddeployment_controller::DecisionLog;
use ordereddeployment_kubernetes::Clock;
use ordereddeployment_planner::{Decision, Snapshot};
use ordereddeployment_sandbox::{self as sandbox, Collector, Commit, NodeSpec, Sandbox};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use crate::case::{Case, Fault, Forgery, Span, UserAction, WaitFor, WatchFault};
use crate::injector::FaultInjector;
use crate::instance::{Frozen, Setup, supervise};
use crate::log::{DecisionRecord, Log, RunEvent, RunEventKind};
use crate::user::{HOSTILE, User};

/// The start time of every run.
const BASE: &str = "2030-01-01T00:00:00Z";
/// The time from the end of the faults until everything must have settled.
const SETTLING: Duration = Duration::from_secs(900);
/// The same if the rollout is complete by then, and no fault has a long effect.
const SETTLED: Duration = Duration::from_secs(60);
/// The time within which all events are reported.
const REPORTING: Duration = Duration::from_secs(10);
/// The maximum number of decisions of a run, so that an endless loop does not use all memory.
const MAX_DECISIONS: usize = 30_000;
/// The maximum number of pods of all decisions.
const MAX_PODS: usize = 3_000_000;
/// The maximum number of requests that the server answers in a run, far more than any run without a mistake
/// has. The run ends there: a controller that sends requests in an endless loop would do so until the end of
/// the simulated time.
pub(crate) const MAX_REQUESTS: usize = 50_000;
/// How often that number is checked.
const CHECKING: Duration = Duration::from_secs(1);
/// The time from then to the end, in which nothing may be written. It is longer than the resync period.
const RESTING: Duration = Duration::from_secs(400);

/// Why a case cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The runtime does not start.
    #[error("cannot start a runtime: {0}")]
    Runtime(#[source] std::io::Error),
    /// The sandbox does not start.
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    /// The server refuses the CRDs.
    #[error("cannot create the CRDs: {0}")]
    Define(#[source] kube::Error),
}

/// Plays a case to its end. Each run has a new thread, so that all runs start with the same state of the
/// thread.
///
/// # Errors
/// If the case cannot be played. Errors of the controller are in the log.
pub fn run(case: &Case) -> Result<Log, Error> {
    let alone = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let lines = Arc::new(AtomicUsize::new(0));
        let counter = tracing_subscriber::registry().with(Lines(Arc::clone(&lines)));
        let _counted = tracing::subscriber::set_default(counter);
        let log = runtime.map_err(Error::Runtime)?.block_on(play(case))?;
        Ok(Log { lines: lines.load(Ordering::Relaxed), ..log })
    };
    let done = std::thread::scope(|scope| scope.spawn(alone).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The keys of hash maps, the same in each run. The standard library reads them once per thread by this weak
/// symbol, which this function replaces. The queue of kube-runtime iterates over such maps in their order.
#[allow(unsafe_code, reason = "the symbol is C's")]
// SAFETY: nothing else in this program has the name, and the signature is the one of Linux.
#[unsafe(no_mangle)]
extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller passes a buffer of that length.
    unsafe { buffer.write_bytes(0x5e, length) };
    isize::try_from(length).unwrap_or(isize::MAX)
}

/// Writes the log of a run.
#[derive(Clone)]
struct LogWriter {
    log: Arc<Mutex<Log>>,
    /// The number of pods of all decisions so far.
    weight: Arc<AtomicUsize>,
    sandbox: Arc<Sandbox>,
}

impl LogWriter {
    fn event(&self, kind: RunEventKind) {
        let (at, requests) = (self.sandbox.now(), self.sandbox.answered());
        self.write(|log| log.events.push(RunEvent { at, requests, kind }));
    }

    fn write(&self, entry: impl FnOnce(&mut Log)) {
        entry(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Records the decisions of that instance.
    fn decision_log(&self, instance: u32) -> DecisionLog {
        let writer = self.clone();
        Some(Arc::new(move |snapshot: &Snapshot, decision: &Decision| {
            let before = writer.weight.fetch_add(snapshot.pods.len(), Ordering::Relaxed);
            // The panic of the controller is in the log.
            assert!(before <= MAX_PODS, "the controller makes decisions in an endless loop");
            let decided = DecisionRecord {
                at: writer.sandbox.now(),
                requests: writer.sandbox.answered(),
                instance,
                snapshot: snapshot.clone(),
                decision: decision.clone(),
            };
            writer.write(|log| {
                assert!(
                    log.decisions.len() < MAX_DECISIONS,
                    "the controller makes decisions in an endless loop"
                );
                log.decisions.push(decided);
            });
        }))
    }
}

/// Counts the warnings and errors of this thread.
struct Lines(Arc<AtomicUsize>);

impl<S: tracing::Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let counts = *event.metadata().level() <= tracing::Level::WARN;
        self.0.fetch_add(usize::from(counts), Ordering::Relaxed);
    }
}

async fn play(case: &Case) -> Result<Log, Error> {
    let start = Instant::now();
    let ticking = sandbox::Clock::simulated(BASE.parse().unwrap_or(Timestamp::UNIX_EPOCH));
    let pools = case.cluster.pools.iter().enumerate();
    let config = sandbox::Config {
        seed: case.seed,
        nodes: pools.map(|(place, pool)| NodeSpec::in_pool(&format!("n{}", place + 1), pool)).collect(),
        ready_delay: Duration::from_millis(case.cluster.ready_delay),
        termination_delay: Duration::from_millis(case.cluster.termination_delay),
        clock: ticking.clone(),
        journal: true,
        ..sandbox::Config::default()
    };
    let sandbox = Arc::new(Sandbox::start(config).await?);
    create_crds(&sandbox.connect("setup")?).await?;
    let writer = LogWriter { log: Arc::default(), weight: Arc::default(), sandbox: Arc::clone(&sandbox) };
    let user = User::new(&sandbox, ticking.clone())?;
    let (reports, mut injected) = mpsc::unbounded_channel();
    let injector = FaultInjector::new(case, start, &sandbox, user.clone(), reports);
    let frozen = Frozen::default();

    let reporter = {
        let writer = writer.clone();
        tokio::spawn(async move {
            while let Some(what) = injected.recv().await {
                writer.event(RunEventKind::FaultInjected(what));
            }
        })
    };
    let offsets = Offsets::default();
    let setup = Setup {
        injector: injector.clone(),
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
        record: {
            let writer = writer.clone();
            Arc::new(move |kind| writer.event(kind))
        },
    };
    let mut tasks = vec![reporter.abort_handle()];
    for instance in 1..=case.cluster.instances.max(1) {
        tasks.push(tokio::spawn(supervise(setup.clone(), instance)).abort_handle());
    }
    let timed =
        TimedFaults { start, writer: writer.clone(), user: user.clone(), frozen, offsets: offsets.clone() };
    let faults = tokio::spawn(timed.inject(case.faults.clone())).abort_handle();
    let whole = async {
        for (place, step) in case.steps.iter().enumerate() {
            let in_time = user.wait(&step.wait_for).await;
            let refused = user.perform(&step.action).await.err().map(|refusal| refusal.to_string());
            writer.event(RunEventKind::Step { place, in_time, refused });
        }
        sleep_until(end_of_faults(case, start)).await;
        faults.abort();
        injector.end_faults();
        sandbox.set_collector(Collector::default());
        // Also the clocks are corrected: with a clock that is hours behind, pods do not become available for
        // hours.
        offsets.lock().unwrap_or_else(PoisonError::into_inner).clear();
        writer.event(RunEventKind::FaultsEnded);
        sleep(SETTLED).await;
        if takes_minutes(case) || !user.wait(&WaitFor::Complete(0)).await {
            sleep((SETTLING + ahead(case)).saturating_sub(SETTLED)).await;
        }
        sleep(REPORTING).await;
        writer.event(RunEventKind::Settled);
        if case.has_forgeries() {
            // What happens in the namespace of another tenant causes no write, not even of a status.
            for forgery in Forgery::ALL {
                // There may be no set.
                let _ = user.perform(&UserAction::Forge(forgery)).await;
            }
        }
        sleep(RESTING).await;
        writer.event(RunEventKind::Finished);
    };
    tokio::select! {
        biased;
        () = whole => {}
        () = flooded(&sandbox) => {}
    }
    faults.abort();
    for task in tasks {
        task.abort();
    }
    let mut log = Log::default();
    writer.write(|written| log = std::mem::take(written));
    (log.requests, log.writes) = (sandbox.requests(), injector.writes());
    let is_hostile = |commit: &Commit| commit.object["metadata"]["namespace"] == HOSTILE;
    (log.hostile, log.commits) = sandbox.commits().into_iter().partition(is_hostile);
    Ok(log)
}

/// Waits until the server has answered the maximum number of requests.
async fn flooded(sandbox: &Sandbox) {
    while sandbox.answered() < MAX_REQUESTS {
        sleep(CHECKING).await;
    }
}

/// Whether a fault has an effect for minutes: a half-open connection, until the client times out.
fn takes_minutes(case: &Case) -> bool {
    case.faults.iter().any(|fault| matches!(fault, Fault::Watch { effect: WatchFault::HalfOpen, .. }))
}

/// How far clocks were ahead: the times that they stored, and with these the deadlines, are so much later.
fn ahead(case: &Case) -> Duration {
    let jumps = case.faults.iter().filter_map(|fault| match fault {
        Fault::ClockJump { by, .. } => u64::try_from(*by).ok(),
        _ => None,
    });
    Duration::from_millis(jumps.sum())
}

async fn create_crds(client: &Client) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds() {
        api.create(&PostParams::default(), &crd).await.map_err(Error::Define)?;
    }
    Ok(())
}

/// By how much the clocks of instances have jumped; 0: all instances.
type Offsets = Arc<Mutex<Vec<(u32, SignedDuration)>>>;

/// The clock of an instance: the server's, and its jumps.
fn jumping(instance: u32, ticking: sandbox::Clock, offsets: Offsets) -> Clock {
    Clock::from_fn(move || {
        let offsets = offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let own = offsets.iter().filter(|(of, _)| [0, instance].contains(of)).map(|(_, by)| *by);
        let now = ticking.now();
        now.checked_add(own.fold(SignedDuration::ZERO, SignedDuration::saturating_add)).unwrap_or(now)
    })
}

/// When the last timed fault ends, at the earliest now.
fn end_of_faults(case: &Case, start: Instant) -> Instant {
    let ends = case.faults.iter().filter_map(Fault::span).map(Span::end);
    let last = start + Duration::from_millis(ends.max().unwrap_or_default());
    last.max(Instant::now())
}

/// Injects the timed faults.
struct TimedFaults {
    start: Instant,
    writer: LogWriter,
    user: User,
    frozen: Frozen,
    offsets: Offsets,
}

impl TimedFaults {
    async fn inject(self, mut faults: Vec<Fault>) {
        let undos = faults.iter().filter_map(|fault| match fault {
            Fault::Action { at, undo: Some((after, action)), .. } => {
                Some(Fault::Action { at: at.saturating_add(*after), action: action.clone(), undo: None })
            }
            _ => None,
        });
        let undos: Vec<Fault> = undos.collect();
        faults.extend(undos);
        faults.sort_by_key(|fault| fault.span().map(|span| span.start));
        for fault in faults {
            let Some(span) = fault.span() else { continue };
            sleep_until(self.start + Duration::from_millis(span.start)).await;
            self.writer.event(RunEventKind::FaultInjected(format!("{fault:?}")));
            match fault {
                Fault::Freeze { instance, span } => {
                    self.frozen.freeze(instance, self.start + Duration::from_millis(span.end()));
                }
                Fault::ClockJump { instance, by, .. } => {
                    let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
                    offsets.push((instance, SignedDuration::from_millis(by)));
                }
                Fault::Compaction { .. } => self.writer.sandbox.compact(u64::MAX),
                Fault::Action { action, .. } => {
                    // The server may refuse the action.
                    let _ = self.user.perform(&action).await;
                }
                // The fault injector injects these.
                Fault::Crash { .. }
                | Fault::Request { .. }
                | Fault::Latency { .. }
                | Fault::ActionBefore { .. }
                | Fault::Watch { .. }
                | Fault::Partition { .. } => {}
            }
        }
    }
}
