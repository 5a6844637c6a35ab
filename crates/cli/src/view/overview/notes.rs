//! Notes for the user, one line each.

use kube::ResourceExt;
use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_api::names::condition;
use ordereddeployment_planner::needs_nodes;
use ordereddeployment_wire::{Family, MalformedAnnotation, declared_points, unknown_annotations};

use crate::view::phase::{Phase, aborted};
use crate::view::state::ObservedState;

pub(super) fn notes(state: &ObservedState, stored: &OrderedDeploymentStatus, phase: &Phase) -> Vec<String> {
    let is_plain = state.family == Family::Plain;
    let mut notes: Vec<String> = state.doubt.iter().cloned().collect();
    let generation = state.deployment.metadata.generation.unwrap_or(0);
    if stored.observed_generation.unwrap_or(0) < generation {
        let who = if is_plain { "kube-controller-manager" } else { "ordered-controller-manager" };
        notes.push(format!("waiting for the controller to observe this spec; is {who} running?"));
    }
    if let Some(message) = &state.nodes_unread {
        let by_node = needs_nodes(&state.deployment.spec);
        if by_node {
            notes.push(format!(
                "nodes cannot be read, so the order ignores node rules and pause points at nodes: {message}"
            ));
        }
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
