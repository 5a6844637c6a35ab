//! The HTTP layer of the server: one hyper service for sockets and in-memory pipes.
//!
//! It transports bytes; the module `server` interprets them. With a simulated clock it collects the requests
//! of one instant and has the server answer them in sorted order, so a run is reproducible.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT, WARNING,
};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::{Client, client};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tower::BoxError;

use crate::request::{Call, Target};
use crate::server::{Reply, Server};
use crate::status::Failure;

/// The maximum size of a request body, as on a real API server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;
/// The answer to a request that impersonates a user.
const NO_USERS: &str =
    "the sandbox has no users and no roles: use a real cluster, such as one of kind, to try roles";
/// The simulated time a request takes.
const LATENCY: Duration = Duration::from_millis(1);

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The state that a connection needs to answer requests.
#[derive(Clone)]
pub(crate) struct Front {
    server: Arc<Server>,
    gate: Option<Arc<Gate>>,
    /// The bearer token that clients must send; `None` for in-memory pipes, which only this process can use.
    token: Option<Arc<str>>,
}

impl Front {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        let gate = server.clock.is_simulated().then(|| Arc::new(Gate::default()));
        Self { server, gate, token: None }
    }

    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.into()), ..self.clone() }
    }

    /// Serves one connection until it ends.
    pub(crate) async fn serve<I>(self, io: I)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(move |request| {
            let front = self.clone();
            async move { Ok::<_, Infallible>(front.handle(request).await) }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(io), service)
            .await;
        if let Err(error) = served {
            // Clients end a watch by closing the connection.
            tracing::trace!(%error, "connection ended");
        }
    }

    async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        if !self.is_authorized(&parts.headers) {
            let refusal = Failure::new(401, "Unauthorized", "Unauthorized");
            return respond(refusal.into());
        }
        let impersonates = parts.headers.keys().any(|name| name.as_str().starts_with("impersonate-"));
        // kubectl does not print the refusal of a discovery request.
        if impersonates && Target::parse(parts.uri.path()).is_some() {
            return respond(Failure::new(403, "Forbidden", NO_USERS).into());
        }
        let body = match Limited::new(body, BODY_LIMIT).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => {
                let message = format!("Request entity too large: limit is {BODY_LIMIT} ({error})");
                return respond(Failure::new(413, "RequestEntityTooLarge", message).into());
            }
        };
        let header = |name: HeaderName| {
            let texts: Vec<&str> =
                parts.headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
            texts.join(",")
        };
        let call = Call {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            accept: header(ACCEPT),
            content_type: header(CONTENT_TYPE),
            user_agent: header(USER_AGENT),
            body,
        };
        let reply = match &self.gate {
            None => self.server.answer(&call),
            Some(gate) => gate.pass(&self.server, call).await,
        };
        respond(reply)
    }

    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "))
            .is_some_and(|shown| shown == token.as_ref())
    }
}

/// Collects the requests of one simulated instant.
#[derive(Default)]
pub(crate) struct Gate(Mutex<Vec<(Call, oneshot::Sender<Reply>)>>);

impl Gate {
    async fn pass(self: &Arc<Self>, server: &Arc<Server>, call: Call) -> Reply {
        let (sender, receiver) = oneshot::channel();
        let first = {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push((call, sender));
            waiting.len() == 1
        };
        if first {
            let (gate, server) = (Arc::clone(self), Arc::clone(server));
            // A paused clock advances only when every task is idle. All requests of the instant have arrived
            // by then.
            tokio::spawn(async move {
                tokio::time::sleep(LATENCY).await;
                gate.open(&server);
            });
        }
        receiver.await.unwrap_or_else(|_| Failure::new(503, "ServiceUnavailable", "shutting down").into())
    }

    fn open(&self, server: &Arc<Server>) {
        let mut calls = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        calls.sort_by(|(one, _), (other, _)| one.rank().cmp(&other.rank()));
        for (call, sender) in calls {
            // The request takes effect even if the client has disconnected.
            let _gone = sender.send(server.answer(&call));
        }
    }
}

fn respond(reply: Reply) -> Response<Body> {
    let code = reply.code();
    let (kind, body, warnings) = match reply {
        Reply::Json { body, warnings, .. } => {
            ("application/json", whole(Bytes::from(format!("{body}\n"))), warnings)
        }
        Reply::Text { body, .. } => ("text/plain; charset=utf-8", whole(Bytes::from(body)), Vec::new()),
        Reply::Watch(watch) => {
            let lines = stream::unfold(watch, |mut watch| async move {
                watch.next().await.map(|line| (Ok(Frame::data(line)), watch))
            });
            ("application/json", StreamBody::new(lines).boxed_unsync(), Vec::new())
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert("cache-control", HeaderValue::from_static("no-cache, private"));
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append(WARNING, value);
        }
    }
    response
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).boxed_unsync()
}

/// The capacity of a pipe in bytes: enough for a burst of events.
const PIPE: usize = 1024 * 1024;

/// A client over in-memory pipes, one for each request. It never retries a request. With sockets, a paused
/// clock would fire timeouts while bytes are in transit.
pub(crate) fn pipe_client(front: Front, user_agent: HeaderValue) -> Client {
    let service = tower::service_fn(move |mut request: Request<client::Body>| {
        // A header that the caller set overrides the default.
        request.headers_mut().entry(USER_AGENT).or_insert_with(|| user_agent.clone());
        request.headers_mut().insert(HOST, HeaderValue::from_static("sandbox"));
        send(front.clone(), request)
    });
    Client::new(service, "default")
}

async fn send(front: Front, request: Request<client::Body>) -> Result<Response<Incoming>, BoxError> {
    let (near, far) = tokio::io::duplex(PIPE);
    tokio::spawn(front.serve(far));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, client::Body>(TokioIo::new(near)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::trace!(%error, "pipe ended");
        }
    });
    Ok(sender.send_request(request).await?)
}
