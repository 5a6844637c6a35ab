//! What the page shows of one OrderedDeployment. Pure functions: no server, no clock.
//!
//! Order, barrier, counts and texts are those of the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::{HistoryEntry, OrderedDeployment, PausePoint};
use serde::Serialize;

use super::buttons::{Button, confirm_undo};
use super::tone::{Tone, UNICODE};
use crate::observe::ObservedState;
use crate::overview::{Overview, PodRow, images};
use crate::pause_points::left;
use crate::phase::side;
use crate::revisions::Revision;
use crate::tree::{Health, commands, counted, detail, headline};

/// The page of one OrderedDeployment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Page {
    pub(super) head: Head,
    pub(super) buttons: Vec<Button>,
    pub(super) revisions: Vec<RevisionRow>,
    pub(super) history: Vec<Entry>,
    /// The nodes, by pool and name.
    pub(super) nodes: Vec<NodeRow>,
    /// The pods by name.
    pub(super) pods: BTreeMap<Arc<str>, Square>,
    /// The names of the pods that have a place, in the order of their deletion.
    pub(super) order: Vec<Arc<str>>,
}

/// The state in words and numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head {
    namespace: String,
    name: String,
    mark: &'static str,
    tone: Tone,
    state: String,
    /// The revision of the rollout.
    revision: i64,
    /// Whether pods of older revisions are being replaced.
    rolling: bool,
    desired: i32,
    updated: i32,
    ready: usize,
    available: i32,
    counts: String,
    strategy: String,
    /// What the phase waits for, and how long.
    detail: Option<String>,
    /// The next commands, each with what it does.
    commands: Vec<(&'static str, String)>,
    notes: Vec<String>,
    line: Option<Line>,
    /// The plan is another one when this changes.
    plan: String,
}

/// The line at which the rollout pauses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    text: String,
    place: String,
    /// Whether the rollout is paused there.
    reached: bool,
}

/// A node with pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeRow {
    pool: Option<String>,
    /// `None`: pods without a node.
    node: Option<String>,
}

/// Where a pod is in the rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Zone {
    /// Of the current revision, during a rollout.
    Updated,
    /// Deleted before the rollout pauses.
    Ahead,
    /// Waits until the pause point is passed.
    Waits,
    /// Terminating or finished.
    Leaving,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Square {
    name: Arc<str>,
    node: Option<String>,
    pool: Option<String>,
    zone: Zone,
    revision: i64,
    current: bool,
    status: String,
    health: &'static str,
    containers: String,
    restarts: i64,
    created: Option<Timestamp>,
    priority: i32,
    /// Why it has its place.
    why: Option<String>,
    /// The side of its pause point.
    point: Option<&'static str>,
}

/// A revision of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RevisionRow {
    number: i64,
    set: String,
    pods: i32,
    current: bool,
    images: Vec<String>,
    cause: Option<String>,
    created: Option<Timestamp>,
    /// What to confirm before an undo to it.
    confirm: String,
}

/// A hold, a resume, an abort or a retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    at: Timestamp,
    action: String,
    revision: i64,
    id: Option<String>,
    reason: String,
}

impl Page {
    /// The page of that state. `flags` are those of the printed commands.
    pub(super) fn of(
        state: &ObservedState,
        overview: &Overview,
        revisions: &[Revision],
        buttons: Vec<Button>,
        flags: &str,
    ) -> Self {
        let status = state.deployment.status.as_ref();
        let history = status.and_then(|status| status.history.as_ref());
        let ahead = overview.ahead().unwrap_or(usize::MAX);
        let rolling = overview.is_rolling();
        let mut nodes = BTreeSet::new();
        let mut pods = BTreeMap::new();
        for set in &overview.sets {
            for pod in &set.pods {
                nodes.insert(NodeRow { pool: pod.pool.clone(), node: pod.node.clone() });
                let square = Square::of(pod, (set.revision, set.current), ahead);
                pods.insert(Arc::clone(&square.name), square);
            }
        }
        let order = overview.in_order().into_iter().map(|pod| Arc::from(pod.name.as_str())).collect();
        let mut nodes: Vec<NodeRow> = nodes.into_iter().collect();
        // Pods without a node come last.
        nodes.sort_by(|first, second| (first.node.is_none(), first).cmp(&(second.node.is_none(), second)));
        let generation = state.deployment.metadata.generation.unwrap_or(0);
        Self {
            head: Head::of(overview, rolling, generation, flags),
            buttons,
            revisions: revisions
                .iter()
                .map(|revision| RevisionRow::of(&state.deployment, revision))
                .collect(),
            history: history.into_iter().flatten().rev().map(Entry::of).collect(),
            nodes,
            pods,
            order,
        }
    }
}

impl Head {
    fn of(overview: &Overview, rolling: bool, generation: i64, flags: &str) -> Self {
        let (mark, state, paint) = headline(overview, UNICODE);
        let hold = overview.hold.as_ref().map_or("", |hold| hold.id.as_str());
        Self {
            namespace: overview.namespace.clone(),
            name: overview.name.clone(),
            mark,
            tone: paint.into(),
            plan: format!("{generation} {} {state} {hold}", overview.revision),
            state,
            revision: overview.revision,
            rolling,
            desired: overview.desired,
            updated: overview.updated,
            ready: overview.ready(),
            available: overview.available,
            counts: counted(overview),
            strategy: overview.strategy.clone(),
            detail: detail(overview),
            commands: commands(overview, flags),
            notes: overview.notes.iter().cloned().chain(left(&overview.points_left)).collect(),
            line: Line::of(overview),
        }
    }

    /// The same at another time: only texts with a time change.
    pub(super) fn at(&mut self, overview: &Overview) {
        self.detail = detail(overview);
    }
}

impl Line {
    fn of(overview: &Overview) -> Option<Self> {
        let barrier = overview.barrier.as_ref()?;
        overview.ahead()?;
        let place = barrier.place();
        let text = match (barrier.reached, barrier.rolling) {
            (true, _) => format!("paused at pause point {place}"),
            (false, true) => format!("the rollout pauses at pause point {place}"),
            (false, false) => format!("the next rollout pauses at pause point {place}"),
        };
        Some(Self { text, place, reached: barrier.reached })
    }
}

impl Square {
    fn of(pod: &PodRow, (revision, current): (i64, bool), ahead: usize) -> Self {
        let zone = match pod.place {
            Some(place) if place <= ahead => Zone::Ahead,
            Some(_) => Zone::Waits,
            None if current && pod.is_active() => Zone::Updated,
            None => Zone::Leaving,
        };
        Self {
            name: pod.name.as_str().into(),
            node: pod.node.clone(),
            pool: pod.pool.clone(),
            zone,
            revision,
            current,
            status: pod.status.clone(),
            health: match Health::of(pod) {
                Health::Ready => "ready",
                Health::Starting => "starting",
                Health::Failing => "failing",
                Health::Inactive => "inactive",
            },
            containers: pod.containers.clone(),
            restarts: pod.restarts,
            created: pod.created,
            priority: pod.priority,
            why: pod.why.clone(),
            point: pod.point.map(|point: PausePoint| side(point)),
        }
    }
}

impl RevisionRow {
    fn of(deployment: &OrderedDeployment, revision: &Revision) -> Self {
        Self {
            number: revision.number,
            set: revision.set.clone(),
            pods: revision.pods,
            current: revision.current,
            images: images(&revision.template.value()),
            cause: revision.cause.clone(),
            created: revision.created,
            confirm: confirm_undo(deployment, revision),
        }
    }
}

impl Entry {
    fn of(entry: &HistoryEntry) -> Self {
        Self {
            at: entry.at.0,
            action: format!("{:?}", entry.action),
            revision: entry.revision,
            id: entry.id.clone(),
            reason: entry.reason.clone(),
        }
    }
}
