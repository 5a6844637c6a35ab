//! Rules between a controller and the server: a test may delay a request, do something before it, change it, or answer it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

/// A request in flight.
#[derive(Clone, Debug)]
pub struct Ask {
    pub method: Method,
    /// With the query.
    pub path: String,
    /// Null without a body.
    pub body: Value,
}

impl Ask {
    /// Whether it has that method, and its path contains that part.
    pub fn is(&self, method: &Method, part: &str) -> bool {
        self.method == *method && self.path.contains(part) && !self.path.contains("watch=1")
    }

    /// Whether it patches a pod: labels, owners.
    pub fn patches_pod(&self) -> bool {
        self.is(&Method::PATCH, "/pods/")
    }

    /// Whether it is a dry run of a pod create.
    pub fn is_dry_run(&self) -> bool {
        self.path.contains("/pods?") && self.path.contains("dryRun=All")
    }

    /// Whether it creates a pod with that image, or is a dry run of that.
    pub fn creates_pod(&self, image: &str) -> bool {
        self.method == Method::POST
            && self.body.pointer("/spec/containers/0/image").is_some_and(|found| found == image)
    }
}

/// What happens to a request.
pub enum Fate {
    Forward,
    /// It arrives later.
    Late(Duration),
    /// It arrives after this future.
    After(BoxFuture<'static, ()>),
    /// It arrives with this body.
    Changed(Value),
    /// It does not arrive, and this is the answer.
    Answered(u16),
    /// It does not arrive: the server sheds it under load, and asks to wait that many seconds.
    Shed(u32),
    /// The same for a create: its name exists.
    Taken,
    /// It does not arrive, and there is no answer.
    Lost,
}

type Rule = Box<dyn FnMut(&Ask) -> Fate + Send>;

/// Rules for requests; each rule sees each request, in order.
#[derive(Clone, Default)]
pub struct Between(Arc<Mutex<Vec<Rule>>>);

impl Between {
    pub fn rule(&self, rule: impl FnMut(&Ask) -> Fate + Send + 'static) {
        self.0.lock().unwrap().push(Box::new(rule));
    }

    pub fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    /// Does this before the first request of that method whose path contains that part.
    pub fn before(
        &self,
        method: Method,
        part: &'static str,
        deed: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut deed: Option<BoxFuture<'static, ()>> = Some(Box::pin(deed));
        self.rule(move |ask| {
            if ask.is(&method, part) { deed.take().map_or(Fate::Forward, Fate::After) } else { Fate::Forward }
        });
    }

    pub fn client(&self, inner: &Client) -> Client {
        let (between, inner) = (self.clone(), inner.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (between, inner) = (between.clone(), inner.clone());
            async move { between.send(&inner, request).await }
        });
        Client::new(service, "default")
    }

    async fn send(&self, inner: &Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let mut body = body.collect_bytes().await?;
        let mut ask = Ask {
            method: head.method.clone(),
            path: head.uri.to_string(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        };
        let count = self.0.lock().unwrap().len();
        for place in 0..count {
            let fate = self.0.lock().unwrap().get_mut(place).map_or(Fate::Forward, |rule| rule(&ask));
            match fate {
                Fate::Forward => {}
                Fate::Late(time) => tokio::time::sleep(time).await,
                Fate::After(deed) => deed.await,
                Fate::Changed(changed) => {
                    body = serde_json::to_vec(&changed)?.into();
                    ask.body = changed;
                }
                Fate::Answered(code) => return Ok(refusal(code, None)),
                Fate::Shed(seconds) => {
                    let answer = Response::builder().status(429).header("Retry-After", seconds);
                    return Ok(
                        answer.body(Body::from(b"Too many requests, please try again later.".to_vec()))?
                    );
                }
                Fate::Taken => return Ok(refusal(409, Some("AlreadyExists"))),
                Fate::Lost => std::future::pending().await,
            }
        }
        Ok(inner.send(Request::from_parts(head, Body::from(body))).await?)
    }
}

fn refusal(code: u16, reason: Option<&str>) -> Response<Body> {
    let reason = reason.unwrap_or(match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        429 => "TooManyRequests",
        _ => "InternalError",
    });
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("answered {code} in between"),
    });
    let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap();
    answer
}
