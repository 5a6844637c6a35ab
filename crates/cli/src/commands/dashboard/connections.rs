//! The connections of the dashboard. Those with a stream of events for a page are counted apart from the
//! others: any program of this machine can open the others, and pages with the cookie keep theirs.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tower::ServiceExt;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The most open connections without a stream. A further one closes the oldest.
const CONNECTIONS: usize = 128;
/// The most open streams. A further one is refused.
const STREAMS: usize = 64;
/// The read buffer of a connection, in bytes.
const BUFFER: usize = 16 * 1024;

/// Whether a stream is open on a connection.
#[derive(Clone, Default)]
pub(super) struct Streaming(Arc<AtomicBool>);

impl Streaming {
    pub(super) fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Serves the connections to these sockets.
pub(super) async fn serve(listeners: Vec<TcpListener>, router: Router) -> Infallible {
    let mut connections = JoinSet::new();
    let mut oldest_first: Vec<(Streaming, AbortHandle)> = Vec::new();
    loop {
        let stream = tokio::select! {
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listeners) => accepted,
        };
        let Ok(stream) = stream else {
            // No more file descriptors, for example.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        oldest_first.retain(|(_, task)| !task.is_finished());
        let mut others = oldest_first.iter().enumerate().filter(|(_, (streaming, _))| !streaming.is_open());
        let oldest = others.next().map(|(index, _)| index);
        if let Some(oldest) = oldest.filter(|_| others.count() + 1 >= CONNECTIONS) {
            oldest_first.remove(oldest).1.abort();
        }
        let streaming = Streaming::default();
        let task = connections.spawn(connection(stream, router.clone(), streaming.clone()));
        oldest_first.push((streaming, task));
    }
}

async fn accept(listeners: &[TcpListener]) -> io::Result<TcpStream> {
    let (accepted, ..) = select_all(listeners.iter().map(|listener| Box::pin(listener.accept()))).await;
    accepted.map(|(stream, _)| stream)
}

async fn connection(stream: TcpStream, router: Router, streaming: Streaming) {
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(streaming.clone());
        router.clone().oneshot(request)
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER)
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

    /// Counts a stream on that connection until it is dropped; `None` if too many are open.
    pub(super) fn open(&self, streaming: Streaming) -> Option<OpenStream> {
        let is_counted = self.0.send_if_modified(|used| {
            let is_possible = used.streams < STREAMS;
            used.streams += usize::from(is_possible);
            is_possible
        });
        is_counted.then(|| {
            streaming.0.store(true, Ordering::Release);
            OpenStream { usage: self.clone(), streaming }
        })
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
pub(super) struct OpenStream {
    usage: Usage,
    streaming: Streaming,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streaming.0.store(false, Ordering::Release);
        self.usage.0.send_modify(|used| {
            *used = Used { streams: used.streams.saturating_sub(1), last: Instant::now() }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use axum::body::Body;
    use axum::extract::Extension;
    use axum::routing::get;
    use axum::{Router, http::StatusCode};
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::broadcast;
    use tokio::time::Instant;

    use super::{BUFFER, CONNECTIONS, HEAD_TIMEOUT, STREAMS, Streaming, Usage, serve};

    /// A server with `/` and with `/stream`, which sends what the sender gives it.
    async fn served() -> (SocketAddr, broadcast::Sender<&'static str>) {
        let (usage, (sender, _)) = (Usage::new(), broadcast::channel(1));
        let source = sender.clone();
        let stream = async move |Extension(streaming): Extension<Streaming>| {
            let Some(open) = usage.open(streaming) else { return Err(StatusCode::SERVICE_UNAVAILABLE) };
            let chunks = futures::stream::unfold((source.subscribe(), open), async |(mut source, open)| {
                let chunk = source.recv().await;
                Some((chunk, (source, open)))
            });
            Ok(Body::from_stream(chunks))
        };
        let router = Router::new().route("/", get("answered")).route("/stream", get(stream));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(vec![listener], router));
        (address, sender)
    }

    async fn connect(address: SocketAddr, sent: &[u8]) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        BufReader::new(stream)
    }

    /// The status of a response, whose head is read.
    async fn status(stream: &mut BufReader<TcpStream>) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).await.unwrap(), 0, "closed after {head:?}");
        }
        head.split(' ').nth(1).unwrap().to_owned()
    }

    const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    const STREAM: &[u8] = b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n";

    #[tokio::test]
    async fn idle_connections_close_the_oldest_of_them_and_no_stream() {
        let (address, sender) = served().await;
        let mut stream = connect(address, STREAM).await;
        assert_eq!(status(&mut stream).await, "200");
        let mut idle = Vec::new();
        for _ in 0..CONNECTIONS + 20 {
            idle.push(connect(address, b"GET / HTTP/1.1\r\n").await);
        }
        assert_eq!(status(&mut connect(address, GET).await).await, "200");
        let closed = tokio::time::timeout(HEAD_TIMEOUT / 2, idle[0].read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "still open");
        sender.send("alive\n").unwrap();
        let (mut size, mut chunk) = (String::new(), String::new());
        stream.read_line(&mut size).await.unwrap();
        stream.read_line(&mut chunk).await.unwrap();
        assert_eq!(chunk, "alive\n");
    }

    #[tokio::test]
    async fn streams_have_a_limit_and_use_up_no_other_connections() {
        let (address, _sender) = served().await;
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            let mut stream = connect(address, STREAM).await;
            assert_eq!(status(&mut stream).await, "200");
            streams.push(stream);
        }
        let mut further = connect(address, STREAM).await;
        assert_eq!(status(&mut further).await, "503");
        let mut others = Vec::new();
        for _ in 0..CONNECTIONS - 1 {
            let mut other = connect(address, GET).await;
            assert_eq!(status(&mut other).await, "200");
            others.push(other);
        }
        // All of them are still open, and are served.
        for other in &mut others {
            let mut text = [0; "answered".len()];
            other.read_exact(&mut text).await.unwrap();
            other.get_mut().write_all(GET).await.unwrap();
            assert_eq!(status(other).await, "200");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_incomplete_head_times_out() {
        let (address, _sender) = served().await;
        let mut open = connect(address, b"GET / HTTP/1.1\r\n").await;
        let closed = tokio::time::timeout(2 * HEAD_TIMEOUT, open.read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "still open");
    }

    #[tokio::test]
    async fn a_head_without_an_end_is_refused_at_the_limit() {
        let (address, _sender) = served().await;
        let mut open = connect(address, b"GET / HTTP/1.1\r\nx: ").await;
        // The server may close it before all is written.
        let _ = open.get_mut().write_all(&vec![b'a'; 4 * BUFFER]).await;
        let closed = tokio::time::timeout(HEAD_TIMEOUT / 2, open.read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "still open");
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
        let open = usage.open(Streaming::default()).unwrap();
        tokio::time::sleep(10 * minute).await;
        assert!(!idle.is_finished());
        drop(open);
        idle.await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 12 * minute.as_secs());
        let never = tokio::time::timeout(100 * minute, usage.idle(None)).await;
        assert!(never.is_err());
    }
}
