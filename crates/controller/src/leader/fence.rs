//! The fence: a request starts only while this process is the leader and its lease is valid.
//!
//! A Lease is not a lock: a leader that was frozen continues after its lease has expired. So every request of a
//! reconciliation passes the fence before it is sent, and none continues after the end of the lease, as renewed by then. A
//! request that had passed the fence when the process froze carries a precondition or a fixed name.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, timeout_at};
use tower::{BoxError, service_fn};

/// Until when requests may start, and when those in flight end.
#[derive(Clone, Copy, Debug)]
struct Until {
    start: Instant,
    end: Instant,
}

/// Lets requests through while the lease is valid. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<Mutex<Option<Until>>>);

/// Why a request was not sent, or its answer not awaited.
#[derive(Debug, thiserror::Error)]
#[error("this process is not the leader, or stands aside for another controller")]
struct NotLeading;

impl Fence {
    /// Lets requests start until `start`; those in flight are aborted at `end`.
    pub(crate) fn open(&self, start: Instant, end: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Until { start, end });
    }

    /// Blocks all requests.
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
        let mut end = until.end;
        let mut answer = pin!(inner.send(request));
        loop {
            match timeout_at(end, &mut answer).await {
                Ok(answer) => return Ok(answer?),
                // A lease that was renewed meanwhile ends later.
                Err(_) => match self.until() {
                    Some(until) if until.end > end => end = until.end,
                    _ => return Err(NotLeading.into()),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use tokio::time::{Instant, sleep};
    use tower::service_fn;

    use super::Fence;

    const START: Duration = Duration::from_secs(10);
    const END: Duration = Duration::from_secs(15);

    /// An API server that takes 30 seconds for each answer.
    fn slow() -> Client {
        let service = service_fn(|_: Request<Body>| async {
            sleep(Duration::from_secs(30)).await;
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        Client::new(service, "default")
    }

    fn request() -> Request<Body> {
        Request::new(Body::empty())
    }

    fn open(fence: &Fence) {
        let now = Instant::now();
        fence.open(now + START, now + END);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_continues_while_the_lease_is_renewed() {
        let fence = Fence::default();
        open(&fence);
        let renewed = fence.clone();
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_secs(2)).await;
                open(&renewed);
            }
        });
        let began = Instant::now();
        fence.guard(&slow()).send(request()).await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn no_request_outlives_the_lease_and_none_starts_after_the_renew_deadline() {
        let fence = Fence::default();
        open(&fence);
        let began = Instant::now();
        sleep(Duration::from_secs(9)).await;
        assert!(fence.guard(&slow()).send(request()).await.is_err());
        assert_eq!(began.elapsed(), END);
        open(&fence);
        sleep(START).await;
        let began = Instant::now();
        assert!(fence.guard(&slow()).send(request()).await.is_err());
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_fence_aborts_requests_in_flight_at_the_end_of_the_lease() {
        let fence = Fence::default();
        open(&fence);
        let closed = fence.clone();
        tokio::spawn(async move {
            sleep(Duration::from_secs(3)).await;
            closed.close();
        });
        let began = Instant::now();
        assert!(fence.guard(&slow()).send(request()).await.is_err());
        assert_eq!(began.elapsed(), END);
    }
}
