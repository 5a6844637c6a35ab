//! The declared pause points at which a planned rollout does not pause, and why.

use std::collections::BTreeSet;

use ordereddeployment_api::names::reason;
use ordereddeployment_api::{DeclaredPausePoint, OrderedDeploymentStatus};
use ordereddeployment_planner::{ComparisonResult, Place, Snapshot, rollout_order};
use ordereddeployment_preview::{Action, End, Preview};
use ordereddeployment_sorter::NodeFacts;

use crate::view::phase::aborted;

/// A note for each of them. `snapshot` is that of the preview.
pub(super) fn notes(snapshot: &Snapshot, preview: &Preview) -> Vec<String> {
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
