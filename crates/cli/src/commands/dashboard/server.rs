//! The requests of the page. Each one passes the gate first. Any program of this machine can open
//! connections: each one answers one request, with a limit in time, unless it has a stream for a page.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response, Sse};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::future::select_all;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

use super::Dashboard;
use super::guard::{HEADERS, Refusal};
use super::stream::events;
use crate::client::{Connection, object_name, pause_length, pod_name};
use crate::commands::abort::{abort, retry};
use crate::commands::mark::{Marks, Side, mark, unmark};
use crate::commands::pause;
use crate::commands::plan::timeline;
use crate::commands::resume::{ResumeTarget, resume};
use crate::commands::undo::{UndoOptions, undo};

const BODY: usize = 64 * 1024;
/// How long a client may take to send the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a write waits for the controller.
const LIMIT: Option<Duration> = Some(Duration::from_secs(10));
/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The most open connections. A further one waits.
const CONNECTIONS: usize = 192;
const BUFFER: usize = 16 * 1024;

/// The files of the page, with their media types. Nothing is loaded from elsewhere.
const FILES: [(&str, &str, &str); 11] = [
    ("index.html", "text/html; charset=utf-8", include_str!("assets/index.html")),
    ("style.css", "text/css; charset=utf-8", include_str!("assets/style.css")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
    ("app.js", SCRIPT, include_str!("assets/app.js")),
    ("dom.js", SCRIPT, include_str!("assets/dom.js")),
    ("list.js", SCRIPT, include_str!("assets/list.js")),
    ("head.js", SCRIPT, include_str!("assets/head.js")),
    ("pods.js", SCRIPT, include_str!("assets/pods.js")),
    ("pod.js", SCRIPT, include_str!("assets/pod.js")),
    ("timeline.js", SCRIPT, include_str!("assets/timeline.js")),
    ("history.js", SCRIPT, include_str!("assets/history.js")),
];
const SCRIPT: &str = "text/javascript; charset=utf-8";

type Shared = State<Arc<Dashboard>>;

/// Serves the connections to these sockets.
pub(super) async fn serve(listeners: Vec<TcpListener>, router: Router) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        let accepts = listeners.iter().map(|listener| Box::pin(listener.accept()));
        match select_all(accepts).await.0 {
            Ok((stream, _)) => _ = connections.spawn(connection(stream, router.clone())),
            // No more file descriptors, for example.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn connection(stream: TcpStream, router: Router) {
    let service =
        service_fn(|request: http::Request<Incoming>| router.clone().oneshot(request.map(Body::new)));
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // The client sees the error too.
    let _ = served.await;
}

pub(super) fn router(dashboard: Arc<Dashboard>) -> Router {
    // The pages of another session have another folder.
    let folder = &dashboard.gate.folder;
    let router = Router::new()
        .route("/", get(async || file("index.html")))
        .route("/assets/{name}", get(async |Path(name): Path<String>| file(&name)))
        .route("/session", post(session))
        .route(&format!("{folder}/events"), get(stream))
        .route(&format!("{folder}/events/{{namespace}}/{{name}}"), get(stream))
        .route(&format!("{folder}/plan/{{namespace}}/{{name}}"), get(plan));
    let router =
        if dashboard.args.read_only { router } else { router.route(&format!("{folder}/act"), post(act)) };
    router.layer(from_fn_with_state(Arc::clone(&dashboard), guard)).with_state(dashboard)
}

/// Checks the request, and adds the headers to the response.
async fn guard(State(dashboard): Shared, request: Request, next: Next) -> Response {
    let mut response = guarded(&dashboard, request, next).await.into_response();
    for (name, value) in HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

async fn guarded(dashboard: &Dashboard, request: Request, next: Next) -> Result<Response, Refusal> {
    let headers = request.headers();
    dashboard.gate.host(headers)?;
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        dashboard.gate.origin(headers)?;
    }
    if request.uri().path().starts_with("/s/") {
        dashboard.gate.session(headers)?;
    }
    Ok(next.run(with_body(request).await?).await)
}

/// The request with its whole body.
async fn with_body(request: Request) -> Result<Request, Refusal> {
    let (parts, body) = request.into_parts();
    match timeout(BODY_TIMEOUT, to_bytes(body, BODY)).await {
        Ok(Ok(bytes)) => Ok(Request::from_parts(parts, bytes.into())),
        Ok(Err(_)) => Err((StatusCode::PAYLOAD_TOO_LARGE, "the request is too large")),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the request takes too long")),
    }
}

fn file(name: &str) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, media_type, text)) => ([(header::CONTENT_TYPE, *media_type)], *text).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

/// Exchanges the token of the address for a cookie, once.
async fn session(State(dashboard): Shared, Json(Token { token }): Json<Token>) -> Response {
    if let Err(refusal) = dashboard.gate.exchange(&token) {
        return refusal.into_response();
    }
    // What the page needs to know before the first event.
    let described = json!({
        "folder": dashboard.gate.folder,
        "namespace": (!dashboard.args.all_namespaces).then_some(&dashboard.connection.namespace),
        "readOnly": dashboard.args.read_only,
        "version": env!("CARGO_PKG_VERSION"),
    });
    ([(header::SET_COOKIE, dashboard.gate.cookie())], Json(described)).into_response()
}

/// The stream of a page; with a path, of one that shows an object.
async fn stream(State(dashboard): Shared, object: Option<Path<(String, String)>>) -> Response {
    let object = object.map(|Path(object)| object);
    match Arc::clone(&dashboard.streams).try_acquire_owned() {
        Ok(open) => Sse::new(events(dashboard, object, open)).into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "too many pages are open: close some").into_response(),
    }
}

/// The plan of an object, or of a rollout to other images: `?image=web=nginx:1.29`.
async fn plan(
    State(dashboard): Shared,
    Path((namespace, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let pairs = form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes());
    let images: Vec<_> =
        pairs.filter(|(key, _)| key == "image").map(|(_, image)| image.into_owned()).collect();
    let planned = async {
        let _permit = dashboard.plans.acquire().await?;
        let connection = dashboard.connection(&namespace)?;
        // Times in a status are whole seconds.
        let now = ordereddeployment_planner::whole_seconds(dashboard.now());
        let Some(state) = dashboard.stores.state(&namespace, &name, now) else { return Ok(Value::Null) };
        timeline(&connection.client, &state, &images).await
    };
    answer(planned.await)
}

#[derive(Deserialize)]
struct Write {
    namespace: String,
    name: String,
    act: Act,
}

async fn act(State(dashboard): Shared, Json(Write { namespace, name, act }): Json<Write>) -> Response {
    answer(async { act.run(&dashboard.connection(&namespace)?, &name).await }.await)
}

/// A write that the page requests. A request about the rollout has the revision that the page shows, so that
/// a click on an outdated page never acts on another rollout.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
enum Act {
    Resume { hold: String },
    ResumeAll { revision: i64 },
    Pause,
    Unpause,
    Abort { revision: i64 },
    Retry { revision: i64 },
    Undo { revision: i64 },
    Mark { pod: String, priority: Option<i32>, pause: Option<Side>, length: Option<String> },
    Unmark { pod: String },
}

impl Act {
    /// Writes, and returns the text that the command prints.
    async fn run(self, connection: &Connection, name: &str) -> Result<String> {
        let name = &object_name(name)?;
        match self {
            Self::Resume { hold } => resume(connection, name, ResumeTarget::Hold(&hold), LIMIT).await,
            Self::ResumeAll { revision } => {
                resume(connection, name, ResumeTarget::All(Some(revision)), LIMIT).await
            }
            Self::Pause => pause::set(connection, name, true).await,
            Self::Unpause => pause::set(connection, name, false).await,
            Self::Abort { revision } => abort(connection, name, Some(revision), LIMIT).await,
            Self::Retry { revision } => retry(connection, name, Some(revision), LIMIT).await,
            Self::Undo { revision } => {
                undo(connection, name, UndoOptions { to_revision: revision, ..UndoOptions::default() }).await
            }
            Self::Mark { pod, priority, pause, length } => {
                let length =
                    length.filter(|_| pause.is_some()).map(|text| pause_length(&text)).transpose()?;
                mark(connection, &pod_name(&pod)?, Marks { priority, pause, length }).await
            }
            Self::Unmark { pod } => unmark(connection, &pod_name(&pod)?).await,
        }
    }
}

/// The result as JSON, or the message of the error.
fn answer<T: serde::Serialize>(result: Result<T>) -> Response {
    let refused = |error| json!({"error": format!("{error:#}")});
    match result {
        Ok(value) => Json(value).into_response(),
        Err(error) => (StatusCode::UNPROCESSABLE_ENTITY, Json(refused(error))).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::{BUFFER, CONNECTIONS, FILES, HEAD_TIMEOUT, serve};

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

    #[test]
    fn no_file_makes_markup_of_text_or_loads_anything_from_elsewhere() {
        let markup = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("];
        for (name, _, text) in FILES {
            for word in markup {
                assert!(!text.contains(word), "{name} has {word}");
            }
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for address in ["http:", "https:", "//cdn", "@import"] {
                assert!(!text.contains(address), "{name} has {address}");
            }
        }
    }

    #[test]
    fn the_page_has_no_inline_script_or_style() {
        let (_, _, text) = FILES[0];
        for word in ["<style", " style=", " onclick", " onerror", "javascript:"] {
            assert!(!text.contains(word), "{word}");
        }
        assert_eq!(text.matches("<script").count(), 1);
        assert!(text.contains("<script type=\"module\" src=\"/assets/app.js\"></script>"));
    }
}
