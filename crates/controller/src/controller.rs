//! Starts everything and ends it: watches, the queue, the passes, the events.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc;
use futures::stream::{self, BoxStream, Stream};
use futures::{FutureExt, StreamExt};
use kube::Client;
use kube_runtime::controller::{Action, Config, applier};
use kube_runtime::reflector::{self, ObjectRef};
use ordereddeployment_api::OrderedDeployment;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::calls::Calls;
use crate::context::Context;
use crate::events::events;
use crate::reconcile::reconcile;
use crate::watches::Watches;
use crate::{Clock, Error, Fence, Journal, Limiter, Limits, Metrics, Names, Readiness};

/// How long a pass counts as one of these. One that takes longer waits for the API server, or for a webhook behind it, and
/// others need not wait with it.
const WORKS: Duration = Duration::from_secs(1);
/// How long the events that wait at the end have to be told.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long changes that come together are gathered before they are looked at: pods of one moment become ready, or are
/// placed, in one decision, which spares requests and does not depend on which of them was seen first.
const GATHER: Duration = Duration::from_millis(20);

/// What a controller is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The source of time.
    pub clock: Clock,
    /// The source of names.
    pub names: Names,
    /// The only namespace to look at; `None`: all of them.
    pub namespace: Option<String>,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// Told when every watch has synced.
    pub readiness: Readiness,
    /// With leader election: the fence that lets this process's requests through while it leads, and word of when it
    /// does. The watches sync before, so that a standby is warm.
    pub lead: Option<(Fence, watch::Receiver<bool>)>,
    /// Told of every decision.
    pub journal: Journal,
    /// How many requests it may send.
    pub limiter: Limiter,
    /// How many deployments are looked at at the same time, at least 1.
    pub workers: usize,
}

impl Options {
    /// How many deployments are looked at at the same time, by default.
    pub const WORKERS: usize = 16;

    /// The machine's clock, random names, all namespaces.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            clock: Clock::system(),
            names: Names::random(),
            namespace: None,
            metrics,
            readiness: Readiness::default(),
            lead: None,
            journal: Journal::default(),
            limiter: Limiter::new(Limits::default()),
            workers: Self::WORKERS,
        }
    }
}

/// The controller of OrderedDeployments.
#[derive(Clone, Copy, Debug)]
pub struct Controller;

impl Controller {
    /// Runs until `shutdown` ends, and then until the passes under way are over. Dropping the future stops it at once,
    /// as a crash would.
    ///
    /// Make the client's configuration with [`client_config`](crate::client_config).
    pub async fn run(
        client: Client,
        options: Options,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        let Options { clock, names, namespace, metrics, readiness, lead, journal, limiter, workers } = options;
        let fence = lead.as_ref().map(|(fence, _)| fence);
        let calls = Arc::new(Calls::new(&client, fence, limiter));
        let (events, teller) = events(clock.clone(), names.clone());
        let mut teller = Box::pin(teller.run(Arc::clone(&calls)));
        let (store, writer) = reflector::store::<OrderedDeployment>();
        let ctx = Arc::new(Context::new(calls, clock, names, metrics, events, journal, store.clone()));
        let shutdown = shutdown.boxed().shared();

        let (queue, triggers) = mpsc::unbounded();
        let watches = Watches { ctx: Arc::clone(&ctx), namespace, readiness: readiness.clone(), queue };
        let triggers = gathered(triggers.take_until(shutdown.clone()).boxed()).map(Ok::<_, Infallible>);
        let passes = async move {
            // Before the first whole list of each kind nothing can be told from nothing.
            // Biased, here and below: equal runs poll in equal order.
            tokio::select! {
                biased;
                () = readiness.wait() => {}
                () = shutdown.clone() => return,
            }
            tracing::info!("every watch has synced");
            tokio::select! {
                biased;
                () = leads(lead) => {}
                () = shutdown => return,
            }
            let workers = Arc::new(Semaphore::new(workers.clamp(1, Semaphore::MAX_PERMITS)));
            let reconciler = |deployment, ctx| {
                let workers = Arc::clone(&workers);
                async move { Ok::<_, Infallible>(work(&workers, || reconcile(deployment, ctx)).await) }.boxed()
            };
            let on_error = |_, _: &Infallible, _| Action::await_change();
            // The workers are counted by ourselves.
            let config = Config::default().concurrency(0);
            applier(reconciler, on_error, ctx, store, triggers, config)
                .for_each(|result| async move {
                    if let Err(error) = result {
                        tracing::debug!(%error, "not looked at");
                    }
                })
                .await;
        };
        let work = Box::pin(async move {
            tokio::select! {
                biased;
                () = watches.run(writer) => {}
                () = passes => {}
            }
        });
        tokio::select! {
            biased;
            () = work => {}
            () = &mut teller => {}
        }
        // By now nobody can hand in another event: what waits is told, and that is the end of it.
        let _ = tokio::time::timeout(LAST_WORDS, teller).await;
        Ok(())
    }
}

/// A pass by one of these workers, which it keeps for [`WORKS`] at most. One that waits for its turn takes little memory.
async fn work<P: Future>(workers: &Semaphore, pass: impl FnOnce() -> P) -> P::Output {
    // The semaphore is never closed.
    let worker = workers.acquire().await.ok();
    let mut pass = Box::pin(pass());
    match timeout(WORKS, &mut pass).await {
        Ok(done) => done,
        Err(_) => {
            drop(worker);
            pass.await
        }
    }
}

/// Each deployment once, however often it was named in that time.
fn gathered(
    named: BoxStream<'static, ObjectRef<OrderedDeployment>>,
) -> impl Stream<Item = ObjectRef<OrderedDeployment>> {
    let bursts = stream::unfold(named, |mut named| async move {
        let first = named.next().await?;
        let until = Instant::now() + GATHER;
        let mut burst = BTreeMap::from([((first.namespace.clone(), first.name.clone()), first)]);
        while Instant::now() < until
            && let Ok(Some(next)) = timeout_at(until, named.next()).await
        {
            burst.insert((next.namespace.clone(), next.name.clone()), next);
        }
        Some((stream::iter(burst.into_values()), named))
    });
    bursts.flatten()
}

/// Waits for the lead, where there is one to wait for.
pub(crate) async fn leads(lead: Option<(Fence, watch::Receiver<bool>)>) {
    let Some((_, mut leads)) = lead else { return };
    if leads.wait_for(|leads| *leads).await.is_err() {
        // Nobody will tell any more: the process ends.
        std::future::pending::<()>().await;
    }
}
