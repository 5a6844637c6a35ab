//! Computes a plan: a preview of the observed state with a change, under assumptions about times and nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, PostParams};
use kube::core::{Request, Status};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::names::reason;
use ordereddeployment_api::{
    DeclaredPausePoint, OrderedDeployment, OrderedDeploymentSpec, OrderedDeploymentStatus,
    parse_pause_duration,
};
use ordereddeployment_placement as placement;
use ordereddeployment_planner::{
    Answer, Comparison, ComparisonResult, Place, Snapshot, rollout_order, to_compare,
};
use ordereddeployment_preview::{Action, Assumptions, End, Preview, preview};
use ordereddeployment_sorter::NodeFacts;
use ordereddeployment_wire::{Family, NamespacedUid, PodView, new_pod, strict_create};
use serde_json::Value;

use super::spec_change::{SpecChange, refuse_invalid};
use crate::client::explain::explain;
use crate::view::phase::aborted;
use crate::view::state::ObservedState;

/// What a plan guarantees.
pub(super) const GUARANTEE: &str =
    "the order by priority and the pause points; within one priority, the order is the current one";

/// The default if the current pods give no ready time.
const READY_AFTER: Duration = Duration::from_secs(10);
const GONE_AFTER: Duration = Duration::from_secs(5);
const RESUMED_AFTER: Duration = Duration::from_secs(60);

/// The assumptions from the flags.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct AssumptionFlags {
    /// Assume that new pods are ready after this time [default: the time that the current pods took]
    #[arg(long = "ready-after", value_name = "DURATION", value_parser = duration)]
    pub(super) ready: Option<Duration>,
    /// Assume that deleted pods are removed after this time [default: 5s]
    #[arg(long = "gone-after", value_name = "DURATION", value_parser = duration)]
    pub(super) gone: Option<Duration>,
    /// Assume that each pause is resumed after this time [default: 1m]
    #[arg(long = "resumed-after", value_name = "DURATION", value_parser = duration)]
    pub(super) resumed: Option<Duration>,
}

pub(super) struct Plan {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) is_rest: bool,
    pub(super) spec: OrderedDeploymentSpec,
    pub(super) preview: Preview,
    pub(super) assumptions: Assumptions,
    /// Whether `ready_after` is the time that the current pods took.
    pub(super) ready_after_learned: bool,
    pub(super) notes: Vec<String>,
    pub(super) next: Option<String>,
}

pub(super) async fn plan(
    client: &Client,
    state: &ObservedState,
    change: &SpecChange,
    given: AssumptionFlags,
) -> Result<Plan> {
    let mut notes = Vec::new();
    let mut snapshot = state.observed();
    let deployment = change.apply(&snapshot.deployment)?;
    refuse_invalid(&deployment.spec)?;
    let name = deployment.name_any();
    let namespace = deployment.namespace().unwrap_or_default();
    snapshot.deployment = deployment.into();
    snapshot.comparison = compare(client, &snapshot, &mut notes).await?;
    let learned = ready_after(state);
    let placed_on = nodes(client, &mut notes).await?;
    let assumptions = Assumptions {
        ready_after: given.ready.or(learned).unwrap_or(READY_AFTER),
        gone_after: given.gone.unwrap_or(GONE_AFTER),
        resumed_after: given.resumed.unwrap_or(RESUMED_AFTER),
        others: match &placed_on {
            None => BTreeMap::new(),
            Some(_) => others(client, state, &mut notes).await?,
        },
        nodes: placed_on,
    };
    for (name, facts) in &state.nodes {
        snapshot.nodes.insert(name.as_str().into(), Some(facts.facts()));
    }
    // That of a large rollout takes a while, and the threads of the runtime answer requests.
    let computed = tokio::task::spawn_blocking(move || {
        let preview = preview(&snapshot, &assumptions);
        (snapshot, assumptions, preview)
    });
    let (snapshot, assumptions, preview) = computed.await.context("cannot compute the plan")?;
    notes.extend(idle_points(&snapshot, &preview));
    Ok(Plan {
        name,
        namespace,
        is_rest: *change == SpecChange::default(),
        spec: snapshot.deployment.spec.clone(),
        preview,
        assumptions,
        ready_after_learned: given.ready.is_none() && learned.is_some(),
        notes,
        next: None,
    })
}

/// The median time that the current pods took from creation to Ready, in whole seconds.
fn ready_after(state: &ObservedState) -> Option<Duration> {
    let pods = state.observed().pods;
    let mut took: Vec<i64> = pods
        .iter()
        .filter_map(|pod| Some(pod.facts.ready_since?.duration_since(pod.facts.created?).as_secs()))
        .filter(|seconds| (0..3600).contains(seconds))
        .collect();
    took.sort_unstable();
    took.get(took.len() / 2).and_then(|seconds| u64::try_from(*seconds).ok()).map(Duration::from_secs)
}

/// The nodes; `None` and a message if they may not be read.
async fn nodes(
    client: &Client,
    messages: &mut Vec<String>,
) -> Result<Option<BTreeMap<String, placement::Node>>> {
    match Api::<Node>::all(client.clone()).list(&ListParams::default()).await {
        Ok(found) => {
            Ok(Some(found.iter().map(|node| (node.name_any(), placement::Node::of(node))).collect()))
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            messages.push(format!(
                "nodes cannot be read, so the plan assumes that each new pod finds a node with room: {}",
                status.message
            ));
            Ok(None)
        }
        Err(error) => Err(explain(error, "cannot list the nodes")),
    }
}

/// The number of pods of other owners on each node.
async fn others(
    client: &Client,
    state: &ObservedState,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<String, usize>> {
    let own: BTreeSet<NamespacedUid> =
        state.pods.iter().map(|pod| NamespacedUid::of(&pod.metadata)).collect();
    let mut load: BTreeMap<String, usize> = BTreeMap::new();
    let pods = match Api::<PodView>::all(client.clone()).list(&ListParams::default()).await {
        Ok(pods) => pods.items,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            notes.push(format!(
                "pods of other namespaces cannot be read and are not counted: {}",
                status.message
            ));
            Vec::new()
        }
        Err(error) => return Err(explain(error, "cannot list the pods of all namespaces")),
    };
    for pod in &pods {
        let is_own = own.contains(&NamespacedUid::of(&pod.metadata));
        if let Some(node) = pod.node().filter(|_| !is_own && !pod.has_ended()) {
            *load.entry(node.to_owned()).or_default() += 1;
        }
    }
    Ok(load)
}

/// Compares the template with those of the sets by dry runs, as the controller does, but as the user.
/// If dry runs are not possible, `notes` gets the reason.
async fn compare(client: &Client, snapshot: &Snapshot, notes: &mut Vec<String>) -> Result<ComparisonResult> {
    let sets = to_compare(snapshot);
    if sets.is_empty() {
        return Ok(ComparisonResult::Not);
    }
    let namespace = snapshot.deployment.namespace().unwrap_or_default();
    let mut comparison = Comparison::of(snapshot, &sets);
    while let Some(object) = comparison.question() {
        match dry_run(client, &namespace, &object).await {
            Ok(taken) => comparison.answered(&Answer::Taken(taken)),
            Err(kube::Error::Api(status)) if is_not_supported(&status) => {
                notes.push(format!(
                    "templates are compared as written, so one with explicit defaults can look like a new \
                     one: {}",
                    status.message
                ));
                return Ok(ComparisonResult::New);
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
                comparison.answered(&Answer::Refused);
            }
            Err(error) => return Err(explain(error, "cannot compare the template with those of the sets")),
        }
    }
    let verdict = comparison.verdict();
    if verdict == ComparisonResult::New {
        try_pod(client, &snapshot.deployment, notes).await?;
    }
    Ok(verdict)
}

fn is_not_supported(status: &Status) -> bool {
    status.code == 403 || status.message.contains("does not support dry run")
}

async fn dry_run(client: &Client, namespace: &str, object: &Value) -> kube::Result<Value> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let params = PostParams { dry_run: true, field_manager: None };
    let url = format!("/api/v1/namespaces/{namespace}/podtemplates");
    client.request(Request::new(url).create(&params, body).map_err(kube::Error::BuildRequest)?).await
}

/// Whether the API server accepts a pod of a new template. If it does not, `notes` gets the reason.
async fn try_pod(client: &Client, deployment: &OrderedDeployment, notes: &mut Vec<String>) -> Result<()> {
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    // The set does not exist yet, and an owner reference without a UID is refused.
    let uid = deployment.uid().unwrap_or_default();
    let pod = new_pod(Family::Ordered, &name, &uid, &deployment.spec.template, &name, &namespace);
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let request = strict_create(&path, &pod, true).map_err(kube::Error::HttpError)?;
    match client.request::<Value>(request).await {
        Ok(_) => {}
        // Who may not create pods cannot ask.
        Err(kube::Error::Api(status)) if status.message.contains("cannot create resource") => {}
        Err(kube::Error::Api(status)) => {
            notes.push(format!("a dry run of a pod of this template fails: {}", status.message));
        }
        Err(error) => return Err(explain(error, "cannot try a pod of the template")),
    }
    Ok(())
}

/// A note for each declared pause point at which the rollout does not pause. `snapshot` is that of the
/// preview.
pub(super) fn idle_points(snapshot: &Snapshot, preview: &Preview) -> Vec<String> {
    let mut snapshot = snapshot.clone();
    if snapshot.comparison == ComparisonResult::Not {
        snapshot.comparison = ComparisonResult::New;
    }
    let lined_up = rollout_order(&snapshot);
    let strategy = &snapshot.deployment.spec.strategy;
    if !lined_up.rolls || strategy.points().next().is_none() {
        return Vec::new();
    }
    let starts =
        |action: &Action| matches!(action, Action::Event(event) if event.reason == reason::ROLLOUT_STARTED);
    let starts = preview.steps.iter().any(|step| starts(&step.action));
    // A new rollout has passed no point.
    let status = snapshot.deployment.status.clone().filter(|_| !starts).unwrap_or_default();
    if aborted(&status).is_some() {
        return vec!["the rollout is aborted: it pauses at no pause point".to_owned()];
    }
    let is_held = |point: &DeclaredPausePoint| {
        let mut declared = preview.holds().filter_map(|hold| hold.declared.as_ref());
        declared.any(|held| held.name == point.name)
    };
    let idle = strategy.points().filter(|point| !is_held(point));
    let ended = preview.end == End::Complete;
    let because = idle.filter_map(|point| {
        let why = why(point, &snapshot, &status, &lined_up.places);
        let why = why.or_else(|| ended.then(|| "the rollout goes past it without a pause".to_owned()))?;
        Some(format!("no pause at pause point {}: {why}", point.name))
    });
    because.collect()
}

fn why(
    point: &DeclaredPausePoint,
    snapshot: &Snapshot,
    status: &OrderedDeploymentStatus,
    places: &[Place],
) -> Option<String> {
    let nodes = || places.iter().map(|place| node(snapshot, place));
    if point.between_node_groups.is_none() && status.has_passed(&point.name) {
        return Some("the rollout has passed it".to_owned());
    }
    if let Some(priority) = point.before_priority {
        let lowest = places.iter().map(|place| place.priority).min()?;
        return (lowest > priority)
            .then(|| format!("no pod has priority {priority} or lower; the lowest priority is {lowest}"));
    }
    if let Some(selector) = &point.before_nodes {
        let is_there = nodes().flatten().any(|node| selector.matches(&node.labels));
        return (!is_there).then(|| format!("no pod is on a node with {}", selector.to_selector_string()));
    }
    let label = point.between_node_groups.as_ref()?;
    let groups: BTreeSet<Option<&String>> =
        nodes().map(|node| node.and_then(|node| node.labels.get(label))).collect();
    match groups.iter().next() {
        Some(Some(only)) if groups.len() == 1 => Some(format!("all pods are on nodes with {label}={only}")),
        Some(None) if groups.len() == 1 => Some(format!("no pod is on a node with the label {label}")),
        _ => None,
    }
}

fn node<'s>(snapshot: &'s Snapshot, place: &Place) -> Option<&'s NodeFacts> {
    let pod = snapshot.pods.iter().find(|pod| pod.facts.uid == place.uid)?;
    snapshot.nodes.get(pod.facts.node.as_ref()?)?.as_ref()
}

/// Parses a duration, which may be 0.
pub(crate) fn duration(text: &str) -> Result<Duration> {
    if text == "0" || text == "0s" {
        return Ok(Duration::ZERO);
    }
    parse_pause_duration(text).ok_or_else(|| anyhow!("give a duration such as 30s, 5m or 500ms"))
}
