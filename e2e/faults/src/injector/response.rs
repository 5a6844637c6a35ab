//! The responses of the fault injector.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use serde_json::json;
use tower::BoxError;

/// The response of a request.
pub(super) type ApiResponse = Response<UnsyncBoxBody<Bytes, BoxError>>;
/// The read timeout of the controller's client.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// The error of a connection that is reset.
#[derive(Debug)]
pub(super) struct ConnectionReset;

impl fmt::Display for ConnectionReset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection reset by peer")
    }
}

impl std::error::Error for ConnectionReset {}

pub(super) fn boxed(body: Body) -> UnsyncBoxBody<Bytes, BoxError> {
    body.map_err(BoxError::from).boxed_unsync()
}

/// An error response, which the server did not send.
pub(super) fn error(code: u16, reason: &str, message: &str) -> Result<ApiResponse, BoxError> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    let response = Response::builder().status(code).header(http::header::CONTENT_TYPE, "application/json");
    Ok(response.body(boxed(Body::from(status.to_string().into_bytes())))?)
}
