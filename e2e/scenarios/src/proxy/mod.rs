//! A proxy in front of an API server, the same for the sandbox and for a real server: it delays watches,
//! rejects requests, drops responses, and closes or stalls connections.
//!
//! It listens on loopback with plain HTTP and requires its own token. Upstream it is the user of the given
//! kubeconfig. It never changes what it forwards.

mod rules;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use rules::{Moment, Rules, Trap};
use rules::{RequestFault, RequestInfo};

use crate::kubeconfig::{self, Access};

/// A running proxy. Dropping it closes all its connections.
pub struct Proxy {
    access: Access,
    rules: Arc<Rules>,
    _task: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy in front of the server of this kubeconfig.
    pub async fn start(kubeconfig: &str) -> Result<Self> {
        let config = kubeconfig::config(kubeconfig).await?;
        let upstream = Client::try_from(config).context("cannot make a client")?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen on loopback")?;
        let address = listener.local_addr().context("cannot listen on loopback")?;
        let token = format!("{:032x}", rand::random::<u128>());
        let access = Access { url: format!("http://{address}"), authority: None, token };
        let rules = Arc::new(Rules::default());
        let front = Front { upstream, rules: Arc::clone(&rules), token: access.token.clone() };
        let mut task = JoinSet::new();
        task.spawn(accept(listener, front));
        Ok(Self { access, rules, _task: task })
    }

    /// A kubeconfig for the proxy. client-go sends no token over plain HTTP, so use it for the controller.
    #[must_use]
    pub fn kubeconfig(&self, namespace: &str) -> String {
        self.access.kubeconfig(namespace)
    }

    /// The rules of the proxy.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}

async fn accept(listener: TcpListener, front: Front) {
    // Dropping the set with this future ends every connection.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        connections.spawn(front.clone().serve(stream));
    }
}

#[derive(Clone)]
struct Front {
    upstream: Client,
    rules: Arc<Rules>,
    token: String,
}

impl Front {
    async fn serve(self, stream: TcpStream) {
        let mut cut = self.rules.cut.subscribe();
        // Without delay for small responses.
        drop(stream.set_nodelay(true));
        let service = service_fn(|request| self.clone().answer(request));
        let (stream, carry) = carried(stream, &self.rules);
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            // A cut comes first: requests that are released later must not pass.
            biased;
            _ = cut.changed() => {}
            // An error means that the client disconnected, or that a rule breaks the connection.
            _ = futures::future::join(connection, carry) => {}
        }
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Answer, Broken> {
        let shown = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if shown.and_then(|shown| shown.strip_prefix("Bearer ")) != Some(self.token.as_str()) {
            return Ok(refusal(401));
        }
        let info = RequestInfo::of(&request);
        self.rules.arrives(&info);
        let loses = match self.rules.request_fault(&info) {
            Some(RequestFault::Response(code)) => return Ok(refusal(code)),
            Some(RequestFault::Reset) => true,
            None => false,
        };
        let Ok(response) = self.forward(request, &info).await else { return Err(Broken) };
        if loses {
            // The server has processed the request and has responded; the client gets no response.
            let _ = response.into_body().collect().await;
            return Err(Broken);
        }
        let (mut parts, body) = response.into_parts();
        parts.headers.remove(CONNECTION);
        parts.headers.remove(TRANSFER_ENCODING);
        let body = if info.verb == "watch" && parts.status.is_success() {
            lines(body, self.rules, info)
        } else {
            body.map_err(|_| Broken).boxed_unsync()
        };
        Ok(Response::from_parts(parts, body))
    }

    async fn forward(&self, request: Request<Incoming>, info: &RequestInfo) -> Result<Response<Body>> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await.context("the client went away")?.to_bytes();
        for header in [AUTHORIZATION, CONNECTION, HOST, TRANSFER_ENCODING] {
            parts.headers.remove(header);
        }
        let request = Request::from_parts(parts, Body::from(body));
        let (front, info) = (self.clone(), info.clone());
        // A separate task: a complete request reaches the server even if its client gives up.
        let sent = tokio::spawn(async move {
            let mut stopped = front.rules.stopped_write(&info);
            if let Some((_, go)) = stopped.take_if(|(moment, _)| *moment == Moment::BeforeRequest) {
                go.await.context("dropped")?;
            }
            let response = front.upstream.send(request).await?;
            if let Some((_, go)) = stopped.take_if(|(moment, _)| *moment == Moment::BeforeResponse) {
                go.await.context("dropped")?;
            }
            Ok(response)
        });
        sent.await?
    }
}

/// The response of a server as the client receives it.
type Answer = Response<UnsyncBoxBody<Bytes, Broken>>;

/// Ends a connection without a response, or in the middle of one.
#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("cut by the proxy")
    }
}

impl std::error::Error for Broken {}

/// An error response with this code, in the wording of the API server.
fn refusal(code: u16) -> Answer {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        409 => "Conflict",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the proxy", "reason": reason, "code": code,
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

const BUFFER: usize = 64 * 1024;

/// A connection whose bytes can stop in both directions without an end, like a broken network path. Bytes
/// that were sent meanwhile arrive when it flows again, even if the sender has given up. Returns the other
/// end, and a future that must run to carry the bytes.
fn carried(stream: TcpStream, rules: &Rules) -> (DuplexStream, impl Future<Output = ()>) {
    let (near, far) = tokio::io::duplex(BUFFER);
    let carry = async move {
        let (client, server) = (tokio::io::split(stream), tokio::io::split(far));
        let gives_up = || rules.given_up.send_modify(|count| *count += 1);
        let into = carry(client.0, server.1, rules.stalled.subscribe(), gives_up);
        let out = carry(server.0, client.1, rules.stalled.subscribe(), || {});
        tokio::join!(into, out);
    };
    (near, carry)
}

/// Carries bytes until one side ends. Calls `gives_up` if that happens while the connection is stalled.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut stalled: watch::Receiver<bool>,
    gives_up: impl Fn(),
) {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await;
        if matches!(read, Ok(0) | Err(_)) && *stalled.borrow() {
            gives_up();
        }
        // The sender lives as long as the proxy.
        let _ = stalled.wait_for(|stalled| !*stalled).await;
        let count = match read {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        if to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    // The connection may be closed already.
    drop(to.shutdown().await);
}

/// Forwards a watch line by line: each event is sent after its delay.
fn lines(body: Body, rules: Arc<Rules>, info: RequestInfo) -> UnsyncBoxBody<Bytes, Broken> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(read_lines(body, rules, info, sender));
    let frames = futures::stream::unfold(receiver, |mut receiver| async move {
        let (due, line) = receiver.recv().await?;
        tokio::time::sleep_until(due).await;
        Some((Ok(Frame::data(line)), receiver))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Reads until the server ends the watch or the client disconnects.
async fn read_lines(
    mut body: Body,
    rules: Arc<Rules>,
    info: RequestInfo,
    sender: mpsc::UnboundedSender<(Instant, Bytes)>,
) {
    let mut buffer = BytesMut::new();
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = sender.closed() => return,
        };
        let Some(Ok(frame)) = frame else { return };
        let Ok(data) = frame.into_data() else { continue };
        buffer.extend_from_slice(&data);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end + 1).freeze();
            if sender.send((Instant::now() + rules.delay(&info), line)).is_err() {
                return;
            }
        }
    }
}
