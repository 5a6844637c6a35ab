//! Responses of the proxy, including those that it sends instead of the server.

use std::convert::Infallible;
use std::fmt;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::json;

/// The response of a server as the client receives it.
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Broken>>;

/// Ends a connection without a response, or in the middle of one.
#[derive(Debug)]
pub(super) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("cut by the proxy")
    }
}

impl std::error::Error for Broken {}

/// An error response with this code, in the wording of the API server.
pub(super) fn refusal(code: u16) -> Answer {
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
