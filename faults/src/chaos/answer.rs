//! What a controller hears: an answer, or that the connection breaks.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use serde_json::json;
use tower::BoxError;

/// What a controller is answered.
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;
/// How long a client reads from a connection on which nothing comes: what the controller's program is configured to.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// The connection breaks.
#[derive(Debug)]
pub(super) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection reset by peer")
    }
}

impl std::error::Error for Broken {}

pub(super) fn boxed(body: Body) -> UnsyncBoxBody<Bytes, BoxError> {
    body.map_err(BoxError::from).boxed_unsync()
}

/// An answer that the server never gave.
pub(super) fn status(code: u16, reason: &str, message: &str) -> Result<Answer, BoxError> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    let answer = Response::builder().status(code).header(http::header::CONTENT_TYPE, "application/json");
    Ok(answer.body(boxed(Body::from(status.to_string().into_bytes())))?)
}
