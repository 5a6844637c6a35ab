//! Clients: how requests are signed, and what kube's configuration must not do for us.

use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::{Client, Config};
use ordereddeployment_api::names::CONTROLLER;
use ordereddeployment_planner::Purpose;
use tower::{BoxError, service_fn};

use crate::decode::Cut;

/// Longer than a watch may idle (290 s and a margin): only a read of a dead connection ends by this.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// The configuration of a client for the controller. kube's own retries repeat a POST after a 503 or 504, which may have
/// been carried out: the controller repeats nothing it has not looked up again.
#[must_use]
pub fn client_config(mut config: Config) -> Config {
    config.default_retry = false;
    config.read_timeout = Some(READ_TIMEOUT);
    config
}

/// The same client signing its requests as this controller; deletions also say what they are for. Answers come without what
/// is nested too deeply to be decoded.
pub(crate) fn signed(client: &Client, purpose: Option<Purpose>) -> Client {
    let suffix = match purpose {
        None => "",
        Some(Purpose::Rollout) => "/rollout",
        Some(Purpose::Scale) => "/scale",
    };
    let signature = format!("{CONTROLLER}/{}{suffix}", env!("CARGO_PKG_VERSION"));
    let signature = HeaderValue::from_str(&signature).ok();
    let namespace = client.default_namespace().to_owned();
    let inner = client.clone();
    let service = service_fn(move |mut request: http::Request<Body>| {
        if let Some(signature) = &signature {
            request.headers_mut().insert(USER_AGENT, signature.clone());
        }
        let inner = inner.clone();
        async move {
            let answer = inner.send(request).await.map_err(BoxError::from)?;
            let mut cut = Cut::default();
            Ok::<_, BoxError>(
                answer.map(|body| body.map_frame(move |frame| frame.map_data(|data| cut.piece(data)))),
            )
        }
    });
    Client::new(service, namespace)
}
