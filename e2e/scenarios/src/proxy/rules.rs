//! The rules of the proxy: what it does with which requests.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::matching::{RequestInfo, RequestMatcher};
use super::timeline::{Passage, Passed, Timeline};
use super::trap::{self, Moment, PendingTrap, StoppedWrite, Trap};
use crate::lock;

/// How a request fails, in the words of the fault campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestFault {
    None,
    /// The response has this code, and the server does not receive the request.
    Response(u16),
    /// The server carries out the request, and the connection is reset.
    Reset,
}

#[derive(Debug)]
struct Fault {
    matching: RequestMatcher,
    effect: RequestFault,
    times: usize,
}

/// A write that the proxy forwarded, other than of a Lease or an Event.
#[derive(Clone, Debug)]
pub struct Written {
    /// The time of the write.
    pub at: Instant,
    /// The verb.
    pub verb: &'static str,
    /// The resource.
    pub plural: String,
}

/// The rules of one proxy. They can change at any time.
#[derive(Debug, Default)]
pub struct Rules {
    delays: Mutex<BTreeMap<String, Duration>>,
    faults: Mutex<Vec<Fault>>,
    evictions: Mutex<BTreeMap<String, Bytes>>,
    frozen: watch::Sender<Option<RequestMatcher>>,
    cut: watch::Sender<()>,
    stalled: watch::Sender<bool>,
    /// The number of connections that clients closed while the proxy was stalled.
    given_up: watch::Sender<usize>,
    pending: Mutex<Option<PendingTrap>>,
    written: Mutex<Vec<Written>>,
    timeline: Timeline,
}

impl Rules {
    /// From now on, watches of this resource show every event with this delay, including open watches. Lists
    /// have no delay.
    pub fn delay_watch(&self, plural: &str, delay: Duration) {
        lock(&self.delays).insert(plural.to_owned(), delay);
    }

    /// Holds matching requests and watch events until [`Self::thaw`].
    pub fn freeze(&self, matching: RequestMatcher) {
        self.frozen.send_replace(Some(matching));
    }

    /// Releases what [`Self::freeze`] holds.
    pub fn thaw(&self) {
        self.frozen.send_replace(None);
    }

    /// Rejects the next `times` matching requests with this code. The server does not receive them.
    pub fn refuse(&self, matching: RequestMatcher, code: u16, times: usize) {
        lock(&self.faults).push(Fault { matching, effect: RequestFault::Response(code), times });
    }

    /// Forwards the next `times` matching requests and closes their connections instead of responding.
    pub fn lose_answers(&self, matching: RequestMatcher, times: usize) {
        lock(&self.faults).push(Fault { matching, effect: RequestFault::Reset, times });
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

    /// Stops the `nth` matching write from now on, other than of Leases and Events. There is one trap at a
    /// time: a new one replaces the previous one.
    pub fn trap(&self, matching: RequestMatcher, nth: usize, moment: Moment) -> Trap {
        let (trap, pending) = trap::set(matching, nth, moment);
        *lock(&self.pending) = Some(pending);
        trap
    }

    /// The writes that were forwarded so far, other than of Leases and Events.
    #[must_use]
    pub fn written(&self) -> Vec<Written> {
        lock(&self.written).clone()
    }

    /// From now on, records what passes and when. What was recorded before is dropped.
    pub fn start_timeline(&self) {
        self.timeline.start();
    }

    /// Ends the record of [`Self::start_timeline`] and returns it, in order.
    #[must_use]
    pub fn stop_timeline(&self) -> Vec<Passage> {
        self.timeline.stop()
    }

    /// The number of requested faults that have not occurred yet.
    pub fn faults_left(&self) -> usize {
        lock(&self.faults).iter().map(|fault| fault.times).sum()
    }

    /// The body of the last eviction of this pod that was forwarded. Kubernetes 1.20 does not include the
    /// bodies of evictions in its audit log.
    pub(crate) fn eviction(&self, pod: &str) -> Option<Value> {
        serde_json::from_slice(lock(&self.evictions).get(pod)?).ok()
    }

    pub(super) fn passes(&self, path: &str, body: &Bytes) {
        if let Some(pod) = path.strip_suffix("/eviction").and_then(|path| path.rsplit('/').next()) {
            lock(&self.evictions).insert(pod.to_owned(), body.clone());
        }
    }

    pub(super) fn stopped_write(&self, info: &RequestInfo) -> Option<StoppedWrite> {
        if !info.counts() {
            return None;
        }
        let (reached, stopped_write) = trap::spring(&mut lock(&self.pending), info)?;
        // If the scenario has dropped the trap, the write is not stopped.
        reached.send(()).is_ok().then_some(stopped_write)
    }

    pub(super) fn forwards(&self, info: &RequestInfo) {
        if info.counts() {
            let written = Written { at: Instant::now(), verb: info.verb, plural: info.plural.clone() };
            lock(&self.written).push(written);
        }
    }

    pub(super) fn arrives(&self, info: &RequestInfo) {
        self.timeline.passes(info, || Passed::Request(info.verb));
    }

    pub(super) fn shows(&self, info: &RequestInfo, line: &Bytes) {
        self.timeline.passes(info, || Passed::Event(line.clone()));
    }

    pub(super) fn gives_up(&self) {
        self.given_up.send_modify(|count| *count += 1);
    }

    pub(super) fn stalled(&self) -> watch::Receiver<bool> {
        self.stalled.subscribe()
    }

    pub(super) fn cuts(&self) -> watch::Receiver<()> {
        self.cut.subscribe()
    }

    pub(super) fn delay(&self, info: &RequestInfo) -> Duration {
        lock(&self.delays).get(&info.plural).copied().unwrap_or_default()
    }

    /// Waits while the request is frozen, then returns what to do with it.
    pub(super) async fn request_fault(&self, info: &RequestInfo) -> RequestFault {
        self.wait_for_thaw(info).await;
        let mut faults = lock(&self.faults);
        let Some(fault) = faults.iter_mut().find(|fault| fault.times > 0 && fault.matching.is(info)) else {
            return RequestFault::None;
        };
        fault.times -= 1;
        fault.effect
    }

    pub(super) async fn wait_for_thaw(&self, info: &RequestInfo) {
        let mut frozen = self.frozen.subscribe();
        // The sender lives as long as the rules.
        let _ = frozen.wait_for(|rule| !rule.as_ref().is_some_and(|rule| rule.is(info))).await;
    }
}
