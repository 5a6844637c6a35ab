//! Clients over in-memory pipes. With sockets, a paused clock would fire timeouts while bytes are in transit.

use http::header::{HOST, HeaderValue, USER_AGENT};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use tower::{BoxError, service_fn};

use crate::http::Front;

/// The capacity of a pipe in bytes: enough for a burst of events.
const PIPE: usize = 1024 * 1024;

/// A client that opens one pipe per request. It never retries a request.
pub(crate) fn client(front: Front, user_agent: HeaderValue) -> Client {
    let service = service_fn(move |mut request: Request<Body>| {
        // A header that the caller set overrides the default.
        request.headers_mut().entry(USER_AGENT).or_insert_with(|| user_agent.clone());
        request.headers_mut().insert(HOST, HeaderValue::from_static("sandbox"));
        send(front.clone(), request)
    });
    Client::new(service, "default")
}

async fn send(front: Front, request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
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
}
