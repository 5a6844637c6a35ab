//! The rules of the proxy: what it does with which requests.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use http::{Method, Request};
use tokio::sync::{oneshot, watch};

use crate::lock;

/// A verb and a resource, such as `("delete", "pods")`.
pub type Kind = (&'static str, &'static str);

/// A request as the rules see it.
#[derive(Clone, Debug)]
pub(super) struct RequestInfo {
    pub(super) verb: &'static str,
    pub(super) plural: String,
}

impl RequestInfo {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let mut parts = request.uri().path().trim_matches('/').split('/');
        // The version follows, after the group if there is one.
        let skip = if parts.next() == Some("api") { 1 } else { 2 };
        let mut rest: Vec<&str> = parts.skip(skip).collect();
        if rest.first() == Some(&"namespaces") && rest.len() > 2 {
            rest.drain(..2);
        }
        let query = request.uri().query().unwrap_or_default();
        let watches = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
        let is_named = rest.len() > 1;
        let verb = match *request.method() {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if is_named => "delete",
            Method::DELETE => "deletecollection",
            _ if watches => "watch",
            _ if is_named => "get",
            _ => "list",
        };
        Self { verb, plural: rest.first().copied().unwrap_or_default().to_owned() }
    }

    pub(super) fn is(&self, (verb, plural): Kind) -> bool {
        self.verb == verb && self.plural == plural
    }

    /// Whether it is a write that traps and counts include: not of a Lease, which is renewed periodically,
    /// and not of an Event.
    pub(super) fn counts(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete")
            && !matches!(self.plural.as_str(), "leases" | "events")
    }
}

/// How a request fails, in the words of the fault campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestFault {
    /// The response has this code, and the server does not receive the request.
    Response(u16),
    /// The server carries out the request, and the connection is reset.
    Reset,
}

#[derive(Debug)]
struct Fault {
    kind: Kind,
    effect: RequestFault,
    times: usize,
}

/// When a write is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The server has not received the write.
    BeforeRequest,
    /// The write is in transit and is not stopped: the server may process it before or after the action of
    /// the scenario.
    During,
    /// The server has responded, and the client has not received the response.
    BeforeResponse,
}

/// A write that is stopped or will be. Dropping the trap closes its connection; a write that the server has
/// not received is lost.
#[derive(Debug)]
pub struct Trap {
    /// When the write is stopped.
    pub moment: Moment,
    reached: oneshot::Receiver<()>,
    go: oneshot::Sender<()>,
}

impl Trap {
    /// Waits until the write has reached the trap.
    pub async fn reached(&mut self) {
        // There is only one trap at a time, so the sender exists.
        let _ = (&mut self.reached).await;
    }

    /// Lets the write continue.
    pub fn release(self) {
        // The client may have disconnected.
        let _ = self.go.send(());
    }
}

/// The proxy's side of a trap.
#[derive(Debug)]
struct PendingTrap {
    kind: Option<Kind>,
    left: usize,
    moment: Moment,
    reached: oneshot::Sender<()>,
    go: oneshot::Receiver<()>,
}

/// The rules of one proxy. They can change at any time.
#[derive(Debug, Default)]
pub struct Rules {
    delays: Mutex<BTreeMap<String, Duration>>,
    faults: Mutex<Vec<Fault>>,
    pub(super) cut: watch::Sender<()>,
    pub(super) stalled: watch::Sender<bool>,
    /// The number of connections that clients closed while the proxy was stalled.
    pub(super) given_up: watch::Sender<usize>,
    pending: Mutex<Option<PendingTrap>>,
    written: Mutex<Vec<Instant>>,
}

impl Rules {
    /// From now on, watches of this resource show every event with this delay, including open watches. Lists
    /// have no delay.
    pub fn delay_watch(&self, plural: &str, delay: Duration) {
        lock(&self.delays).insert(plural.to_owned(), delay);
    }

    /// Rejects the next `times` requests of this kind with this code. The server does not receive them.
    pub fn refuse(&self, kind: Kind, code: u16, times: usize) {
        lock(&self.faults).push(Fault { kind, effect: RequestFault::Response(code), times });
    }

    /// Forwards the next request of this kind and closes its connection instead of responding.
    pub fn lose_answer(&self, kind: Kind) {
        lock(&self.faults).push(Fault { kind, effect: RequestFault::Reset, times: 1 });
    }

    /// Closes all connections.
    pub fn cut(&self) {
        self.cut.send_replace(());
    }

    /// Stops all bytes of all connections in both directions, including new ones, without closing them.
    pub fn stall(&self) {
        self.given_up.send_replace(0);
        self.stalled.send_replace(true);
    }

    /// Waits until a client has closed a connection that [`Self::stall`] stopped.
    pub async fn until_given_up(&self) {
        // The sender lives as long as the rules.
        let _ = self.given_up.subscribe().wait_for(|count| *count > 0).await;
    }

    /// Delivers the bytes that [`Self::stall`] stopped, and all later ones.
    pub fn flow(&self) {
        self.stalled.send_replace(false);
    }

    /// Stops the `nth` write from now on of this kind, or of any one, other than of Leases and Events. There
    /// is one trap at a time: a new one replaces the previous one.
    pub fn trap(&self, kind: Option<Kind>, nth: usize, moment: Moment) -> Trap {
        let (tell, reached) = oneshot::channel();
        let (release, go) = oneshot::channel();
        *lock(&self.pending) = Some(PendingTrap { kind, left: nth.max(1), moment, reached: tell, go });
        Trap { moment, reached, go: release }
    }

    /// When each write arrived so far, other than of Leases and Events.
    #[must_use]
    pub fn written(&self) -> Vec<Instant> {
        lock(&self.written).clone()
    }

    /// The number of requested faults that have not occurred yet.
    pub fn faults_left(&self) -> usize {
        lock(&self.faults).iter().map(|fault| fault.times).sum()
    }

    pub(super) fn arrives(&self, info: &RequestInfo) {
        if info.counts() {
            lock(&self.written).push(Instant::now());
        }
    }

    /// Counts a write. If it is the one of the trap: when it is stopped, and what lets it continue.
    pub(super) fn stopped_write(&self, info: &RequestInfo) -> Option<(Moment, oneshot::Receiver<()>)> {
        let mut pending = lock(&self.pending);
        let is_it = |trap: &&mut PendingTrap| info.counts() && trap.kind.is_none_or(|kind| info.is(kind));
        let trap = pending.as_mut().filter(is_it)?;
        trap.left -= 1;
        if trap.left > 0 {
            return None;
        }
        let PendingTrap { moment, reached, go, .. } = pending.take()?;
        // If the scenario has dropped the trap, the write is not stopped.
        reached.send(()).is_ok().then_some((moment, go))
    }

    pub(super) fn delay(&self, info: &RequestInfo) -> Duration {
        lock(&self.delays).get(&info.plural).copied().unwrap_or_default()
    }

    pub(super) fn request_fault(&self, info: &RequestInfo) -> Option<RequestFault> {
        let mut faults = lock(&self.faults);
        let fault = faults.iter_mut().find(|fault| fault.times > 0 && info.is(fault.kind))?;
        fault.times -= 1;
        Some(fault.effect)
    }
}
