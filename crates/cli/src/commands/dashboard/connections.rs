//! The connections of the dashboard, and how pages with the cookie use it. Any program of this machine can
//! open connections: each one answers one request, with a limit in time, unless it has a stream for a page.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures::future::select_all;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tower::ServiceExt;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The most open connections. A further one waits.
const CONNECTIONS: usize = 192;
/// The most open streams. A further one is refused, so that there are connections for other requests.
const STREAMS: usize = 64;
/// The read buffer of a connection, in bytes.
const BUFFER: usize = 16 * 1024;

/// Serves the connections to these sockets.
pub(super) async fn serve(listeners: Vec<TcpListener>, router: Router) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        match accept(&listeners).await {
            Ok(stream) => _ = connections.spawn(connection(stream, router.clone())),
            // No more file descriptors, for example.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn accept(listeners: &[TcpListener]) -> io::Result<TcpStream> {
    let (accepted, ..) = select_all(listeners.iter().map(|listener| Box::pin(listener.accept()))).await;
    accepted.map(|(stream, _)| stream)
}

async fn connection(stream: TcpStream, router: Router) {
    let service = service_fn(|request: Request<Incoming>| router.clone().oneshot(request.map(Body::new)));
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // The client sees the error too.
    let _ = served.await;
}

/// The streams and the last request of pages with the cookie.
#[derive(Clone, Copy)]
struct Used {
    streams: usize,
    last: Instant,
}

/// How pages with the cookie use the dashboard.
#[derive(Clone)]
pub(super) struct Usage(watch::Sender<Used>);

impl Usage {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Used { streams: 0, last: Instant::now() }))
    }

    /// Notes a request of a page with the cookie.
    pub(super) fn note(&self) {
        self.0.send_modify(|used| used.last = Instant::now());
    }

    /// Counts a stream until it is dropped; `None` if too many are open.
    pub(super) fn open(&self) -> Option<OpenStream> {
        let is_counted = self.0.send_if_modified(|used| {
            let is_possible = used.streams < STREAMS;
            used.streams += usize::from(is_possible);
            is_possible
        });
        is_counted.then(|| OpenStream(self.clone()))
    }

    /// Ends once there was neither a stream nor a request for that time; never without one.
    pub(super) async fn idle(&self, limit: Option<Duration>) {
        let Some(limit) = limit else { return std::future::pending().await };
        let mut changes = self.0.subscribe();
        loop {
            let Used { streams, last } = *changes.borrow_and_update();
            tokio::select! {
                () = sleep_until(last + limit), if streams == 0 => return,
                _ = changes.changed() => {}
            }
        }
    }
}

/// An open stream.
pub(super) struct OpenStream(Usage);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.0.send_modify(|used| {
            *used = Used { streams: used.streams.saturating_sub(1), last: Instant::now() }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::{Instant, timeout};

    use super::{BUFFER, CONNECTIONS, HEAD_TIMEOUT, STREAMS, Usage, serve};

    #[tokio::test]
    async fn connections_are_served_again_after_many_incomplete_and_too_long_heads() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(vec![listener], Router::new().route("/", get("answered"))));
        let connect = async |sent: &[u8]| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // The server may close it before all is written.
            let _ = stream.write_all(sent).await;
            stream
        };
        let answer = async |mut stream: TcpStream, limit| {
            let mut text = Vec::new();
            timeout(limit, stream.read_to_end(&mut text)).await.expect("still open").map(|_| text)
        };
        let endless = [b"GET / HTTP/1.1\r\nx: ", vec![b'a'; 4 * BUFFER].as_slice()].concat();
        let endless = answer(connect(&endless).await, HEAD_TIMEOUT / 2).await;
        assert!(!endless.is_ok_and(|text| text.starts_with(b"HTTP/1.1 200")));
        let mut incomplete = Vec::new();
        for _ in 0..CONNECTIONS + 20 {
            incomplete.push(connect(b"GET / HTTP/1.1\r\n").await);
        }
        let complete = connect(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let complete = answer(complete, 3 * HEAD_TIMEOUT).await.unwrap();
        assert!(complete.starts_with(b"HTTP/1.1 200") && complete.ends_with(b"answered"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_dashboard_is_idle_after_the_last_request_and_the_last_stream() {
        let minute = Duration::from_secs(60);
        let (usage, start) = (Usage::new(), Instant::now());
        let idle = tokio::spawn({
            let usage = usage.clone();
            async move { usage.idle(Some(minute)).await }
        });
        tokio::time::sleep(minute / 2).await;
        usage.note();
        tokio::time::sleep(minute / 2).await;
        let open: Vec<_> = (0..STREAMS).map(|_| usage.open().unwrap()).collect();
        assert!(usage.open().is_none());
        tokio::time::sleep(10 * minute).await;
        assert!(!idle.is_finished());
        drop(open);
        idle.await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 12 * minute.as_secs());
        assert!(timeout(100 * minute, usage.idle(None)).await.is_err());
    }
}
