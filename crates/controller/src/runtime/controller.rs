//! Starts and stops the controller: watches, the queue, reconciliations, the event recorder.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use kube::Client;
use ordereddeployment_kubernetes::{
    Clock, Fence, Health, Limiter, Limits, Named, Names, Queue, Requests, Workers, events,
};
use ordereddeployment_wire::Family;
use tokio::sync::watch;

use crate::Metrics;
use crate::error::Error;
use crate::node_rules::RulesSource;
use crate::objects::Objects;
use crate::reconcile::context::{Context, DecisionLog};
use crate::reconcile::reconcile;
use crate::runtime::handover::{Apart, Handover};
use crate::runtime::watches::{NODE_COSTS, Watches, watched};

/// How long queued events may be written at the end.
const EVENT_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// The options of a controller.
#[derive(Clone)]
pub struct Options {
    /// The kinds that it reconciles.
    pub family: Family,
    /// The source of time.
    pub clock: Clock,
    /// The source of names.
    pub names: Names,
    /// The only namespace to watch; `None`: all namespaces.
    pub namespace: Option<String>,
    /// The metrics that it updates.
    pub metrics: Arc<Metrics>,
    /// The health that it reports to.
    pub health: Health,
    /// With leader election: the fence, which allows requests while this process is the leader, and a channel
    /// that says when it is. The watches sync before that, so that a standby is warm.
    pub leadership: Option<(Fence, watch::Receiver<bool>)>,
    /// Receives every decision.
    pub decision_log: DecisionLog,
    /// The limits of its requests.
    pub limiter: Limiter,
    /// How many deployments are reconciled at the same time, at least 1.
    pub workers: usize,
    /// For the ReplicaSets of plain Deployments: how it keeps apart from a built-in controller.
    pub apart: Option<Apart>,
    /// For plain Deployments: the ConfigMap with their node rules.
    pub node_rules: Option<RulesSource>,
    /// How long events of a deployment are collected before it is reconciled; zero by default. A simulation
    /// in which all events of one tick belong together waits for them.
    pub coalesce: Duration,
}

impl Options {
    /// The default number of deployments that are reconciled at the same time.
    pub const WORKERS: usize = 16;

    /// The system clock, random names, all namespaces.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            family: Family::Ordered,
            clock: Clock::system(),
            names: Names::random(),
            namespace: None,
            metrics,
            health: health(&[Family::Ordered], false),
            leadership: None,
            decision_log: None,
            limiter: Limiter::new(Limits::default()),
            workers: Self::WORKERS,
            coalesce: Duration::ZERO,
            apart: None,
            node_rules: None,
        }
    }
}

/// The controller of OrderedDeployments, or of the ReplicaSets of plain Deployments.
#[derive(Clone, Copy, Debug)]
pub struct Controller;

impl Controller {
    /// Runs until `shutdown` and the running reconciliations end. Dropped, it stops at once, as in a crash.
    ///
    /// Make the client's configuration with [`client_config`](crate::client_config).
    pub fn run(
        client: Client,
        options: Options,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Self::run_until(client, options, shutdown.boxed())
    }

    /// Not generic, and it returns a box: the crates that call it do not compile the controller again.
    fn run_until(
        client: Client,
        options: Options,
        shutdown: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Self::watch_and_reconcile(client, options, shutdown).boxed()
    }

    async fn watch_and_reconcile(
        client: Client,
        options: Options,
        shutdown: BoxFuture<'static, ()>,
    ) -> Result<(), Error> {
        let Options {
            family,
            clock,
            names,
            namespace,
            metrics,
            health,
            leadership,
            decision_log,
            limiter,
            workers,
            coalesce,
            apart,
            node_rules,
        } = options;
        let handover = Arc::new(Handover::new(apart.as_ref()));
        // Events are also written while this controller stands aside: they say why.
        let of_leader: Vec<_> = leadership.iter().map(|(fence, _)| fence).collect();
        let of_both = of_leader.iter().copied().chain(apart.iter().map(|_| &handover.fence));
        let requests = Requests::new(&client, &of_both.collect::<Vec<_>>(), limiter.clone(), &metrics.client);
        let requests = Arc::new(Objects::new(family, requests));
        let of_events = Arc::new(Requests::new(&client, &of_leader, limiter, &metrics.client));
        let (events, event_writer) = events(clock.clone(), names.clone(), Arc::clone(&metrics.client));
        let mut event_writer = Box::pin(event_writer.run(of_events));
        let (ctx, lister, writers) =
            Context::new(Arc::clone(&requests), clock, names, metrics, events, decision_log);
        let ctx = Arc::new(ctx);
        let shutdown = shutdown.shared();

        let queue = Queue::new(Arc::clone(&ctx.metrics.client), coalesce);
        let watches = Watches {
            ctx: Arc::clone(&ctx),
            namespace,
            health: health.clone(),
            queue: queue.clone(),
            handover: Arc::clone(&handover),
        };
        let keeping = {
            let (ctx, health, handover) = (Arc::clone(&ctx), health.clone(), Arc::clone(&handover));
            let leads =
                leadership.as_ref().map_or_else(|| watch::channel(true).1, |(_, leads)| leads.clone());
            async move {
                match apart {
                    Some(apart) => apart.keep(&client, &handover, leads, &health, &ctx).await,
                    None => std::future::pending().await,
                }
            }
        };
        let (read, mut rules_read) = watch::channel(node_rules.is_none());
        let rules = {
            let (ctx, health) = (Arc::clone(&ctx), health.clone());
            async move {
                match node_rules {
                    Some(source) => {
                        let client = ctx.requests.watching();
                        ctx.node_rules.follow(&source, client, &ctx.events, &health, &read).await;
                    }
                    None => std::future::pending().await,
                }
            }
        };
        let reconciliations = async move {
            // Before the first complete list of each kind, a missing object cannot be distinguished from one
            // not listed yet. Biased, here and below: equal runs poll in equal order.
            tokio::select! {
                biased;
                () = health.synced_of(family.deployments()) => {}
                () = shutdown.clone() => return,
            }
            // Before the first list, an order would ignore them.
            tokio::select! {
                biased;
                _ = rules_read.wait_for(|read| *read) => {}
                () = shutdown.clone() => return,
            }
            tracing::info!("every watch has synced");
            tokio::select! {
                biased;
                () = is_leader(leadership) => {}
                () = shutdown.clone() => return,
            }
            ctx.metrics.client.is_leader.set(1);
            handover.leads();
            run_queue(&queue, &ctx, workers, shutdown, &handover).await;
        };
        let work = Box::pin(async move {
            tokio::select! {
                biased;
                () = watches.run(writers) => {}
                () = rules => {}
                () = keeping => {}
                () = reconciliations => {}
                () = lister.run(&requests) => {}
            }
        });
        tokio::select! {
            biased;
            () = work => {}
            () = &mut event_writer => {}
        }
        // By now all recorders are dropped: the queued events are written, and the writer ends.
        let _ = tokio::time::timeout(EVENT_FLUSH_TIMEOUT, event_writer).await;
        Ok(())
    }
}

/// Reconciles what is queued while `handover` allows it, until `shutdown`; then the running ones end.
async fn run_queue(
    queue: &Queue,
    ctx: &Context,
    workers: usize,
    shutdown: Shared<BoxFuture<'static, ()>>,
    handover: &Handover,
) {
    let mut open = handover.open.subscribe();
    let workers = Workers::new(workers);
    let reconcile_one = async |named: Named| {
        let start = |worker| reconcile(&named, queue.begin(&named), ctx, worker);
        // Objects that still wait for a worker at shutdown are left to the next leader.
        let namespace = named.namespace.as_str().into();
        let requeue = workers.work(namespace, shutdown.clone(), start).await.flatten();
        queue.done(named, requeue);
    };
    let mut running = FuturesUnordered::new();
    loop {
        // The opening is not marked as seen: `changed` below reads everything live.
        let is_open = *open.borrow();
        tokio::select! {
            biased;
            () = shutdown.clone() => break,
            Ok(()) = open.changed() => {
                if *open.borrow() {
                    // Another controller may have done anything meanwhile: everything is read live.
                    ctx.forget(|_| false);
                    ctx.all().into_iter().for_each(|named| queue.add(named));
                }
            }
            // Taken before the others go on, so that it is its namespace's turn as soon as a worker is free.
            named = queue.next(), if is_open => {
                if let Some(closed) = handover.fence.closed_for(&named.namespace) {
                    ctx.forget_named(&named);
                    queue.done(named, Some(closed));
                } else {
                    running.push(reconcile_one(named));
                }
            }
            Some(()) = running.next() => {}
        }
    }
    while let Some(()) = running.next().await {}
}

/// The health of a process that runs the controllers of these families, and that of deletion costs.
#[must_use]
pub fn health(families: &[Family], node_costs: bool) -> Health {
    Health::of(families.iter().flat_map(|family| watched(*family)).chain(node_costs.then_some(NODE_COSTS)))
}

/// Waits for leadership, if leader election is enabled.
pub(crate) async fn is_leader(leadership: Option<(Fence, watch::Receiver<bool>)>) {
    let Some((_, mut is_leader)) = leadership else { return };
    if is_leader.wait_for(|is_leader| *is_leader).await.is_err() {
        // The sender is gone: the process ends.
        std::future::pending::<()>().await;
    }
}
