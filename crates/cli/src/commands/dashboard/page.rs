//! What the page shows, as JSON: the list of all OrderedDeployments, the page of one, and what has changed.
//! Pure functions.
//!
//! Order, barrier, counts and texts are those of the command line.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::ResourceExt;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::{condition, reason};
use serde_json::{Map, Value, json};

use super::buttons::{Button, confirm_undo};
use crate::terminal::style::{Paint, Style};
use crate::view::age::span;
use crate::view::overview::{Overview, PodRow, SetRow, images};
use crate::view::pause_points::left;
use crate::view::phase::{Phase, side};
use crate::view::state::ObservedState;
use crate::view::state::Revision;
use crate::view::tree::{Health, commands, counted, detail, headline};

/// Marks as on a terminal with Unicode, and no colours: the page has its own.
const UNICODE: Style = Style { color: false, unicode: true };

/// The rows of the list, by namespace and name.
pub(super) type Rows = BTreeMap<(String, String), Value>;

pub(super) fn rows<'a>(all: impl IntoIterator<Item = &'a OrderedDeployment>, now: Timestamp) -> Rows {
    let key = |found: &OrderedDeployment| (found.namespace().unwrap_or_default(), found.name_any());
    all.into_iter().map(|found| (key(found), row(found, now))).collect()
}

fn row(deployment: &OrderedDeployment, now: Timestamp) -> Value {
    let phase = Phase::of(deployment);
    let status = deployment.status.clone().unwrap_or_default();
    let (mark, paint) = phase.mark(UNICODE);
    let paused_since = match &phase {
        Phase::Held(hold) => Some(hold.since.0),
        Phase::Paused => {
            let progress = status.condition(condition::PROGRESSING);
            let paused = progress.filter(|progress| progress.reason == reason::DEPLOYMENT_PAUSED);
            paused.map(|paused| paused.last_transition_time.0)
        }
        _ => None,
    };
    json!({
        "namespace": deployment.namespace(), "name": deployment.name_any(),
        "mark": mark, "tone": tone(paint), "state": phase.label(),
        "paused": paused_since.map(|since| span(since, now)),
        "desired": deployment.spec.replicas, "updated": status.updated_replicas.unwrap_or(0),
        "available": status.available_replicas.unwrap_or(0),
        "images": images(&deployment.spec.template.value()),
    })
}

/// What has changed in the list; `None` if nothing has.
pub(super) fn changed_rows(before: &Rows, after: &Rows) -> Option<Value> {
    let (rows, gone) = changes(before, after);
    (!rows.is_empty() || !gone.is_empty()).then(|| json!({"rows": rows, "gone": gone}))
}

/// The page of one OrderedDeployment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Page {
    /// All but the pods. A part that has changed is sent as a whole.
    parts: Map<String, Value>,
    pods: BTreeMap<String, Value>,
}

impl Page {
    /// The page of that state. `flags` are those of the printed commands.
    pub(super) fn of(
        state: &ObservedState,
        overview: &Overview,
        revisions: &[Revision],
        buttons: &[Button],
        flags: &str,
    ) -> Self {
        let deployment = &state.deployment;
        let history = deployment.status.as_ref().and_then(|status| status.history.as_ref());
        let rows = || overview.sets.iter().flat_map(|set| set.pods.iter().map(move |pod| (set, pod)));
        // By pool and name; pods without a node come last.
        let nodes: BTreeSet<_> = rows().map(|(_, pod)| (pod.node.is_none(), &pod.pool, &pod.node)).collect();
        let ahead = overview.ahead().unwrap_or(usize::MAX);
        let parts = [
            ("head", head(overview, deployment.metadata.generation.unwrap_or(0), flags)),
            ("buttons", json!(buttons)),
            ("revisions", revisions.iter().map(|revision| revision_row(deployment, revision)).collect()),
            ("history", history.into_iter().flatten().rev().map(|entry| json!(entry)).collect()),
            ("nodes", nodes.iter().map(|(_, pool, node)| json!({"pool": pool, "node": node})).collect()),
            ("order", overview.in_order().iter().map(|pod| pod.name.as_str()).collect()),
        ];
        Self {
            parts: parts.into_iter().map(|(name, part)| (name.to_owned(), part)).collect(),
            pods: rows().map(|(set, pod)| (pod.name.clone(), square(set, pod, ahead))).collect(),
        }
    }

    /// What has changed since then, as the browser gets it; `None` if nothing has.
    pub(super) fn since(&self, before: &Self) -> Option<Value> {
        let parts = self.parts.iter().filter(|(name, part)| before.parts.get(*name) != Some(*part));
        let mut delta: Map<String, Value> = parts.map(|(name, part)| (name.clone(), part.clone())).collect();
        let (pods, gone) = changes(&before.pods, &self.pods);
        if !pods.is_empty() {
            delta.insert("pods".to_owned(), json!(pods));
        }
        if !gone.is_empty() {
            delta.insert("gone".to_owned(), json!(gone));
        }
        (!delta.is_empty()).then(|| delta.into())
    }
}

/// The values that are new or differ, and the keys that are gone.
fn changes<'a, K: Ord>(
    before: &'a BTreeMap<K, Value>,
    after: &'a BTreeMap<K, Value>,
) -> (Vec<&'a Value>, Vec<&'a K>) {
    let changed = after.iter().filter(|(key, value)| before.get(*key) != Some(*value));
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    (changed.map(|(_, value)| value).collect(), gone.collect())
}

fn head(overview: &Overview, generation: i64, flags: &str) -> Value {
    let (mark, state, paint) = headline(overview, UNICODE);
    let hold = overview.hold.as_ref().map_or("", |hold| hold.id.as_str());
    let notes: Vec<String> = overview.notes.iter().cloned().chain(left(&overview.points_left)).collect();
    json!({
        "namespace": overview.namespace, "name": overview.name,
        "mark": mark, "tone": tone(paint), "state": state, "detail": detail(overview),
        "revision": overview.revision, "rolling": overview.is_rolling(),
        "desired": overview.desired, "updated": overview.updated, "ready": overview.ready(),
        "available": overview.available, "counts": counted(overview), "strategy": overview.strategy,
        "commands": commands(overview, flags), "notes": notes, "line": line(overview),
        // The plan is another one when this changes.
        "plan": format!("{generation} {} {state} {hold}", overview.revision),
    })
}

fn line(overview: &Overview) -> Option<Value> {
    let barrier = overview.barrier.as_ref()?;
    overview.ahead()?;
    let place = barrier.place();
    let what = match (barrier.reached, barrier.rolling) {
        (true, _) => "paused",
        (false, true) => "the rollout pauses",
        (false, false) => "the next rollout pauses",
    };
    let text = format!("{what} at pause point {place}");
    Some(json!({"text": text, "place": place, "reached": barrier.reached}))
}

fn square(set: &SetRow, pod: &PodRow, ahead: usize) -> Value {
    let zone = match pod.place {
        // Deleted before the rollout pauses.
        Some(place) if place <= ahead => "ahead",
        // Until the pause point is passed.
        Some(_) => "waits",
        None if set.current && pod.is_active() => "updated",
        None => "leaving",
    };
    let health = match Health::of(pod) {
        Health::Ready => "ready",
        Health::Starting => "starting",
        Health::Failing => "failing",
        Health::Inactive => "inactive",
    };
    json!({
        "name": pod.name, "node": pod.node, "pool": pod.pool, "zone": zone, "health": health,
        "revision": set.revision, "current": set.current, "status": pod.status, "containers": pod.containers,
        "restarts": pod.restarts, "created": pod.created, "priority": pod.priority, "why": pod.why,
        "point": pod.point.map(side),
    })
}

fn revision_row(deployment: &OrderedDeployment, revision: &Revision) -> Value {
    json!({
        "number": revision.number, "set": revision.set, "pods": revision.pods, "current": revision.current,
        "images": images(&revision.template.value()), "cause": revision.cause, "created": revision.created,
        "confirm": confirm_undo(deployment, revision),
    })
}

/// The meaning of a colour, as a class of the page.
fn tone(paint: Paint) -> &'static str {
    match paint {
        Paint::Title | Paint::Dim => "busy",
        Paint::Good => "good",
        Paint::Warn => "warn",
        Paint::Bad => "bad",
    }
}
