//! What stands between the controllers and the server: it counts their requests, and lets the faults of a case strike.
//!
//! It knows nothing of what a request means beyond its verb and its place, and never judges.

mod answer;
mod request;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use ordereddeployment_sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, service_fn};

use crate::case::{Act, Case, Fault, How, Millis, Moment, Span};
use crate::log::{LATE, UNHEARD};
use crate::people::Somebody;
use answer::{Answer, Broken, READ_TIMEOUT, boxed};
use request::Asked;

/// Where words of what struck go.
type Told = UnboundedSender<String>;

/// What stands between.
#[derive(Clone)]
pub(crate) struct Chaos {
    state: Arc<Mutex<State>>,
    told: Told,
    /// Who overtakes.
    somebody: Somebody,
    sandbox: Arc<Sandbox>,
    start: Instant,
    page: u32,
    seed: u64,
}

struct State {
    faults: Vec<Fault>,
    writes: u32,
    /// How many requests took their time.
    slow: u64,
    /// How to stop each instance, and whom to tell.
    alive: BTreeMap<u32, (AbortHandle, UnboundedSender<Duration>)>,
    /// Instances that die at their next request.
    doomed: BTreeMap<u32, Duration>,
    is_healed: bool,
}

impl Chaos {
    pub(crate) fn new(
        case: &Case,
        start: Instant,
        sandbox: &Arc<Sandbox>,
        somebody: Somebody,
        told: Told,
    ) -> Self {
        let state = State {
            faults: case.faults.clone(),
            writes: 0,
            slow: 0,
            alive: BTreeMap::new(),
            doomed: BTreeMap::new(),
            is_healed: false,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            told,
            somebody,
            sandbox: Arc::clone(sandbox),
            start,
            page: case.cluster.page,
            seed: case.seed,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing goes wrong.
    pub(crate) fn heal(&self) {
        let mut state = self.state();
        state.is_healed = true;
        state.doomed.clear();
    }

    /// How many writes there were so far.
    pub(crate) fn writes(&self) -> u32 {
        self.state().writes
    }

    /// An instance runs: this stops it, and this is told, when it was stopped, how soon a fresh one comes.
    pub(crate) fn lives(&self, instance: u32, stop: AbortHandle, killed: UnboundedSender<Duration>) {
        self.state().alive.insert(instance, (stop, killed));
    }

    /// Kills an instance. Nothing of it runs after the next time it waits.
    fn kill(&self, instance: u32, back: Duration) {
        let mut state = self.state();
        state.doomed.remove(&instance);
        if let Some((stop, killed)) = state.alive.remove(&instance) {
            stop.abort();
            // Nobody listens at the end of a run.
            let _ = killed.send(back);
        }
    }

    fn tell(&self, what: String) {
        let _ = self.told.send(what);
    }

    /// A client for that instance.
    pub(crate) fn client(&self, inner: &Client, instance: u32) -> Client {
        let (chaos, inner) = (self.clone(), inner.clone());
        let namespace = inner.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (chaos, inner) = (chaos.clone(), inner.clone());
            async move { chaos.pass(&inner, instance, request).await }
        });
        Client::new(service, namespace)
    }

    async fn pass(&self, inner: &Client, instance: u32, request: Request<Body>) -> Result<Answer, BoxError> {
        let (mut parts, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        request::limit_page(&mut parts, self.page);
        let asked = Asked::of(&parts, &bytes);
        if let Some(span) = self.cut(instance, self.now()) {
            sleep_until(self.at(span.end())).await;
            return Err(Broken.into());
        }
        self.rewind(&asked, &mut parts);
        if let Some(back) = self.doom(instance) {
            return self.die(instance, back).await;
        }
        for act in self.acts(&asked) {
            self.tell(format!("Somebody {{ act: {act:?} }} before {asked}"));
            // Refusals are part of what happens.
            let _ = self.somebody.act(&act).await;
        }
        let crash = self.crash(&asked);
        let how = if crash.is_none() { self.strikes(&asked) } else { None };
        // Whoever reads the server's log must know what the controller was not told, and what it sent long before.
        let word = match &how {
            Some(How::Late(_)) => LATE,
            Some(how) if how.is_unheard() => UNHEARD,
            _ => "",
        };
        let signature =
            parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let signature = HeaderValue::from_str(&format!("instance-{instance}{word} {signature}"))?;
        parts.headers.insert(USER_AGENT, signature);
        let send = || {
            let mut request = Request::new(Body::from(bytes.to_vec()));
            *request.method_mut() = parts.method.clone();
            *request.uri_mut() = parts.uri.clone();
            *request.headers_mut() = parts.headers.clone();
            let inner = inner.clone();
            async move { inner.send(request).await.map(|answer| answer.map(boxed)) }
        };
        match crash {
            Some((Moment::Before, back)) => return self.die(instance, back).await,
            Some((Moment::Unanswered, back)) => {
                let _ = send().await;
                return self.die(instance, back).await;
            }
            Some((Moment::Answered, back)) => {
                let answer = send().await;
                self.state().doomed.insert(instance, back);
                return Ok(answer?);
            }
            None => {}
        }
        let Some(how) = how else {
            let (before, after) = self.delays(&asked);
            tokio::time::sleep(before).await;
            let answer = send().await?;
            tokio::time::sleep(after).await;
            return Ok(if asked.verb == "watch" { self.watch(instance, &asked, answer) } else { answer });
        };
        self.tell(format!("{how:?} of {asked}"));
        if how.is_unheard() {
            let _ = send().await;
        }
        match how {
            How::Answer { code, reason, message, .. } => answer::status(code, &reason, &message),
            How::Reset { .. } => Err(Broken.into()),
            How::Hang { .. } => {
                // The client gives up reading, as it does of a watch on which nothing comes.
                tokio::time::sleep(READ_TIMEOUT).await;
                Err(Broken.into())
            }
            How::Late(millis) => {
                // On its way, whatever becomes of who sent it.
                let sending = send();
                let arrival = tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    sending.await
                });
                Ok(arrival.await??)
            }
            How::Mutated(change) => {
                let mut request = Request::new(Body::from(request::mutated(&bytes, &change)));
                *request.method_mut() = parts.method.clone();
                *request.uri_mut() = parts.uri.clone();
                *request.headers_mut() = parts.headers.clone();
                Ok(inner.send(request).await.map(|answer| answer.map(boxed))?)
            }
            How::Overtaken => {
                self.overtake(&asked, "example.com/seen", Some(&asked.to_string())).await;
                Ok(send().await?)
            }
            How::Gone => {
                self.delete(&asked).await;
                Ok(send().await?)
            }
            How::Annotated(key, value) => {
                self.overtake(&asked, &key, value.as_deref()).await;
                Ok(send().await?)
            }
        }
    }

    /// How much of the run is over.
    fn now(&self) -> Millis {
        Millis::try_from(self.start.elapsed().as_millis()).unwrap_or(Millis::MAX)
    }

    fn at(&self, time: Millis) -> Instant {
        self.start + Duration::from_millis(time)
    }

    /// The span in which that instance reaches nobody, if this is in one.
    fn cut(&self, instance: u32, time: Millis) -> Option<Span> {
        let state = self.state();
        let cuts = state.faults.iter().filter_map(|fault| match fault {
            Fault::Cut { instance: one, span } if *one == instance => Some(*span),
            _ => None,
        });
        cuts.filter(|span| span.contains(time) && !state.is_healed).max_by_key(|span| span.end())
    }

    /// Whether that instance was to die at its next request.
    fn doom(&self, instance: u32) -> Option<Duration> {
        self.state().doomed.get(&instance).copied()
    }

    async fn die(&self, instance: u32, back: Duration) -> Result<Answer, BoxError> {
        self.kill(instance, back);
        std::future::pending().await
    }

    /// Counts a write; whether its instance dies of it.
    fn crash(&self, asked: &Asked) -> Option<(Moment, Duration)> {
        if !asked.is_counted() {
            return None;
        }
        let mut state = self.state();
        state.writes += 1;
        let now = state.writes;
        if state.is_healed {
            return None;
        }
        let found = state.faults.iter().find_map(|fault| match fault {
            Fault::Crash { write, moment, back } if *write == now => Some((*moment, *back)),
            _ => None,
        });
        drop(state);
        let (moment, back) = found?;
        self.tell(format!("crash {moment:?} of write {now}, {asked}"));
        Some((moment, Duration::from_millis(back)))
    }

    /// What is to become of a request, if a fault strikes it.
    fn strikes(&self, asked: &Asked) -> Option<How> {
        let mut state = self.state();
        if state.is_healed {
            return None;
        }
        for fault in &mut state.faults {
            let Fault::Request { class, skip, times, how } = fault else { continue };
            if *times == 0 || !asked.is_of(class) {
                continue;
            }
            if *skip > 0 {
                *skip -= 1;
                continue;
            }
            *times -= 1;
            return Some(how.clone());
        }
        None
    }

    /// How long that request takes, before it is carried out and after.
    fn delays(&self, asked: &Asked) -> (Duration, Duration) {
        let mut state = self.state();
        let found = state.faults.iter().find_map(|fault| match fault {
            Fault::Slow { class, before, after } if asked.is_of(class) => Some((*before, *after)),
            _ => None,
        });
        let Some((before, after)) = found.filter(|_| !state.is_healed) else { return Default::default() };
        state.slow += 1;
        // Odd multiples of these constants spread over all values.
        let part = |most: Millis, odd: u64| {
            let drawn = state.slow.wrapping_mul(odd).wrapping_add(self.seed) >> 16;
            Duration::from_millis(drawn.checked_rem(most + 1).unwrap_or(0))
        };
        (part(before, 0x9e37_79b9_7f4a_7c15), part(after, 0xbf58_476d_1ce4_e5b9))
    }

    /// What somebody does just before that request.
    fn acts(&self, asked: &Asked) -> Vec<Act> {
        let mut state = self.state();
        let is_healed = state.is_healed;
        let mut acts = Vec::new();
        state.faults.retain_mut(|fault| {
            let Fault::Before { class, skip, act } = fault else { return true };
            if is_healed || !asked.is_of(class) {
                return true;
            }
            let strikes = *skip == 0;
            if strikes {
                acts.push(act.clone());
            }
            *skip = skip.saturating_sub(1);
            !strikes
        });
        acts
    }

    /// Somebody deletes the object of that request, and does not wait for its end.
    async fn delete(&self, asked: &Asked) {
        let at_once = json!({"gracePeriodSeconds": 0});
        self.somebody_asks(asked, Method::DELETE, "application/json", &at_once).await;
    }

    /// Somebody annotates the object of that request.
    async fn overtake(&self, asked: &Asked, key: &str, value: Option<&str>) {
        let change = json!({"metadata": {"annotations": {key: value}}});
        self.somebody_asks(asked, Method::PATCH, "application/merge-patch+json", &change).await;
    }

    async fn somebody_asks(&self, asked: &Asked, method: Method, content_type: &str, body: &Value) {
        let Some(path) = asked.object() else { return };
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, content_type);
        if let Ok(request) = request.body(body.to_string().into_bytes()) {
            // It may be gone: then nobody overtakes.
            let _ = self.somebody.client.request::<Value>(request).await;
        }
    }
}
