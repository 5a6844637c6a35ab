//! Notes for the user, one line each.

use kube::ResourceExt;
use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_api::names::condition;
use ordereddeployment_planner::needs_nodes;
use ordereddeployment_wire::unknown_annotations;

use super::phase::deadline_exceeded;
use crate::observe::ObservedState;
use crate::state::aborted;

pub(super) fn notes(state: &ObservedState, stored: &OrderedDeploymentStatus) -> Vec<String> {
    let mut notes = Vec::new();
    let generation = state.deployment.metadata.generation.unwrap_or(0);
    if stored.observed_generation.unwrap_or(0) < generation {
        notes.push(
            "waiting for the controller to observe this spec; is ordered-controller-manager running?"
                .to_owned(),
        );
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
    for view in &state.pods {
        notes
            .extend(view.malformed().iter().map(|malformed| format!("pod {}: {malformed}", view.name_any())));
    }
    if aborted(stored).is_some() && state.deployment.spec.paused {
        notes.push("also paused by spec.paused: no pod is replaced".to_owned());
    }
    if stored.hold.is_some() {
        if state.deployment.spec.paused {
            notes.push("also paused by spec.paused: a resume alone does not continue the rollout".to_owned());
        }
        notes.extend(deadline_exceeded(stored).map(str::to_owned));
    }
    if let Some(failure) = stored.condition(condition::REPLICA_FAILURE) {
        notes.push(format!("{}: {}", failure.reason, failure.message));
    }
    notes
}
