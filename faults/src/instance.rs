//! One instance of the controller: started, kept, frozen, killed and started anew.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use kube::Client;
use ordereddeployment_controller::{
    Candidate, Clock, Controller, DecisionLog, Error, Fence, Metrics, Names, Options, Timing,
};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::chaos::Chaos;
use crate::log::What;

/// From the end of an instance that ended by itself to the start of another, as a kubelet would.
const RESTART: Duration = Duration::from_secs(1);

/// What every instance is started with.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) chaos: Chaos,
    pub(crate) server: Client,
    /// The clock of each instance.
    pub(crate) clock: Arc<dyn Fn(u32) -> Clock + Send + Sync>,
    pub(crate) seed: u64,
    /// Whether it stands for a lead.
    pub(crate) elects: bool,
    pub(crate) frozen: Frozen,
    pub(crate) decision_log: Arc<dyn Fn(u32) -> DecisionLog + Send + Sync>,
    pub(crate) mark: Arc<dyn Fn(What) + Send + Sync>,
}

/// Until when each instance is not given the processor.
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

/// Keeps an instance running, whatever becomes of it.
pub(crate) async fn keep(setup: Setup, instance: u32) {
    for life in 0_u64.. {
        let work = Freezable {
            instance,
            frozen: setup.frozen.clone(),
            thaw: None,
            work: Box::pin(live(setup.clone(), instance, life)),
        };
        let (killed, mut kills) = mpsc::unbounded_channel();
        (setup.mark)(What::Started(instance));
        let running = tokio::spawn(work);
        setup.chaos.lives(instance, running.abort_handle(), killed);
        let ended = running.await;
        let back = match ended {
            Err(error) if error.is_panic() => {
                let panic = error.into_panic();
                let words = panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned()));
                (setup.mark)(What::Panicked(instance, words.unwrap_or_default()));
                RESTART
            }
            Err(_) => {
                (setup.mark)(What::Killed(instance));
                kills.try_recv().unwrap_or(RESTART)
            }
            Ok(outcome) => {
                let words = outcome.err().map(|error| error.to_string());
                (setup.mark)(What::Ended(instance, words.unwrap_or_default()));
                RESTART
            }
        };
        sleep(back).await;
    }
}

/// One life of an instance, as `main` of the controller's program has it.
async fn live(setup: Setup, instance: u32, life: u64) -> Result<(), Error> {
    let client = setup.chaos.client(&setup.server, instance);
    let mut options = Options::new(Arc::new(Metrics::new()?));
    options.clock = (setup.clock)(instance);
    options.names = Names::seeded(setup.seed ^ (u64::from(instance) << 32) ^ (life << 40));
    options.decision_log = (setup.decision_log)(instance);
    if !setup.elects {
        return Controller::run(client, options, std::future::pending()).await;
    }
    let fence = Fence::default();
    let (lead, leads) = watch::channel(false);
    options.lead = Some((fence.clone(), leads));
    let name = format!("instance-{instance}-{life}");
    let (clock, health) = ((setup.clock)(instance), options.health.clone());
    let candidate = Candidate::new(&client, "default", &name, Timing::default(), fence, clock, health);
    candidate.run_while_leading(Controller::run(client, options, std::future::pending()), lead).await
}

/// Work that is not given the processor while its instance is frozen.
struct Freezable {
    instance: u32,
    frozen: Frozen,
    thaw: Option<Pin<Box<Sleep>>>,
    work: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>,
}

impl Future for Freezable {
    type Output = Result<(), Error>;

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
