//! The garbage collector: deletes dependents of absent owners and handles the finalizers `orphan` and
//! `foregroundDeletion`.
//!
//! It works like the garbage collector of kube-controller-manager. It builds a graph of owners and dependents
//! from watches of all deletable resources. Changes of the graph add objects to two work queues. A worker
//! checks an item against the API server (an uncached GET of the object and of its owners) before it writes.
//! Each write is a separate request, so other clients can act between two writes. The garbage collector never
//! creates objects.

mod graph;
mod monitors;
mod queue;
mod settings;
mod work;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use graph::{Graph, lock};
use monitors::MonitorMessage;
use queue::{Task, Uid};
pub use settings::Collector;
use work::Worker;

/// The number of workers of each queue.
const WORKERS: usize = 20;

/// An item that a worker has processed.
struct ProcessedItem {
    task: Task,
    uid: Uid,
    result: Result<(), work::Error>,
}

/// Runs until the process or the task ends. The settings may change at any time.
pub async fn run(client: Client, settings: watch::Receiver<Collector>) {
    let mut stopped = settings.clone();
    let work = collect(client, settings);
    tokio::pin!(work);
    // A frozen collector makes no progress, not even with a request that it has sent.
    while stopped.wait_for(|settings| !settings.frozen).await.is_ok() {
        tokio::select! {
            biased;
            frozen = stopped.wait_for(|settings| settings.frozen) => {
                if frozen.is_err() { return }
            }
            () = &mut work => return,
        }
    }
}

async fn collect(client: Client, mut settings: watch::Receiver<Collector>) {
    let (tell, mut events) = mpsc::unbounded_channel();
    // Dropping this future aborts the monitors.
    let mut monitors = tokio::task::JoinSet::new();
    monitors.spawn(monitors::run(client.clone(), tell));
    let graph = Arc::new(Mutex::new(Graph::default()));
    let worker = Worker::new(client, Arc::clone(&graph), settings.clone());
    let mut late: VecDeque<(Instant, MonitorMessage)> = VecDeque::new();
    let mut jobs: FuturesUnordered<BoxFuture<'static, ProcessedItem>> = FuturesUnordered::new();
    loop {
        let retry = {
            let mut graph = lock(&graph);
            for task in [Task::Orphan, Task::Delete] {
                // The workers start when the graph is synced.
                while graph.is_synced() && graph.queue(task).working() < WORKERS {
                    let Some(uid) = graph.queue(task).next(Instant::now()) else { break };
                    jobs.push(Box::pin(job(worker.clone(), task, uid)));
                }
            }
            [Task::Orphan, Task::Delete].iter().filter_map(|task| graph.queue(*task).retry()).min()
        };
        let lag = settings.borrow_and_update().lag;
        let due = late.front().map(|(came, _)| *came + lag);
        tokio::select! {
            biased;
            message = events.recv() => {
                let Some(message) = message else { return };
                late.push_back((Instant::now(), message));
            }
            () = until(due) => {
                if let Some((_, message)) = late.pop_front() {
                    lock(&graph).apply(message);
                }
            }
            Some(done) = jobs.next() => {
                if let Err(error) = &done.result {
                    tracing::debug!(%error, uid = done.uid, "cannot collect garbage");
                }
                lock(&graph).queue(done.task).done(&done.uid, done.result.is_ok(), Instant::now());
            }
            () = until(retry) => {}
            changed = settings.changed() => {
                if changed.is_err() { return }
            }
        }
    }
}

async fn job(worker: Worker, task: Task, uid: Uid) -> ProcessedItem {
    let result = match task {
        Task::Orphan => worker.orphan(&uid).await,
        Task::Delete => worker.attempt_to_delete(&uid).await,
    };
    ProcessedItem { task, uid, result }
}

/// Waits until this time, or forever without one.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
