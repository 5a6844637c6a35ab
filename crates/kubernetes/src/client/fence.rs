//! The fence: a request starts only while this process is the leader and its lease is valid.
//!
//! A Lease is not a lock: a leader that was frozen continues after its lease has expired. So every request of
//! a reconciliation passes the fence before it is sent, and none continues after the end of the lease, as
//! renewed by then. A request that had passed it before the process froze has a precondition or a fixed name.
//!
//! A controller can have a second fence, which it opens and closes itself, for all namespaces or for one.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, service_fn};

/// Until when requests may start, and when those in flight end.
#[derive(Clone, Copy, Debug)]
struct Until {
    start: Instant,
    end: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// `None`: no request may start, and those in flight end.
    until: Option<Until>,
    /// The namespaces of which the same is true, and until when.
    closed: BTreeMap<String, Instant>,
}

impl State {
    /// For a request about that namespace.
    fn until(&self, namespace: Option<&str>) -> Option<Until> {
        let is_closed = namespace.is_some_and(|namespace| self.closed_for(namespace).is_some());
        self.until.filter(|_| !is_closed)
    }

    fn closed_for(&self, namespace: &str) -> Option<Duration> {
        let left = self.closed.get(namespace)?.saturating_duration_since(Instant::now());
        Some(left).filter(|left| !left.is_zero())
    }
}

/// Lets requests through while the lease is valid. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Fence(watch::Sender<State>);

/// Why a request was not sent, or its answer not awaited.
#[derive(Debug, thiserror::Error)]
#[error("this process is not the leader, or stands aside for another controller")]
pub(crate) struct NotLeading;

impl Fence {
    /// Lets requests start until `start`; those in flight are aborted at `end`.
    pub fn open(&self, start: Instant, end: Instant) {
        self.0.send_modify(|state| state.until = Some(Until { start, end }));
    }

    /// Blocks all requests, and aborts those in flight.
    pub fn close(&self) {
        self.0.send_modify(|state| state.until = None);
    }

    /// Does the same to those of one namespace until that time. Returns whether it was open.
    #[must_use]
    pub fn close_in(&self, namespace: &str, until: Instant) -> bool {
        let mut was_open = false;
        self.0.send_modify(|state| {
            was_open = state.closed_for(namespace).is_none();
            if was_open {
                let now = Instant::now();
                state.closed.retain(|_, until| *until > now);
            }
            state.closed.insert(namespace.to_owned(), until);
        });
        was_open
    }

    /// For how long that namespace is closed.
    #[must_use]
    pub fn closed_for(&self, namespace: &str) -> Option<Duration> {
        self.0.borrow().closed_for(namespace)
    }

    /// The same client behind this fence.
    #[must_use]
    pub fn guard(&self, client: &Client) -> Client {
        let (fence, inner) = (self.clone(), client.clone());
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (fence, inner) = (fence.clone(), inner.clone());
            async move { fence.send(&inner, request).await }
        });
        Client::new(service, namespace)
    }

    async fn send(&self, inner: &Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let namespace = namespace_of(request.uri().path()).map(str::to_owned);
        let mut changes = self.0.subscribe();
        let until = changes.borrow_and_update().until(namespace.as_deref());
        let mut until = until.filter(|until| Instant::now() < until.start).ok_or(NotLeading)?;
        let mut answer = pin!(inner.send(request));
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return Ok(answer?),
                // A lease that is renewed meanwhile ends later.
                Ok(()) = changes.changed() => {
                    until = changes.borrow_and_update().until(namespace.as_deref()).ok_or(NotLeading)?;
                }
                () = sleep_until(until.end) => return Err(NotLeading.into()),
            }
        }
    }
}

/// The namespace that a request is about.
fn namespace_of(path: &str) -> Option<&str> {
    path.split_once("/namespaces/")?.1.split('/').next()
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
    async fn a_closed_namespace_stops_no_request_of_another_one() {
        let fence = Fence::default();
        let began = Instant::now();
        fence.open(began + 2 * END, began + 4 * END);
        let client = fence.guard(&slow());
        let send = async |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            client.send(request).await.map(|_| began.elapsed()).map_err(|_| began.elapsed())
        };
        let close = async {
            sleep(Duration::from_secs(3)).await;
            assert!(fence.close_in("a", began + START));
            assert!(!fence.close_in("a", began + START), "it is closed already");
        };
        let (of_a, of_b, all, ()) = tokio::join!(
            send("/api/v1/namespaces/a/pods/p"),
            send("/apis/apps/v1/namespaces/b/replicasets"),
            send("/api/v1/nodes/a"),
            close
        );
        let answered = Duration::from_secs(30);
        assert_eq!((of_a, of_b, all), (Err(Duration::from_secs(3)), Ok(answered), Ok(answered)));
        fence.open(Instant::now() + START, Instant::now() + 4 * END);
        assert!(send("/api/v1/namespaces/a/pods").await.is_ok(), "its time is over");
        assert!(fence.close_in("a", Instant::now() + END));
        assert_eq!(fence.closed_for("a"), Some(END));
        let before = began.elapsed();
        assert_eq!(send("/api/v1/namespaces/a/pods").await, Err(before));
    }
}
