//! Clients over in-memory pipes. With sockets, a paused clock would fire timeouts while bytes are in transit.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{HOST, HeaderValue, USER_AGENT};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tower::{BoxError, Service};

use crate::http::Front;

/// The capacity of a pipe in bytes: enough for a burst of events.
const PIPE: usize = 1024 * 1024;

/// A service that opens one pipe per request.
#[derive(Clone)]
pub(crate) struct Pipes {
    front: Front,
    user_agent: HeaderValue,
}

impl Pipes {
    pub(crate) fn new(front: Front, user_agent: HeaderValue) -> Self {
        Self { front, user_agent }
    }
}

impl Service<Request<Body>> for Pipes {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let front = self.front.clone();
        // A header that the caller set overrides the default.
        request.headers_mut().entry(USER_AGENT).or_insert_with(|| self.user_agent.clone());
        request.headers_mut().insert(HOST, HeaderValue::from_static("sandbox"));
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(PIPE);
            tokio::spawn(front.serve(far));
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake::<_, Body>(TokioIo::new(near)).await?;
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::trace!(%error, "pipe ended");
                }
            });
            Ok(sender.send_request(request).await?)
        })
    }
}
