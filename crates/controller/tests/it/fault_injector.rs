//! Rules between a controller and the server: a test may delay, change or answer a request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::iter;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

/// A request in flight.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    pub method: Method,
    /// With the query.
    pub path: String,
    /// Null without a body.
    pub body: Value,
}

impl RequestInfo {
    /// Whether it has that method, and its path contains that part.
    pub fn is(&self, method: &Method, part: &str) -> bool {
        self.method == *method && self.path.contains(part) && !self.is_watch()
    }

    /// Whether it begins a watch.
    pub fn is_watch(&self) -> bool {
        self.path.contains("watch=true")
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

/// What happens to a request, in the words of the fault campaign.
pub enum RequestFault {
    None,
    /// It arrives later.
    Delay(Duration),
    /// It arrives at once, and its answer later.
    DelayAnswer(Duration),
    /// It arrives after this future.
    After(BoxFuture<'static, ()>),
    /// It arrives with this body.
    Mutate(Value),
    /// It does not arrive, and this is the answer.
    Response(u16),
    /// It does not arrive: the server sheds it under load, and asks to wait that many seconds.
    Shed(u32),
    /// It does not arrive, and something between answers with this code, content type and text.
    Answer(u16, &'static str, &'static str),
    /// The same with 200, and a byte a second.
    Trickle(&'static str),
    /// It does not arrive, and its answer begins with 200 and never goes on.
    Silence,
}

type Rule = Box<dyn FnMut(&RequestInfo) -> RequestFault + Send>;

/// Rules for requests; each rule sees each request, in order.
#[derive(Clone, Default)]
pub struct FaultInjector(Arc<Mutex<Vec<Rule>>>);

impl FaultInjector {
    pub fn rule(&self, rule: impl FnMut(&RequestInfo) -> RequestFault + Send + 'static) {
        self.0.lock().unwrap().push(Box::new(rule));
    }

    /// That happens to each request of which the condition holds.
    pub fn when(
        &self,
        mut is_hit: impl FnMut(&RequestInfo) -> bool + Send + 'static,
        fault: impl Fn() -> RequestFault + Send + 'static,
    ) {
        self.rule(move |info| if is_hit(info) { fault() } else { RequestFault::None });
    }

    /// The same, and how often it has happened. An endless loop would never let the time pass: it fails.
    pub fn counted(
        &self,
        is_hit: impl Fn(&RequestInfo) -> bool + Send + 'static,
        mut fault: impl FnMut(&RequestInfo) -> RequestFault + Send + 'static,
    ) -> Arc<AtomicUsize> {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        self.rule(move |info| {
            if !is_hit(info) {
                return RequestFault::None;
            }
            assert!(counted.fetch_add(1, Ordering::Relaxed) < 400, "asked without end");
            fault(info)
        });
        count
    }

    /// Changes the body of each request of which the condition holds, as a mutating webhook does.
    pub fn mutate(
        &self,
        is_hit: impl Fn(&RequestInfo) -> bool + Send + 'static,
        change: impl Fn(&mut Value) + Send + 'static,
    ) {
        self.counted(is_hit, move |info| {
            let mut body = info.body.clone();
            change(&mut body);
            RequestFault::Mutate(body)
        });
    }

    pub fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    /// Does this before the first request of that method whose path contains that part.
    pub fn before(
        &self,
        method: Method,
        part: &'static str,
        action: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut action: Option<BoxFuture<'static, ()>> = Some(Box::pin(action));
        self.rule(move |info| {
            if info.is(&method, part) {
                action.take().map_or(RequestFault::None, RequestFault::After)
            } else {
                RequestFault::None
            }
        });
    }

    pub fn client(&self, inner: &Client) -> Client {
        let (injector, inner) = (self.clone(), inner.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (injector, inner) = (injector.clone(), inner.clone());
            async move { injector.send(&inner, request).await }
        });
        Client::new(service, "default")
    }

    async fn send(&self, inner: &Client, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let (head, body) = request.into_parts();
        let mut body = body.collect_bytes().await?;
        let mut info = RequestInfo {
            method: head.method.clone(),
            path: head.uri.to_string(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        };
        let mut answers_after = Duration::ZERO;
        let count = self.0.lock().unwrap().len();
        for place in 0..count {
            let fault = self.0.lock().unwrap().get_mut(place).map_or(RequestFault::None, |rule| rule(&info));
            match fault {
                RequestFault::None => {}
                RequestFault::Delay(time) => tokio::time::sleep(time).await,
                RequestFault::DelayAnswer(time) => answers_after = time,
                RequestFault::After(action) => action.await,
                RequestFault::Mutate(changed) => {
                    body = serde_json::to_vec(&changed)?.into();
                    info.body = changed;
                }
                RequestFault::Response(code) => return Ok(whole(refusal(code))),
                RequestFault::Shed(seconds) => {
                    let answer = Response::builder().status(429).header("Retry-After", seconds);
                    let text = b"Too many requests, please try again later.".to_vec();
                    return Ok(whole(answer.body(Body::from(text))?));
                }
                RequestFault::Answer(code, content, text) => {
                    let answer = Response::builder().status(code).header("Content-Type", content);
                    let answer = answer.header("Location", "http://portal.example/");
                    return Ok(whole(answer.body(Body::from(text.as_bytes().to_vec()))?));
                }
                RequestFault::Trickle(text) => {
                    let bytes = iter(text.as_bytes()).then(async |byte| {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        Ok(Frame::data(Bytes::copy_from_slice(&[*byte])))
                    });
                    return Ok(Response::new(UnsyncBoxBody::new(StreamBody::new(bytes))));
                }
                RequestFault::Silence => {
                    let nothing = futures::stream::pending::<Result<Frame<Bytes>, BoxError>>();
                    return Ok(Response::new(UnsyncBoxBody::new(StreamBody::new(nothing))));
                }
            }
        }
        let answer = inner.send(Request::from_parts(head, Body::from(body))).await?;
        if !answers_after.is_zero() {
            tokio::time::sleep(answers_after).await;
        }
        Ok(whole(answer))
    }
}

/// The body of an answer.
type Answer = UnsyncBoxBody<Bytes, BoxError>;

fn whole(answer: Response<Body>) -> Response<Answer> {
    answer.map(|body| body.map_err(BoxError::from).boxed_unsync())
}

fn refusal(code: u16) -> Response<Body> {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("injected {code}"),
    });
    let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap();
    answer
}
