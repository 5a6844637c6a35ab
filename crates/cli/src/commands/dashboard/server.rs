//! The requests of the page. Each one passes the gate first.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::body::to_bytes;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response, Sse};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::act::Act;
use super::assets::{Asset, INDEX, find};
use super::guard::{HEADERS, Refusal};
use super::shared::Dashboard;
use super::stream::events;
use crate::commands::plan::timeline;

/// The largest body of a request.
const BODY: usize = 64 * 1024;
/// How long a client may take to send the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

type Shared = State<Arc<Dashboard>>;

/// All requests that the dashboard answers.
pub(super) fn router(dashboard: Arc<Dashboard>) -> Router {
    // The pages of another session have another folder.
    let folder = dashboard.gate.folder();
    let router = Router::new()
        .route("/", get(async || file(&INDEX)))
        .route("/assets/{name}", get(asset))
        .route("/session", post(session))
        .route(&format!("{folder}/events"), get(stream))
        .route(&format!("{folder}/events/{{namespace}}/{{name}}"), get(stream))
        .route(&format!("{folder}/plan/{{namespace}}/{{name}}"), get(plan));
    let router = if dashboard.read_only { router } else { router.route(&format!("{folder}/act"), post(act)) };
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
        dashboard.usage.note();
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

fn file(asset: &'static Asset) -> Response {
    ([(header::CONTENT_TYPE, asset.media_type)], asset.text).into_response()
}

async fn asset(Path(name): Path<String>) -> Response {
    find(&name).map_or_else(|| StatusCode::NOT_FOUND.into_response(), file)
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
    dashboard.usage.note();
    ([(header::SET_COOKIE, dashboard.gate.cookie())], Json(described(&dashboard))).into_response()
}

/// What the page needs to know before the first event.
fn described(dashboard: &Dashboard) -> Value {
    let namespace = (!dashboard.all_namespaces).then_some(&dashboard.connection.namespace);
    json!({
        "folder": dashboard.gate.folder(),
        "namespace": namespace,
        "readOnly": dashboard.read_only,
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// The stream of a page; with a path, of one that shows an object.
async fn stream(State(dashboard): Shared, object: Option<Path<(String, String)>>) -> Response {
    let object = object.map(|Path(object)| object);
    match dashboard.usage.open() {
        Some(open) => Sse::new(events(dashboard, object, open)).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "too many pages are open: close some").into_response(),
    }
}

/// The plan of an object, or of a rollout to other images: `?image=web=nginx:1.29`.
async fn plan(
    State(dashboard): Shared,
    Path((namespace, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let pairs = form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes());
    let images = pairs.filter(|(key, _)| key == "image").map(|(_, image)| image.into_owned()).collect();
    answer(planned(&dashboard, &namespace, &name, images).await)
}

async fn planned(
    dashboard: &Dashboard,
    namespace: &str,
    name: &str,
    images: Vec<String>,
) -> Result<Option<Value>> {
    let _permit = dashboard.plans.acquire().await?;
    let connection = dashboard.connection(namespace)?;
    // Times in a status are whole seconds.
    let now = ordereddeployment_planner::whole_seconds(dashboard.now());
    let Some(state) = dashboard.stores.state(namespace, name, now) else { return Ok(None) };
    timeline(&connection.client, &state, &images).await.map(Some)
}

#[derive(Deserialize)]
struct Write {
    namespace: String,
    name: String,
    act: Act,
}

async fn act(State(dashboard): Shared, Json(Write { namespace, name, act }): Json<Write>) -> Response {
    let connection = match dashboard.connection(&namespace) {
        Ok(connection) => connection,
        Err(error) => return answer::<()>(Err(error)),
    };
    answer(act.run(&connection, &name).await)
}

/// The result as JSON, or the message of the error.
fn answer<T: serde::Serialize>(result: Result<T>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(error) => {
            (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({"error": format!("{error:#}")}))).into_response()
        }
    }
}
