//! One instance of the controller: it is started, frozen, killed and restarted.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::SignedDuration;
use kube::Client;
use ordereddeployment_controller::{Controller, Error, Metrics, Options};
use ordereddeployment_kubernetes::{Candidate, Clock, Fence, Names, Timing};
use ordereddeployment_planner::{Decision, Snapshot};
use ordereddeployment_sandbox as sandbox;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::injector::FaultInjector;
use crate::log::{LogWriter, RunEventKind};

/// The time from the exit of an instance to its restart, as by a kubelet.
const RESTART: Duration = Duration::from_secs(1);

/// The options of all instances.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) injector: FaultInjector,
    pub(crate) server: Client,
    pub(crate) clock: sandbox::Clock,
    pub(crate) offsets: Offsets,
    pub(crate) seed: u64,
    /// Whether the instances elect a leader.
    pub(crate) elects: bool,
    pub(crate) frozen: Frozen,
    pub(crate) writer: LogWriter,
}

/// By how much the clocks of instances have jumped; 0: all instances.
pub(crate) type Offsets = Arc<Mutex<Vec<(u32, SignedDuration)>>>;

impl Setup {
    /// The clock of an instance: the server's, and its jumps.
    fn clock(&self, instance: u32) -> Clock {
        let (clock, offsets) = (self.clock.clone(), Arc::clone(&self.offsets));
        Clock::from_fn(move || {
            let offsets = offsets.lock().unwrap_or_else(PoisonError::into_inner);
            let own = offsets.iter().filter(|(of, _)| [0, instance].contains(of)).map(|(_, by)| *by);
            let now = clock.now();
            now.checked_add(own.fold(SignedDuration::ZERO, SignedDuration::saturating_add)).unwrap_or(now)
        })
    }
}

/// Until when each instance is frozen.
#[derive(Clone, Default)]
pub(crate) struct Frozen(Arc<Mutex<Vec<(u32, Instant)>>>);

impl Frozen {
    pub(crate) fn freeze(&self, instance: u32, until: Instant) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((instance, until));
    }

    fn until(&self, instance: u32) -> Option<Instant> {
        let frozen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = frozen.iter().filter(|(of, _)| *of == instance).map(|(_, until)| *until).max();
        until.filter(|until| *until > Instant::now())
    }
}

/// Restarts an instance whenever it ends.
pub(crate) async fn supervise(setup: Setup, instance: u32) {
    for restart in 0_u64.. {
        let work = Freezable {
            instance,
            frozen: setup.frozen.clone(),
            thaw: None,
            work: Box::pin(run_once(setup.clone(), instance, restart)),
        };
        let (killed, mut kills) = mpsc::unbounded_channel();
        setup.writer.event(RunEventKind::InstanceStarted(instance));
        let running = tokio::spawn(work);
        setup.injector.register(instance, running.abort_handle(), killed);
        let ended = running.await;
        let restart_after = match ended {
            Err(error) if error.is_panic() => {
                let panic = error.into_panic();
                let message = panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|message| (*message).to_owned()));
                setup.writer.event(RunEventKind::InstancePanicked(instance, message.unwrap_or_default()));
                RESTART
            }
            Err(_) => {
                setup.writer.event(RunEventKind::InstanceKilled(instance));
                kills.try_recv().unwrap_or(RESTART)
            }
            Ok(outcome) => {
                let message = outcome.err().map(|error| error.to_string());
                setup.writer.event(RunEventKind::InstanceExited(instance, message.unwrap_or_default()));
                RESTART
            }
        };
        sleep(restart_after).await;
    }
}

/// Runs an instance until it ends, like `main` of the controller's program.
async fn run_once(setup: Setup, instance: u32, restart: u64) -> anyhow::Result<()> {
    let client = setup.injector.client(&setup.server, instance);
    let mut options = Options::new(Arc::new(Metrics::new()?));
    options.clock = setup.clock(instance);
    options.names = Names::seeded(setup.seed ^ (u64::from(instance) << 32) ^ (restart << 40));
    let writer = setup.writer.clone();
    options.decision_log = Some(Arc::new(move |snapshot: &Snapshot, decision: &Decision| {
        writer.decided(instance, snapshot, decision);
    }));
    if !setup.elects {
        return Ok(Controller::run(client, options, std::future::pending()).await?);
    }
    let fence = Fence::default();
    let (leadership, is_leader) = watch::channel(false);
    options.leadership = Some((fence.clone(), is_leader));
    let name = format!("instance-{instance}-{restart}");
    let (clock, health) = (setup.clock(instance), options.health.clone());
    let candidate = Candidate::new(&client, "default", &name, Timing::default(), fence, clock, health);
    let work = Controller::run(client, options, std::future::pending());
    Ok(candidate.run_while_leading(work, leadership).await.unwrap_or(Err(Error::LostLease))?)
}

/// Work that is not polled while its instance is frozen.
struct Freezable {
    instance: u32,
    frozen: Frozen,
    thaw: Option<Pin<Box<Sleep>>>,
    work: Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>,
}

impl Future for Freezable {
    type Output = anyhow::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(until) = self.frozen.until(self.instance) {
            let thaw = self.thaw.get_or_insert_with(|| Box::pin(sleep_until(until)));
            thaw.as_mut().reset(until);
            if thaw.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        self.thaw = None;
        self.work.as_mut().poll(context)
    }
}
