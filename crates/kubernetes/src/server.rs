//! The server of `/metrics`, `/healthz` and `/readyz`. It sends no requests to the cluster.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

use crate::Health;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The most open connections. A further one closes the oldest: idle connections do not block probes.
const CONNECTIONS: usize = 128;
/// The read buffer of a connection, in bytes.
const BUFFER: usize = 16 * 1024;

/// Renders the metrics in Prometheus' text format.
pub type Render = dyn Fn() -> prometheus::Result<String> + Send + Sync;

/// Serves until `shutdown` ends.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Render>,
    health: Health,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = std::pin::pin!(shutdown);
    let mut connections = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = tokio::select! {
            () = &mut shutdown => return,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let (metrics, health) = (Arc::clone(&metrics), health.clone());
        oldest_first.retain(|connection| !connection.is_finished());
        if oldest_first.len() >= CONNECTIONS
            && let Some(oldest) = oldest_first.pop_front()
        {
            oldest.abort();
        }
        oldest_first.push_back(connections.spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let response = answer(request.method(), request.uri().path(), &*metrics, &health);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(BUFFER)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        }));
    }
}

fn answer(method: &Method, path: &str, metrics: &Render, health: &Health) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n".to_owned());
    }
    match path {
        "/healthz" => state(health.stuck(), &[]),
        "/readyz" => state(health.unready(), &health.notes()),
        "/metrics" => match metrics() {
            Ok(rendered) => text(StatusCode::OK, rendered),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        _ => text(StatusCode::NOT_FOUND, "try /metrics, /healthz or /readyz\n".to_owned()),
    }
}

/// The answer to a probe, with what controllers wait for.
fn state(wrong: Option<String>, notes: &[String]) -> Response<Full<Bytes>> {
    match wrong {
        None => {
            let lines: Vec<&str> = std::iter::once("ok").chain(notes.iter().map(String::as_str)).collect();
            text(StatusCode::OK, lines.join("\n") + "\n")
        }
        Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let plain = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{Method, StatusCode};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::{BUFFER, CONNECTIONS, HEAD_TIMEOUT, answer, serve};
    use crate::{Health, Watched};

    #[test]
    fn each_path_has_its_own_answer() {
        let pods = Watched { controller: "one", resource: "pods", optional: false };
        let health = Health::of([pods]);
        let status =
            |method: &Method, path: &str| answer(method, path, &|| Ok(String::new()), &health).status();
        assert_eq!(status(&Method::GET, "/healthz"), StatusCode::OK);
        assert_eq!(status(&Method::GET, "/metrics"), StatusCode::OK);
        assert_eq!(status(&Method::GET, "/readyz"), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(&Method::GET, "/other"), StatusCode::NOT_FOUND);
        assert_eq!(status(&Method::POST, "/metrics"), StatusCode::METHOD_NOT_ALLOWED);
        health.synced(pods);
        assert_eq!(status(&Method::GET, "/readyz"), StatusCode::OK);
    }

    /// A server, and connections to it on which these bytes were sent.
    async fn with_connections(count: usize, sent: &[u8]) -> (std::net::SocketAddr, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Arc::new(|| Ok(String::new())), Health::of([]), std::future::pending()));
        let mut open = Vec::new();
        for _ in 0..count {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(sent).await.unwrap();
            open.push(stream);
        }
        (address, open)
    }

    /// What the server sends before it closes the connection, which is sooner than the timeout of a head.
    async fn response(stream: &mut TcpStream) -> String {
        let mut response = Vec::new();
        // The close may be an error: the server does not read all that was sent.
        let closed = tokio::time::timeout(HEAD_TIMEOUT / 2, stream.read_to_end(&mut response)).await;
        assert!(closed.is_ok(), "still open");
        String::from_utf8_lossy(&response).into_owned()
    }

    async fn healthz(address: std::net::SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    #[tokio::test]
    async fn idle_connections_do_not_block_probes_and_the_oldest_is_closed() {
        let (address, mut open) = with_connections(CONNECTIONS + 20, b"GET /metrics HTTP/1.1\r\n").await;
        assert!(healthz(address).await.starts_with("HTTP/1.1 200"));
        assert_eq!(response(&mut open[0]).await, "", "closed without an answer");
    }

    #[tokio::test(start_paused = true)]
    async fn an_incomplete_head_times_out() {
        let (_, mut open) = with_connections(1, b"GET /metrics HTTP/1.1\r\n").await;
        let closed = tokio::time::timeout(2 * HEAD_TIMEOUT, open[0].read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "still open");
    }

    #[tokio::test]
    async fn a_head_without_an_end_is_refused_at_the_limit() {
        let (_, mut open) = with_connections(1, b"GET /metrics HTTP/1.1\r\nx: ").await;
        // The server may close it before all is written.
        let _ = open[0].write_all(&vec![b'a'; 4 * BUFFER]).await;
        let response = response(&mut open[0]).await;
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 431"), "{response}");
    }
}
