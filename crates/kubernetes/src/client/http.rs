//! HTTP clients: user agents, timeouts, and the settings of kube that the controller changes.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::unfold;
use http::header::{HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited, StreamBody};
use jiff::Timestamp;
use kube::client::Body;
use kube::core::Status;
use kube::{Client, Config};
use ordereddeployment_api::names::CONTROLLER;
use tokio::time::timeout;
use tower::{BoxError, service_fn};

use crate::ClientMetrics;
use crate::client::decode::DepthLimit;
use crate::client::error::RequestError;
use crate::health::{Health, watch_of};

/// Longer than a watch may be idle (290 s and a margin): only a read of a dead connection times out.
const READ_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a watch or a list waits for the beginning of its answer. API servers wait no longer.
const ANSWERS: Duration = Duration::from_secs(60);
/// How long an answer may be silent. An API server sends a bookmark on each watch every minute; a proxy whose
/// own connection to the API server is dead sends nothing. Kubernetes 1.20 sends no bookmark before the first
/// event of the kind: then the watch is only opened more often.
const SILENT: Duration = Duration::from_secs(150);
/// The longest body of a failed request with `Retry-After` that is read, in bytes.
const LONGEST_FAILURE: usize = 1024 * 1024;

/// The client configuration of the controller. kube's own retries repeat a POST after a 503 or 504 that may
/// have been processed: the controller repeats no write without a read before it.
#[must_use]
pub fn client_config(mut config: Config) -> Config {
    config.default_retry = false;
    config.read_timeout = Some(READ_TIMEOUT);
    config
}

/// The same client, which counts its requests and their answers.
#[must_use]
pub fn counted(client: &Client, metrics: &Arc<ClientMetrics>) -> Client {
    let (inner, metrics) = (client.clone(), Arc::clone(metrics));
    let service = service_fn(move |request: http::Request<Body>| {
        let (inner, metrics) = (inner.clone(), Arc::clone(&metrics));
        // Requests whose caller has given up are counted too.
        let mut counted = Counted { metrics, method: request.method().clone(), code: None };
        async move {
            let answer = inner.send(request).await;
            counted.answered(&answer);
            answer.map_err(BoxError::from)
        }
    });
    Client::new(service, client.default_namespace().to_owned())
}

/// A request, counted when it ends.
struct Counted {
    metrics: Arc<ClientMetrics>,
    method: Method,
    code: Option<StatusCode>,
}

impl Counted {
    fn answered<B, E>(&mut self, answer: &Result<http::Response<B>, E>) {
        self.code = answer.as_ref().ok().map(http::Response::status);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let code = self.code.as_ref().map_or("<error>", StatusCode::as_str);
        self.metrics.requests.with_label_values(&[self.method.as_str(), code]).inc();
    }
}

/// The resource of a request, and whether it is a watch.
fn watched(request: &http::Request<Body>) -> (String, bool) {
    let resource = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    (resource, request.uri().query().is_some_and(|query| query.contains("watch=true")))
}

/// The same client for watches: it records when data last arrived on a watch, limits the wait for the
/// beginning of an answer, and ends an answer that is silent for too long. The watch goes on where it ended.
pub fn watching(client: &Client, metrics: &Arc<ClientMetrics>) -> Client {
    let (inner, metrics) = (client.clone(), Arc::clone(metrics));
    let service = service_fn(move |request: http::Request<Body>| {
        let (inner, metrics) = (inner.clone(), Arc::clone(&metrics));
        let (resource, watches) = watched(&request);
        async move {
            let answer = match timeout(ANSWERS, inner.send(request)).await {
                Ok(answer) => answer?,
                Err(_) => return Err(BoxError::from(RequestError::TimedOut(ANSWERS))),
            };
            // A list that never ends is not a watch.
            let is_watch = watches && answer.status().is_success();
            let heard = move || {
                if is_watch {
                    metrics.heard(&resource, Timestamp::now());
                }
            };
            heard();
            Ok(answer.map(|body| {
                let frames = unfold((body, heard), |(mut body, heard)| async {
                    let frame = timeout(SILENT, body.frame()).await.ok()??;
                    heard();
                    Some((frame, (body, heard)))
                });
                StreamBody::new(frames)
            }))
        }
    });
    Client::new(service, client.default_namespace().to_owned())
}

/// The same client for watches: an open watch works again, though it shows nothing yet.
#[must_use]
pub fn reporting(client: &Client, health: &Health) -> Client {
    let (inner, health) = (client.clone(), health.clone());
    let service = service_fn(move |request: http::Request<Body>| {
        let (inner, health) = (inner.clone(), health.clone());
        async move {
            let (resource, watches) = watched(&request);
            let answer = inner.send(request).await?;
            if watches && answer.status().is_success() {
                health.opened(&watch_of(&resource));
            }
            Ok::<_, BoxError>(answer)
        }
    });
    Client::new(service, client.default_namespace().to_owned())
}

/// Converts an answer with a `Retry-After` header into a `Status` with that wait. A request that the API
/// server sheds under load has no `Status` at all (`Too many requests, please try again later.`).
async fn with_retry_after(answer: http::Response<Body>) -> Result<http::Response<Body>, BoxError> {
    let failed = answer.status().is_client_error() || answer.status().is_server_error();
    let header = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let Some(seconds) = header.and_then(|text| text.parse().ok()).filter(|_| failed) else {
        return Ok(answer);
    };
    let (parts, body) = answer.into_parts();
    let read = Limited::new(body, LONGEST_FAILURE).collect().await?.to_bytes();
    let mut status = serde_json::from_slice::<Status>(&read).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&read);
        Status::failure(text.trim(), "TooManyRequests").with_code(parts.status.as_u16())
    });
    let mut details = match status.details.take() {
        Some(details) => details,
        None => serde_json::from_str("{}")?,
    };
    details.retry_after_seconds = seconds;
    status.details = Some(details);
    Ok(http::Response::from_parts(parts, Body::from(serde_json::to_vec(&status)?)))
}

/// The User-Agent of this controller.
pub(crate) fn user_agent() -> String {
    format!("{CONTROLLER}/{}", env!("CARGO_PKG_VERSION"))
}

/// The same client with the User-Agent of this controller, if a request has none yet. Values that are nested
/// too deeply to be decoded are removed from answers.
#[must_use]
pub fn with_user_agent(client: &Client) -> Client {
    let agent = HeaderValue::from_str(&user_agent()).ok();
    let namespace = client.default_namespace().to_owned();
    let inner = client.clone();
    let service = service_fn(move |mut request: http::Request<Body>| {
        if let Some(agent) = &agent {
            request.headers_mut().entry(USER_AGENT).or_insert_with(|| agent.clone());
        }
        let inner = inner.clone();
        async move {
            let answer = with_retry_after(inner.send(request).await.map_err(BoxError::from)?).await?;
            let mut cut = DepthLimit::default();
            Ok::<_, BoxError>(
                answer.map(|body| body.map_frame(move |frame| frame.map_data(|data| cut.piece(data)))),
            )
        }
    });
    Client::new(service, namespace)
}
