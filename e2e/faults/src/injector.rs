//! The client of the controllers, which counts their requests and injects the faults of a case.
//!
//! It knows the verb and the path of a request, not its meaning, and checks nothing.

mod request;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, service_fn};

use crate::case::{Case, Fault, Millis, Moment, RequestFault, Span, UserAction};
use crate::log::{DELAYED, LogWriter, NO_RESPONSE, RunEventKind};
use crate::user::User;
use request::RequestInfo;

/// The response of a request.
type ApiResponse = Response<UnsyncBoxBody<Bytes, BoxError>>;
/// The read timeout of the controller's client.
const READ_TIMEOUT: Duration = Duration::from_secs(300);
/// The error of a connection that is reset.
const RESET: &str = "connection reset by peer";

/// Injects the faults of a case into the requests of all instances.
#[derive(Clone)]
pub(crate) struct FaultInjector {
    state: Arc<Mutex<State>>,
    writer: LogWriter,
    /// The user of the actions before requests.
    user: User,
    start: Instant,
    page_limit: u32,
    seed: u64,
}

struct State {
    faults: Vec<Fault>,
    writes: u32,
    /// How many requests were slow.
    slow: u64,
    /// How to stop each instance, and where to send the time until its restart.
    running: BTreeMap<u32, (AbortHandle, UnboundedSender<Duration>)>,
    /// Instances that crash at their next request.
    crashing: BTreeMap<u32, Duration>,
    has_ended: bool,
}

impl FaultInjector {
    pub(crate) fn new(case: &Case, start: Instant, user: User, writer: LogWriter) -> Self {
        let state = State {
            faults: case.faults.clone(),
            writes: 0,
            slow: 0,
            running: BTreeMap::new(),
            crashing: BTreeMap::new(),
            has_ended: false,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            writer,
            user,
            start,
            page_limit: case.cluster.page_limit,
            seed: case.seed,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all faults.
    pub(crate) fn end_faults(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.crashing.clear();
    }

    /// How many writes there were so far.
    pub(crate) fn writes(&self) -> u32 {
        self.state().writes
    }

    /// Registers a running instance: `stop` stops it, and `killed` receives the time until its restart.
    pub(crate) fn register(&self, instance: u32, stop: AbortHandle, killed: UnboundedSender<Duration>) {
        self.state().running.insert(instance, (stop, killed));
    }

    /// Kills an instance. It runs no further than its next await point.
    fn kill(&self, instance: u32, restart_after: Duration) {
        let mut state = self.state();
        state.crashing.remove(&instance);
        if let Some((stop, killed)) = state.running.remove(&instance) {
            stop.abort();
            // At the end of a run there is no receiver.
            let _ = killed.send(restart_after);
        }
    }

    fn report(&self, fault: String) {
        self.writer.event(RunEventKind::FaultInjected(fault));
    }

    /// The client of that instance.
    pub(crate) fn client(&self, inner: &Client, instance: u32) -> Client {
        let (injector, inner) = (self.clone(), inner.clone());
        let namespace = inner.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (injector, inner) = (injector.clone(), inner.clone());
            async move { injector.pass(&inner, instance, request).await }
        });
        Client::new(service, namespace)
    }

    async fn pass(
        &self,
        inner: &Client,
        instance: u32,
        request: Request<Body>,
    ) -> Result<ApiResponse, BoxError> {
        let (mut parts, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        request::limit_page(&mut parts, self.page_limit);
        let info = RequestInfo::of(&parts, &bytes);
        if let Some(span) = self.partition(instance, self.now()) {
            sleep_until(self.at(span.end())).await;
            return Err(RESET.into());
        }
        self.rewind(&info, &mut parts);
        if let Some(restart_after) = self.is_crashing(instance) {
            return self.crash(instance, restart_after).await;
        }
        for action in self.take_actions(&info) {
            self.report(format!("Action {{ action: {action:?} }} before {info}"));
            // The server may refuse the action.
            let _ = self.user.perform(&action).await;
        }
        let crash = self.take_crash(&info);
        let effect = if crash.is_none() { self.take_request_fault(&info) } else { None };
        // For the oracles, the server's log says which requests were delayed and which responses were lost.
        let word = match &effect {
            Some(RequestFault::Delay(_)) => DELAYED,
            Some(effect) if effect.loses_response() => NO_RESPONSE,
            _ => "",
        };
        let signature =
            parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let signature = HeaderValue::from_str(&format!("instance-{instance}{word} {signature}"))?;
        parts.headers.insert(USER_AGENT, signature);
        let send_body = |body: Vec<u8>| {
            let (inner, request) = (inner.clone(), Request::from_parts(parts.clone(), Body::from(body)));
            async move { inner.send(request).await.map(|response| response.map(boxed)) }
        };
        let send = || send_body(bytes.to_vec());
        match crash {
            Some((Moment::BeforeRequest, restart_after)) => return self.crash(instance, restart_after).await,
            Some((Moment::BeforeResponse, restart_after)) => {
                let _ = send().await;
                return self.crash(instance, restart_after).await;
            }
            Some((Moment::AfterResponse, restart_after)) => {
                let response = send().await;
                self.state().crashing.insert(instance, restart_after);
                return Ok(response?);
            }
            None => {}
        }
        let Some(effect) = effect else {
            let (before, after) = self.delays(&info);
            tokio::time::sleep(before).await;
            let response = send().await?;
            tokio::time::sleep(after).await;
            return Ok(if info.verb == "watch" { self.watch(instance, &info, response) } else { response });
        };
        self.report(format!("{effect:?} of {info}"));
        if effect.loses_response() {
            let _ = send().await;
        }
        match effect {
            RequestFault::Response { code, reason, message, .. } => return error(code, &reason, &message),
            RequestFault::Reset { .. } => return Err(RESET.into()),
            RequestFault::NoResponse { .. } => {
                // The client times out.
                tokio::time::sleep(READ_TIMEOUT).await;
                return Err(RESET.into());
            }
            RequestFault::Delay(millis) => {
                // The request arrives even if its sender crashes.
                let sending = send();
                let arrival = tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    sending.await
                });
                return Ok(arrival.await??);
            }
            RequestFault::Mutate(change) => return Ok(send_body(request::mutated(&bytes, &change)).await?),
            RequestFault::UpdateBefore => {
                self.annotate(&info, "example.com/seen", Some(&info.to_string())).await;
            }
            RequestFault::DeleteBefore => self.delete(&info).await,
            RequestFault::AnnotateBefore(key, value) => self.annotate(&info, &key, value.as_deref()).await,
        }
        Ok(send().await?)
    }

    /// The time since the start of the run.
    fn now(&self) -> Millis {
        Millis::try_from(self.start.elapsed().as_millis()).unwrap_or(Millis::MAX)
    }

    fn at(&self, time: Millis) -> Instant {
        self.start + Duration::from_millis(time)
    }

    /// The partition of that instance at that time.
    fn partition(&self, instance: u32, time: Millis) -> Option<Span> {
        let state = self.state();
        let spans = state.faults.iter().filter_map(|fault| match fault {
            Fault::Partition { instance: one, span } if *one == instance => Some(*span),
            _ => None,
        });
        spans.filter(|span| span.contains(time) && !state.has_ended).max_by_key(|span| span.end())
    }

    /// Whether that instance crashes at this request, and the time until its restart.
    fn is_crashing(&self, instance: u32) -> Option<Duration> {
        self.state().crashing.get(&instance).copied()
    }

    async fn crash(&self, instance: u32, restart_after: Duration) -> Result<ApiResponse, BoxError> {
        self.kill(instance, restart_after);
        std::future::pending().await
    }

    /// Counts a write. Returns whether its instance crashes at this write.
    fn take_crash(&self, info: &RequestInfo) -> Option<(Moment, Duration)> {
        if !info.is_counted() {
            return None;
        }
        let mut state = self.state();
        state.writes += 1;
        let now = state.writes;
        if state.has_ended {
            return None;
        }
        let found = state.faults.iter().find_map(|fault| match fault {
            Fault::Crash { write, moment, restart_after } if *write == now => Some((*moment, *restart_after)),
            _ => None,
        });
        drop(state);
        let (moment, restart_after) = found?;
        self.report(format!("Crash {moment:?} of write {now}, {info}"));
        Some((moment, Duration::from_millis(restart_after)))
    }

    /// The fault of that request.
    fn take_request_fault(&self, info: &RequestInfo) -> Option<RequestFault> {
        let mut state = self.state();
        if state.has_ended {
            return None;
        }
        for fault in &mut state.faults {
            let Fault::Request { matcher, skip, times, effect } = fault else { continue };
            if *times == 0 || !info.matches(matcher) {
                continue;
            }
            if *skip > 0 {
                *skip -= 1;
                continue;
            }
            *times -= 1;
            return Some(effect.clone());
        }
        None
    }

    /// The latency of that request, before the server carries it out and after.
    fn delays(&self, info: &RequestInfo) -> (Duration, Duration) {
        let mut state = self.state();
        let found = state.faults.iter().find_map(|fault| match fault {
            Fault::Latency { matcher, before, after } if info.matches(matcher) => Some((*before, *after)),
            _ => None,
        });
        let Some((before, after)) = found.filter(|_| !state.has_ended) else { return Default::default() };
        state.slow += 1;
        // Multiples of these odd constants are spread over all values.
        let part = |max: Millis, odd: u64| {
            let drawn = state.slow.wrapping_mul(odd).wrapping_add(self.seed) >> 16;
            Duration::from_millis(drawn.checked_rem(max + 1).unwrap_or(0))
        };
        (part(before, 0x9e37_79b9_7f4a_7c15), part(after, 0xbf58_476d_1ce4_e5b9))
    }

    /// The actions just before that request.
    fn take_actions(&self, info: &RequestInfo) -> Vec<UserAction> {
        let mut state = self.state();
        let has_ended = state.has_ended;
        let mut actions = Vec::new();
        state.faults.retain_mut(|fault| {
            let Fault::ActionBefore { matcher, skip, action } = fault else { return true };
            if has_ended || !info.matches(matcher) {
                return true;
            }
            let happens_now = *skip == 0;
            if happens_now {
                actions.push(action.clone());
            }
            *skip = skip.saturating_sub(1);
            !happens_now
        });
        actions
    }

    /// Deletes the object of that request without a grace period. It may be deleted already.
    async fn delete(&self, info: &RequestInfo) {
        let Some(path) = info.object() else { return };
        let _ = self.user.delete(&path, &json!({"gracePeriodSeconds": 0})).await;
    }

    /// Annotates the object of that request. It may be deleted already.
    async fn annotate(&self, info: &RequestInfo, key: &str, value: Option<&str>) {
        let Some(path) = info.object() else { return };
        let change = json!({"metadata": {"annotations": {key: value}}});
        let _ = self.user.patch(&path, "merge", &change).await;
    }
}

fn boxed(body: Body) -> UnsyncBoxBody<Bytes, BoxError> {
    body.map_err(BoxError::from).boxed_unsync()
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

/// An error response, which the server did not send.
fn error(code: u16, reason: &str, message: &str) -> Result<ApiResponse, BoxError> {
    let body = status(code, reason, message).to_string().into_bytes();
    let response = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
    Ok(response.body(boxed(Body::from(body)))?)
}
