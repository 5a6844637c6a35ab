//! What can be said of an OrderedDeployment: its sets, its pods in their order, and where its rollout halts.
//!
//! The order, the barrier and the counts are the planner's: the code that the controller runs. Pure: it reads no
//! server and no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{
    ConditionStatus, Hold, OrderedDeploymentStatus, PausePoint, Strategy, StrategyType,
};
use ordereddeployment_planner::{Place, Pod, Point, RolloutOrder, Snapshot, node_rules, rollout_order};
use ordereddeployment_sorter::{self as sorter, Context, Ranks};
use serde_json::Value;

use crate::observe::Seen;
use crate::pod::PodSeen;
use crate::state::Moving;
use ordereddeployment_preview::next_act;

/// Everything that is shown of one OrderedDeployment.
#[derive(Clone, Debug)]
pub(crate) struct Overview {
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// When it was so.
    pub(crate) now: Timestamp,
    pub(crate) desired: i32,
    pub(crate) updated: i32,
    pub(crate) available: i32,
    /// How a rollout goes, in words.
    pub(crate) strategy: String,
    /// The revision that the rollout leads to; 0 before the controller has seen the object.
    pub(crate) revision: i64,
    pub(crate) phase: Phase,
    /// The pause point that the rollout halts at, now or later.
    pub(crate) barrier: Option<Barrier>,
    /// Newest first.
    pub(crate) sets: Vec<SetRow>,
    /// Sets without pods, kept for an undo.
    pub(crate) empty_sets: usize,
    /// What else the user should know, one line each.
    pub(crate) notes: Vec<String>,
    /// Whether the cluster tells its pools apart.
    pub(crate) has_pools: bool,
}

/// How far the rollout is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is to be done.
    Complete,
    /// Pods of older revisions are replaced, or pods are missing.
    Rolling,
    /// Halted at a pause point.
    Held(Box<Hold>),
    /// `spec.paused`.
    Paused,
    /// Its pods change hands with a Deployment.
    Moving(Moving),
    /// Somebody must change something: what.
    Stalled(String),
    /// The progress deadline has passed: what is missing.
    Late(String),
}

/// The pause point at which the rollout halts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Barrier {
    pub(crate) uid: Arc<str>,
    pub(crate) pod: String,
    pub(crate) side: PausePoint,
    /// Whether the rollout halts there already.
    pub(crate) held: bool,
    /// Whether a rollout is under way; else the next one halts there.
    pub(crate) rolling: bool,
}

/// A set and its pods.
#[derive(Clone, Debug)]
pub(crate) struct SetRow {
    pub(crate) name: String,
    pub(crate) revision: i64,
    pub(crate) size: i32,
    pub(crate) current: bool,
    /// The images of its template, in the order of its containers.
    pub(crate) images: Vec<String>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) pods: Vec<PodRow>,
}

/// A pod.
#[derive(Clone, Debug)]
pub(crate) struct PodRow {
    pub(crate) uid: Arc<str>,
    pub(crate) name: String,
    /// As kubectl's column STATUS has it; `NotReady` where it runs without being ready.
    pub(crate) status: String,
    pub(crate) ready: bool,
    /// Neither terminating nor finished.
    pub(crate) active: bool,
    /// As kubectl's column READY has it.
    pub(crate) containers: String,
    pub(crate) restarts: i64,
    pub(crate) created: Option<Timestamp>,
    pub(crate) node: Option<String>,
    pub(crate) pool: Option<String>,
    pub(crate) priority: i32,
    /// 1 goes first; none where it is not its turn in this rollout.
    pub(crate) place: Option<usize>,
    /// Why it goes before the next one.
    pub(crate) why: Option<String>,
    /// Its pause point, if it has one that this rollout has not passed.
    pub(crate) point: Option<PausePoint>,
}

impl Overview {
    pub(crate) fn of(seen: &Seen, pool_label: &str) -> Self {
        let snapshot = seen.observed();
        let stored = snapshot.deployment.status.clone().unwrap_or_default();
        let counts = next_act(&snapshot).map_or_else(|| stored.clone(), |act| act.status);
        let lined_up = rollout_order(&snapshot);
        let places: BTreeMap<&Arc<str>, (usize, &Place)> = lined_up
            .places
            .iter()
            .enumerate()
            .map(|(index, place)| (&place.uid, (index + 1, place)))
            .collect();
        let priority = priorities(&snapshot);
        let label = seen.pool_label(pool_label);
        let seen_pods: BTreeMap<&str, &PodSeen> =
            seen.pods.iter().filter_map(|pod| Some((pod.metadata.uid.as_deref()?, pod))).collect();
        let rows = snapshot.pods.iter().map(|pod| {
            let place = places.get(&pod.facts.uid);
            let node = pod.facts.node.as_deref();
            let labels = node.and_then(|node| seen.nodes.get(node)).map(ResourceExt::labels);
            let seen_pod = seen_pods.get(&*pod.facts.uid);
            let detail = seen_pod.map(|seen| seen.detail.clone()).unwrap_or_default();
            let row = PodRow {
                uid: Arc::clone(&pod.facts.uid),
                name: pod.name.clone(),
                status: status_word(pod, seen_pod.map_or("Unknown", |seen| seen.phase()), detail.reason),
                ready: pod.facts.ready,
                active: !pod.terminating && !pod.finished,
                containers: format!("{}/{}", detail.ready, detail.containers),
                restarts: detail.restarts,
                created: pod.facts.created,
                node: node.map(str::to_owned),
                pool: label.and_then(|label| labels?.get(label).cloned()),
                priority: priority(pod),
                place: place.map(|(number, _)| *number),
                why: place.and_then(|(_, place)| place.why.as_ref()).map(ToString::to_string),
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
        Self {
            name: deployment.name_any(),
            now: seen.now,
            desired: deployment.spec.replicas,
            namespace: deployment.namespace().unwrap_or_default(),
            updated: counts.updated_replicas.unwrap_or(0),
            available: counts.available_replicas.unwrap_or(0),
            strategy: strategy(&deployment.spec.strategy),
            revision: stored.rollout.as_ref().map_or(0, |rollout| rollout.revision),
            phase: phase(&snapshot, &stored, &counts),
            barrier: barrier(&stored, &lined_up),
            empty_sets: all - sets.len(),
            sets,
            notes: notes(seen, &stored),
            has_pools: label.is_some(),
        }
    }

    /// The pods that are there to stay for now: neither terminating nor finished.
    pub(crate) fn active(&self) -> usize {
        self.pods().filter(|row| row.active).count()
    }

    /// How many of them are ready.
    pub(crate) fn ready(&self) -> usize {
        self.pods().filter(|row| row.active && row.ready).count()
    }

    /// The pods that have a place, the first to go first.
    pub(crate) fn in_order(&self) -> Vec<&PodRow> {
        let mut rows: Vec<&PodRow> = self.pods().filter(|row| row.place.is_some()).collect();
        rows.sort_by_key(|row| row.place);
        rows
    }

    pub(crate) fn pods(&self) -> impl Iterator<Item = &PodRow> {
        self.sets.iter().flat_map(|set| &set.pods)
    }

    /// Whether pods of older revisions are being replaced: the order then is theirs alone.
    pub(crate) fn is_rolling(&self) -> bool {
        self.sets.iter().any(|set| !set.current && set.pods.iter().any(|row| row.place.is_some()))
    }
}

fn status_word(pod: &Pod, phase: &str, reason: Option<String>) -> String {
    match reason {
        _ if pod.terminating => "Terminating".to_owned(),
        Some(reason) => reason,
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

/// The delete priority of any pod, also of one whose turn does not come.
fn priorities(snapshot: &Snapshot) -> impl Fn(&Pod) -> i32 {
    let rules = snapshot.deployment.spec.deletion_order.as_ref().map(node_rules).unwrap_or_default();
    let ranks = Ranks::none();
    move |pod| {
        let ctx = Context { now: None, rules: &rules, nodes: &snapshot.nodes, ranks: &ranks };
        sorter::effective_priority(&pod.facts, &ctx)
    }
}

/// A pause point that the rollout has not passed.
fn point(pod: &Pod, status: &OrderedDeploymentStatus) -> Option<PausePoint> {
    let Point::At { side, .. } = &pod.point else { return None };
    (!pod.terminating && !pod.finished && !status.has_passed(&pod.facts.uid)).then_some(*side)
}

fn barrier(status: &OrderedDeploymentStatus, lined_up: &RolloutOrder) -> Option<Barrier> {
    if let Some(hold) = &status.hold {
        return Some(Barrier {
            uid: hold.pod_uid.as_str().into(),
            pod: hold.pod.clone(),
            side: hold.point,
            held: hold.deleted != Some(false),
            rolling: true,
        });
    }
    let (index, side) = lined_up.barrier?;
    let place = lined_up.places.get(index)?;
    let (uid, pod) = (Arc::clone(&place.uid), place.name.clone());
    Some(Barrier { uid, pod, side, held: false, rolling: lined_up.rolls })
}

fn phase(snapshot: &Snapshot, stored: &OrderedDeploymentStatus, counts: &OrderedDeploymentStatus) -> Phase {
    let holds = |status: &OrderedDeploymentStatus, type_: &str| {
        status.condition(type_).filter(|found| found.status == ConditionStatus::True).cloned()
    };
    if let Some(moving) = Moving::of(stored) {
        return Phase::Moving(moving);
    }
    if let Some(hold) = stored.hold.as_ref().filter(|hold| hold.deleted != Some(false)) {
        return Phase::Held(Box::new(hold.clone()));
    }
    if let Some(late) = late(stored) {
        return Phase::Late(late.to_owned());
    }
    if let Some(stalled) = holds(stored, condition::STALLED) {
        return Phase::Stalled(stalled.message);
    }
    if snapshot.deployment.spec.paused {
        return Phase::Paused;
    }
    if holds(counts, condition::COMPLETE).is_some() { Phase::Complete } else { Phase::Rolling }
}

/// What is missing where the progress deadline has passed.
fn late(stored: &OrderedDeploymentStatus) -> Option<&str> {
    let progress = stored.condition(condition::PROGRESSING)?;
    let late =
        progress.status == ConditionStatus::False && progress.reason == reason::PROGRESS_DEADLINE_EXCEEDED;
    late.then_some(progress.message.as_str())
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

fn notes(seen: &Seen, stored: &OrderedDeploymentStatus) -> Vec<String> {
    let mut notes = Vec::new();
    let generation = seen.deployment.metadata.generation.unwrap_or(0);
    if stored.observed_generation.unwrap_or(0) < generation {
        notes.push(
            "the controller has not seen this spec yet; is ordered-controller-manager running?".to_owned(),
        );
    }
    if let Some(message) = &seen.nodes_unread {
        let by_node = seen
            .deployment
            .spec
            .deletion_order
            .as_ref()
            .is_some_and(|order| order.node_priorities.iter().flatten().next().is_some());
        if by_node {
            notes.push(format!("the order lacks the rules by node, which cannot be read: {message}"));
        }
    }
    for view in &seen.pods {
        for malformed in view.malformed() {
            notes.push(format!(
                "pod {}: {}={:?} is malformed and counts as absent",
                view.name_any(),
                malformed.key,
                malformed.value
            ));
        }
    }
    if stored.hold.is_some() {
        if seen.deployment.spec.paused {
            notes.push("paused as a whole too (spec.paused): a resume alone does not go on".to_owned());
        }
        notes.extend(late(stored).map(str::to_owned));
    }
    if let Some(failure) = stored.condition(condition::REPLICA_FAILURE) {
        notes.push(format!("{}: {}", failure.reason, failure.message));
    }
    notes
}
