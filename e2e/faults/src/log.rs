//! What happened in a run: the input of the oracles.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use ordereddeployment_planner::{Decision, Snapshot};
use ordereddeployment_sandbox::{Commit, Record, Sandbox};

/// The maximum number of decisions of a run, so that an endless loop does not use all memory.
const MAX_DECISIONS: usize = 30_000;
/// The maximum number of pods of all decisions.
const MAX_PODS: usize = 3_000_000;

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Every request that the server received, in the order of its responses. The user agents of controllers
    /// begin as [`instance`] reads them.
    pub requests: Vec<Record>,
    /// Every change that the server committed in the namespace of the scenario and of the cluster, in order;
    /// [`Commit::request`] is a place in `requests`.
    pub commits: Vec<Commit>,
    /// The same in the namespace of another tenant, which has no OrderedDeployment.
    pub hostile: Vec<Commit>,
    /// Every decision of every instance, in order.
    pub decisions: Vec<DecisionRecord>,
    /// Everything else, in order.
    pub events: Vec<RunEvent>,
    /// How many warnings and errors the controllers logged.
    pub lines: usize,
    /// How many writes the controllers sent, as [`Fault::Crash`](crate::case::Fault::Crash) counts them.
    pub writes: u32,
}

/// A decision of a controller.
#[derive(Clone, Debug)]
pub struct DecisionRecord {
    /// When, by the server's clock.
    pub at: Timestamp,
    /// How many requests the server had answered.
    pub requests: usize,
    /// The number of the instance, from 1. A restarted instance keeps its number.
    pub instance: u32,
    /// What the decision was made on.
    pub snapshot: Snapshot,
    /// The decision.
    pub decision: Decision,
}

/// Something that happened other than requests, commits and decisions.
#[derive(Clone, Debug)]
pub struct RunEvent {
    /// When, by the server's clock.
    pub at: Timestamp,
    /// How many requests the server had answered.
    pub requests: usize,
    /// What happened.
    pub kind: RunEventKind,
}

/// What a [`RunEvent`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEventKind {
    /// An instance started.
    InstanceStarted(u32),
    /// An instance was killed.
    InstanceKilled(u32),
    /// An instance exited, with this error.
    InstanceExited(u32, String),
    /// An instance panicked, with this message.
    InstancePanicked(u32, String),
    /// A step was done, after what it waits for or after the time limit.
    Step {
        /// Its place, from 0.
        place: usize,
        /// Whether what it waits for happened within the time limit.
        in_time: bool,
        /// The error, if the server refused its action.
        refused: Option<String>,
    },
    /// A fault was injected.
    FaultInjected(String),
    /// Faults and user actions end here.
    FaultsEnded,
    /// Everything has settled by now.
    Settled,
    /// The run ends.
    Finished,
}

/// Follows the instance in the user agent of a request that a fault delayed.
pub const DELAYED: &str = " delayed";
/// Follows the instance in the user agent of a request that was carried out and whose response a fault lost.
pub const NO_RESPONSE: &str = " no-response";

/// The number of the instance with that user agent; none for other clients.
pub fn instance(user_agent: &str) -> Option<u32> {
    user_agent.strip_prefix("instance-")?.split(' ').next()?.parse().ok()
}

impl Log {
    /// The first event of that kind.
    pub fn event(&self, kind: &RunEventKind) -> Option<&RunEvent> {
        self.events.iter().find(|event| event.kind == *kind)
    }

    /// The log as text. Two runs of one case give the same lines.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<(usize, String)> = Vec::new();
        for (place, record) in self.requests.iter().enumerate() {
            let body = record.body.as_ref().map(ToString::to_string).unwrap_or_default();
            let text = format!(
                "{} {} {} {} {} {body}",
                record.at, record.user_agent, record.verb, record.path, record.code
            );
            lines.push((2 * place, text));
        }
        for event in &self.events {
            lines.push(((2 * event.requests).saturating_sub(1), format!("{} {:?}", event.at, event.kind)));
        }
        lines.sort_by_key(|(place, _)| *place);
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

/// Writes the log of a run.
#[derive(Clone)]
pub(crate) struct LogWriter {
    pub(crate) log: Arc<Mutex<Log>>,
    /// The number of pods of all decisions so far.
    pub(crate) weight: Arc<AtomicUsize>,
    pub(crate) sandbox: Arc<Sandbox>,
}

impl LogWriter {
    pub(crate) fn event(&self, kind: RunEventKind) {
        let (at, requests) = (self.sandbox.now(), self.sandbox.answered());
        self.write(|log| log.events.push(RunEvent { at, requests, kind }));
    }

    pub(crate) fn write(&self, entry: impl FnOnce(&mut Log)) {
        entry(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Records a decision of that instance.
    pub(crate) fn decided(&self, instance: u32, snapshot: &Snapshot, decision: &Decision) {
        let before = self.weight.fetch_add(snapshot.pods.len(), Ordering::Relaxed);
        let (at, requests) = (self.sandbox.now(), self.sandbox.answered());
        let (snapshot, decision) = (snapshot.clone(), decision.clone());
        self.write(|log| {
            // The panic of the controller is in the log.
            let is_endless = before > MAX_PODS || log.decisions.len() >= MAX_DECISIONS;
            assert!(!is_endless, "the controller makes decisions in an endless loop");
            log.decisions.push(DecisionRecord { at, requests, instance, snapshot, decision });
        });
    }
}
