//! A view of an OrderedDeployment: its sets, its pods in order, and the pause point of its rollout.
//!
//! Order, barrier and counts are computed by the planner, as in the controller. Pure functions: no server, no
//! clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use ordereddeployment_api::names::condition;
use ordereddeployment_api::{Hold, OrderedDeploymentStatus, PausePoint, Strategy, StrategyType};
use ordereddeployment_planner::{Place, Pod, Point, Snapshot, needs_nodes, node_rules, rollout_order};
use ordereddeployment_preview::next_act;
use ordereddeployment_sorter as sorter;
use ordereddeployment_wire::{Family, MalformedAnnotation, declared_points, unknown_annotations};
use serde_json::Value;

use crate::view::pause_points::{Barrier, barrier, on_pods};
use crate::view::phase::{Phase, aborted};
use crate::view::plain;
use crate::view::state::{ObservedState, reference};

/// Everything that is shown of one OrderedDeployment, or of one plain Deployment.
#[derive(Clone, Debug)]
pub(crate) struct Overview {
    pub(crate) family: Family,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) now: Timestamp,
    pub(crate) desired: i32,
    pub(crate) updated: i32,
    pub(crate) available: i32,
    /// The strategy: `RollingUpdate, surge 1, unavailable 25%`.
    pub(crate) strategy: String,
    /// The revision of the rollout; 0 until the controller has observed the object.
    pub(crate) revision: i64,
    pub(crate) phase: Phase,
    pub(crate) hold: Option<Hold>,
    /// The pause point at which the rollout pauses, now or later.
    pub(crate) barrier: Option<Barrier>,
    /// Newest first.
    pub(crate) sets: Vec<SetRow>,
    pub(crate) empty_sets: usize,
    /// Notes for the user, one line each.
    pub(crate) notes: Vec<String>,
    /// The pause points on pods, if the rollout is complete: the next one pauses there.
    pub(crate) points_left: Vec<String>,
    pub(crate) has_pools: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct SetRow {
    pub(crate) name: String,
    pub(crate) revision: i64,
    pub(crate) size: i32,
    pub(crate) current: bool,
    pub(crate) images: Vec<String>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) pods: Vec<PodRow>,
}

/// The lifecycle of a pod, as far as counts distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    Pending,
    Running,
    Terminating,
    /// `Succeeded` or `Failed`.
    Finished,
}

#[derive(Clone, Debug)]
pub(crate) struct PodRow {
    pub(crate) uid: Arc<str>,
    pub(crate) name: String,
    /// The STATUS column of kubectl, or `NotReady` for a running pod that is not ready.
    pub(crate) status: String,
    pub(crate) ready: bool,
    pub(crate) lifecycle: Lifecycle,
    /// The READY column of kubectl.
    pub(crate) containers: String,
    pub(crate) restarts: i64,
    pub(crate) created: Option<Timestamp>,
    pub(crate) node: Option<String>,
    pub(crate) pool: Option<String>,
    pub(crate) priority: i32,
    /// The place in the order: 1 is deleted first. `None` if the rollout does not delete it.
    pub(crate) place: Option<usize>,
    pub(crate) why: Option<String>,
    /// Its pause point, unless the rollout has passed it.
    pub(crate) point: Option<PausePoint>,
}

impl Overview {
    pub(crate) fn of(state: &ObservedState, pool_label: &str) -> Self {
        let snapshot = state.observed();
        let stored = snapshot.deployment.status.clone().unwrap_or_default();
        let counts = match state.family {
            Family::Ordered => next_act(&snapshot).map_or_else(|| stored.clone(), |act| act.status),
            // The Deployment controller counts.
            Family::Plain => stored.clone(),
        };
        let lined_up = rollout_order(&snapshot);
        let places: BTreeMap<&Arc<str>, (usize, &Place)> =
            lined_up.places.iter().zip(1..).map(|(place, number)| (&place.uid, (number, place))).collect();
        let priority = priorities(&snapshot);
        let label = state.pool_label(pool_label);
        let rows = snapshot.pods.iter().zip(&state.pods).map(|(pod, observed)| {
            let place = places.get(&pod.facts.uid);
            let node = pod.facts.node.as_deref();
            let labels = node.and_then(|node| state.nodes.get(node)).map(ResourceExt::labels);
            let detail = &observed.detail;
            let row = PodRow {
                uid: Arc::clone(&pod.facts.uid),
                name: pod.name.clone(),
                status: status_word(pod, observed.phase(), detail.reason.as_ref()),
                ready: pod.facts.ready,
                lifecycle: lifecycle(pod, observed.phase()),
                containers: format!("{}/{}", detail.ready, detail.containers),
                restarts: detail.restarts,
                created: pod.facts.created,
                node: node.map(str::to_owned),
                pool: label.and_then(|label| labels?.get(label).cloned()),
                priority: priority(pod),
                place: place.map(|(number, _)| *number),
                why: place.map(|(_, place)| place.why.to_string()),
                point: point(pod, &stored),
            };
            (Arc::clone(&pod.set), row)
        });
        let mut by_set: BTreeMap<Arc<str>, Vec<PodRow>> = BTreeMap::new();
        for (set, row) in rows {
            by_set.entry(set).or_default().push(row);
        }
        let mut sets: Vec<SetRow> = snapshot
            .sets
            .iter()
            .map(|set| {
                let mut pods = by_set.remove(&set.uid).unwrap_or_default();
                pods.sort_by(|first, second| sort_key(first).cmp(&sort_key(second)));
                SetRow {
                    name: set.name.clone(),
                    revision: set.revision,
                    size: set.replicas,
                    current: lined_up.current.as_ref() == Some(&set.uid),
                    images: images(&set.template.value()),
                    created: set.created,
                    pods,
                }
            })
            .collect();
        sets.sort_by(|first, second| (second.revision, &second.name).cmp(&(first.revision, &first.name)));
        let all = sets.len();
        sets.retain(|set| set.current || set.size > 0 || !set.pods.is_empty());
        let deployment = &snapshot.deployment;
        let phase = Phase::with(deployment, &counts);
        let points_left = if phase == Phase::Complete { on_pods(&snapshot) } else { Vec::new() };
        Self {
            family: state.family,
            name: deployment.name_any(),
            now: state.now,
            desired: deployment.spec.replicas,
            namespace: deployment.namespace().unwrap_or_default(),
            updated: counts.updated_replicas.unwrap_or(0),
            available: counts.available_replicas.unwrap_or(0),
            strategy: strategy(&deployment.spec.strategy),
            revision: match state.family {
                Family::Ordered => stored.rollout.as_ref().map_or(0, |rollout| rollout.revision),
                Family::Plain => plain::revision(deployment),
            },
            notes: notes(state, &stored, &phase),
            phase,
            hold: stored.hold.clone(),
            points_left,
            barrier: barrier(&stored, &lined_up, &deployment.spec),
            empty_sets: all - sets.len(),
            sets,
            has_pools: label.is_some(),
        }
    }

    /// Its name in commands and messages: `web`, or `deployment/web`.
    pub(crate) fn reference(&self) -> String {
        reference(self.family, &self.name)
    }

    pub(crate) fn ready(&self) -> usize {
        self.pods().filter(|row| row.is_active() && row.ready).count()
    }

    pub(crate) fn count(&self, lifecycle: Lifecycle) -> usize {
        self.pods().filter(|row| row.lifecycle == lifecycle).count()
    }

    pub(crate) fn in_order(&self) -> Vec<&PodRow> {
        let mut rows: Vec<&PodRow> = self.pods().filter(|row| row.place.is_some()).collect();
        rows.sort_by_key(|row| row.place);
        rows
    }

    pub(crate) fn pods(&self) -> impl Iterator<Item = &PodRow> {
        self.sets.iter().flat_map(|set| &set.pods)
    }

    /// Whether pods of older revisions are being replaced. The order then has only those pods.
    pub(crate) fn is_rolling(&self) -> bool {
        self.sets.iter().any(|set| !set.current && set.pods.iter().any(|row| row.place.is_some()))
    }

    /// The side of this pod on which the barrier is; `None` if it is elsewhere.
    pub(crate) fn barrier_side(&self, pod: &PodRow) -> Option<PausePoint> {
        let barrier = self.barrier.as_ref()?;
        if pod.uid == barrier.uid && pod.place.is_some() {
            return Some(barrier.side);
        }
        // The pod of the barrier is deleted: all remaining old pods come after it.
        let is_gone = || !self.pods().any(|other| other.uid == barrier.uid && other.place.is_some());
        let is_first = pod.place == Some(1) && barrier.reached && self.is_rolling() && is_gone();
        is_first.then_some(PausePoint::Before)
    }

    /// The number of pods ahead of the barrier; `None` if it is not among the pods.
    pub(crate) fn ahead(&self) -> Option<usize> {
        self.pods().find_map(|pod| match self.barrier_side(pod)? {
            PausePoint::Before => pod.place.map(|place| place - 1),
            PausePoint::After => pod.place,
        })
    }
}

impl PodRow {
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Pending | Lifecycle::Running)
    }
}

fn lifecycle(pod: &Pod, phase: &str) -> Lifecycle {
    match phase {
        _ if pod.terminating => Lifecycle::Terminating,
        _ if pod.finished => Lifecycle::Finished,
        "Running" => Lifecycle::Running,
        _ => Lifecycle::Pending,
    }
}

fn status_word(pod: &Pod, phase: &str, reason: Option<&String>) -> String {
    match reason {
        _ if pod.terminating => "Terminating".to_owned(),
        Some(reason) => reason.clone(),
        None if phase == "Running" && !pod.facts.ready => "NotReady".to_owned(),
        None => phase.to_owned(),
    }
}

/// The images of a template's containers, each once.
pub(crate) fn images(template: &Value) -> Vec<String> {
    let containers = template.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let mut images: Vec<String> = Vec::new();
    for image in containers.filter_map(|container| container["image"].as_str()) {
        if !images.iter().any(|known| known == image) {
            images.push(image.to_owned());
        }
    }
    images
}

fn sort_key(row: &PodRow) -> (bool, Option<usize>, &str) {
    (row.place.is_none(), row.place, &row.name)
}

/// The delete priority of any pod, also of one without a place in the order.
fn priorities(snapshot: &Snapshot) -> impl Fn(&Pod) -> i32 {
    let rules = node_rules(&snapshot.deployment.spec);
    move |pod| sorter::priority(&pod.facts, rules, &snapshot.nodes)
}

fn point(pod: &Pod, status: &OrderedDeploymentStatus) -> Option<PausePoint> {
    let Point::At { side, .. } = &pod.point else { return None };
    (!pod.terminating && !pod.finished && !status.has_passed(&pod.name)).then_some(*side)
}

/// `RollingUpdate, surge 1, unavailable 25%`.
fn strategy(strategy: &Strategy) -> String {
    if strategy.type_ == StrategyType::Recreate {
        return "Recreate".to_owned();
    }
    let bounds = strategy.rolling_update.clone().unwrap_or_default();
    let shown = |bound: &IntOrString| match bound {
        IntOrString::Int(count) => count.to_string(),
        IntOrString::String(percentage) => percentage.clone(),
    };
    format!(
        "RollingUpdate, surge {}, unavailable {}",
        shown(&bounds.max_surge),
        shown(&bounds.max_unavailable)
    )
}

/// Notes for the user, one line each.
fn notes(state: &ObservedState, stored: &OrderedDeploymentStatus, phase: &Phase) -> Vec<String> {
    let is_plain = state.family == Family::Plain;
    let mut notes: Vec<String> = state.doubt.iter().cloned().collect();
    let generation = state.deployment.metadata.generation.unwrap_or(0);
    if stored.observed_generation.unwrap_or(0) < generation {
        let who = if is_plain { "kube-controller-manager" } else { "ordered-controller-manager" };
        notes.push(format!("waiting for the controller to observe this spec; is {who} running?"));
    }
    if let Some(message) = state.nodes_unread.as_ref().filter(|_| needs_nodes(&state.deployment.spec)) {
        notes.push(format!(
            "nodes cannot be read, so the order ignores node rules and pause points at nodes: {message}"
        ));
    }
    notes.extend(unknown_annotations(&state.deployment.metadata).iter().map(ToString::to_string));
    if is_plain && let Some(Err(why)) = declared_points(state.deployment.metadata.annotations.as_ref()) {
        notes.push(MalformedAnnotation::Points(why).to_string());
    }
    for view in &state.pods {
        let (_, malformed) = view.read_in(state.family);
        notes.extend(malformed.iter().map(|malformed| format!("pod {}: {malformed}", view.name_any())));
    }
    if aborted(stored).is_some() && state.deployment.spec.paused {
        notes.push("also paused by spec.paused: no pod is replaced".to_owned());
    }
    if state.deployment.spec.paused && *phase == Phase::Complete {
        notes.push("paused by spec.paused: the next change of the template starts no rollout".to_owned());
    }
    if stored.hold.is_some() && state.deployment.spec.paused && !is_plain {
        notes.push("also paused by spec.paused: a resume alone does not continue the rollout".to_owned());
    }
    if let Some(failure) = stored.condition(condition::REPLICA_FAILURE) {
        notes.push(format!("{}: {}", failure.reason, failure.message));
    }
    notes
}
