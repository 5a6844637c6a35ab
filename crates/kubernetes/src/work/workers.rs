//! Workers: they bound how many objects are reconciled at the same time.
//!
//! An object that waits for long does not occupy a worker. Namespaces take turns, and none has all workers.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

use crate::fair::{Permit, Permits};

/// How long a reconciliation occupies a worker without a break. One that takes longer waits for a server.
const WORKER_HOLD_TIME: Duration = Duration::from_secs(1);
/// How many objects may wait for a live list without a worker. Each needs memory for its reconciliation.
const WITHOUT_WORKER: usize = 1000;

/// All workers.
pub struct Workers {
    workers: Permits,
    without: Permits,
}

/// The worker of one reconciliation, as long as it occupies one. Clones are the same worker.
#[derive(Clone)]
pub struct Worker {
    workers: Permits,
    without: Permits,
    namespace: Arc<str>,
    occupied: Arc<Mutex<Option<Permit>>>,
}

impl Workers {
    /// So many workers, at least one.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { workers: Permits::new(count.max(1)), without: Permits::new(WITHOUT_WORKER) }
    }

    /// Reconciles an object of that namespace with a worker, which it occupies for [`WORKER_HOLD_TIME`] at
    /// most; does nothing once `shutdown` has ended. To save memory, `start` is called when a worker is free.
    pub async fn work<P: Future>(
        &self,
        namespace: Arc<str>,
        shutdown: impl Future<Output = ()>,
        start: impl FnOnce(Worker) -> P,
    ) -> Option<P::Output> {
        let occupied = tokio::select! {
            biased;
            () = shutdown => return None,
            occupied = self.workers.acquire(&namespace) => occupied,
        };
        let worker = Worker {
            workers: self.workers.clone(),
            without: self.without.clone(),
            namespace,
            occupied: Arc::new(Mutex::new(occupied)),
        };
        let mut reconciliation = Box::pin(start(worker.clone()));
        loop {
            if let Ok(done) = timeout(WORKER_HOLD_TIME, &mut reconciliation).await {
                return Some(done);
            }
            worker.occupy(None);
        }
    }
}

impl Worker {
    /// Waits without a worker, and occupies one again before it returns, if it has occupied one before. If
    /// too many wait without a worker, it keeps its worker.
    pub async fn free_during<T>(&self, wait: impl Future<Output = T>) -> T {
        let Some(_without) = self.without.try_acquire(&self.namespace) else { return wait.await };
        let occupied = self.occupy(None);
        let done = wait.await;
        if occupied {
            self.occupy(self.workers.acquire(&self.namespace).await);
        }
        done
    }

    /// Replaces the occupied worker. Returns whether there was one.
    fn occupy(&self, worker: Option<Permit>) -> bool {
        std::mem::replace(&mut *self.occupied.lock(), worker).is_some()
    }
}
