//! Plays a case: starts a sandbox and the instances of the controller, does the steps, injects the faults,
//! and waits until all settles.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use ordereddeployment_api::crds;
use ordereddeployment_sandbox::{self as sandbox, Collector, Commit, NodeSpec, Sandbox};
use tokio::time::{Instant, sleep, sleep_until};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use crate::case::{Case, Fault, Forgery, Span, UserAction, WaitFor, WatchFault};
use crate::injector::FaultInjector;
use crate::instance::{Frozen, Offsets, Setup, supervise};
use crate::log::{Log, LogWriter, RunEventKind};
use crate::user::{HOSTILE, User};

/// The start time of every run.
const BASE: &str = "2030-01-01T00:00:00Z";
/// The time from the end of the faults until everything must have settled.
const SETTLING: Duration = Duration::from_secs(900);
/// The same if the rollout is complete by then, and no fault has a long effect.
const SETTLED: Duration = Duration::from_secs(60);
/// The time within which all events are reported.
const REPORTING: Duration = Duration::from_secs(10);
/// The maximum number of requests that the server answers in a run, far more than any run without a mistake
/// has. The run ends there: a controller that sends requests in an endless loop would do so until the end of
/// the simulated time.
pub(crate) const MAX_REQUESTS: usize = 50_000;
/// How often that number is checked.
const CHECKING: Duration = Duration::from_secs(1);
/// The time from then to the end, in which nothing may be written. It is longer than the resync period.
const RESTING: Duration = Duration::from_secs(400);

/// Plays a case to its end. Each run has a new thread, so that all runs start with the same state of the
/// thread.
/// Errors of the controller are in the log.
pub fn run(case: &Case) -> Result<Log> {
    let alone = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let lines = Arc::new(AtomicUsize::new(0));
        let counter = tracing_subscriber::registry().with(Lines(Arc::clone(&lines)));
        let _counted = tracing::subscriber::set_default(counter);
        let log = runtime?.block_on(play(case))?;
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

/// Counts the warnings and errors of this thread.
struct Lines(Arc<AtomicUsize>);

impl<S: tracing::Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let counts = *event.metadata().level() <= tracing::Level::WARN;
        self.0.fetch_add(usize::from(counts), Ordering::Relaxed);
    }
}

async fn play(case: &Case) -> Result<Log> {
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
    let injector = FaultInjector::new(case, start, user.clone(), writer.clone());
    let setup = Setup {
        injector: injector.clone(),
        server: sandbox.connect("controller")?,
        clock: ticking,
        offsets: Offsets::default(),
        seed: case.seed,
        elects: case.cluster.instances > 1,
        frozen: Frozen::default(),
        writer: writer.clone(),
    };
    let mut tasks = Vec::new();
    for instance in 1..=case.cluster.instances.max(1) {
        tasks.push(tokio::spawn(supervise(setup.clone(), instance)).abort_handle());
    }
    let faults = tokio::spawn(inject(case.faults.clone(), setup.clone(), user.clone(), start)).abort_handle();
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
        setup.offsets.lock().unwrap_or_else(PoisonError::into_inner).clear();
        writer.event(RunEventKind::FaultsEnded);
        sleep(SETTLED).await;
        if takes_minutes(case) || !user.has_happened(&WaitFor::Complete).await {
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

async fn create_crds(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds() {
        api.create(&PostParams::default(), &crd).await?;
    }
    Ok(())
}

/// When the last timed fault ends, at the earliest now.
fn end_of_faults(case: &Case, start: Instant) -> Instant {
    let ends = case.faults.iter().filter_map(Fault::span).map(Span::end);
    let last = start + Duration::from_millis(ends.max().unwrap_or_default());
    last.max(Instant::now())
}

/// Injects the timed faults.
async fn inject(mut faults: Vec<Fault>, setup: Setup, user: User, start: Instant) {
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
        sleep_until(start + Duration::from_millis(span.start)).await;
        setup.writer.event(RunEventKind::FaultInjected(format!("{fault:?}")));
        match fault {
            Fault::Freeze { instance, span } => {
                setup.frozen.freeze(instance, start + Duration::from_millis(span.end()));
            }
            Fault::ClockJump { instance, by, .. } => {
                let mut offsets = setup.offsets.lock().unwrap_or_else(PoisonError::into_inner);
                offsets.push((instance, SignedDuration::from_millis(by)));
            }
            Fault::Compaction { .. } => setup.writer.sandbox.compact(u64::MAX),
            Fault::Action { action, .. } => {
                // The server may refuse the action.
                let _ = user.perform(&action).await;
            }
            // The fault injector injects the others.
            _ => {}
        }
    }
}
