//! The fence: a request that starts must belong to a leader whose lease still runs.
//!
//! A Lease is no lock: nobody stops a leader that was frozen from going on. So every request of a pass asks here before it is sent,
//! and none outlives the lease. What was past this check when the process froze carries a precondition or a fixed name.

use std::sync::{Arc, Mutex, PoisonError};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, timeout_at};
use tower::{BoxError, service_fn};

/// Until when requests may start, and until when they may take.
#[derive(Clone, Copy, Debug)]
struct Until {
    start: Instant,
    end: Instant,
}

/// Lets requests through while the lease runs. Cloned ones are one.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<Mutex<Option<Until>>>);

/// Why a request was not sent, or not waited for.
#[derive(Debug, thiserror::Error)]
#[error("this process does not lead: its lease was not renewed in time")]
struct NotLeading;

impl Fence {
    /// Lets requests start until `start`; those under way are given up at `end`.
    pub(crate) fn open(&self, start: Instant, end: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Until { start, end });
    }

    /// Lets nothing through any more.
    pub(crate) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn until(&self) -> Option<Until> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same client behind this fence.
    pub(crate) fn guard(&self, client: &Client) -> Client {
        let (fence, inner) = (self.clone(), client.clone());
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (fence, inner) = (fence.clone(), inner.clone());
            async move { fence.send(&inner, request).await }
        });
        Client::new(service, namespace)
    }

    async fn send(&self, inner: &Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let until = self.until().filter(|until| Instant::now() < until.start).ok_or(NotLeading)?;
        match timeout_at(until.end, inner.send(request)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(NotLeading.into()),
        }
    }
}
