//! The behavior of a Deployment, row by row as in `docs/parity.md`: tested here for an OrderedDeployment and,
//! if possible, for a Deployment next to it. Rows with a separate test file are not repeated here.

mod conditions;
mod deadlines;
mod failures;
mod nodes;
mod revisions;
mod sizes;

use std::fs;
use std::path::Path;

use ordereddeployment_sandbox::NodeSpec;
use ordereddeployment_sandbox::agents::nodes::Taint;
use scenarios::{Setting, side_by_side};
use serde_json::{Value, json};

#[cfg(feature = "real-servers")]
use conditions::{
    a_deployment_differs_as_documented, a_deployment_has_the_same_conditions,
    a_deployment_has_the_same_conditions_with_a_quota, a_deployment_has_the_same_conditions_with_recreate,
};
use conditions::{
    a_pause_after_the_deadline_and_an_infinite_deadline_are_reported,
    an_exceeded_quota_has_the_conditions_of_a_deployment,
    conditions_and_their_reasons_are_those_of_a_deployment,
    conditions_under_recreate_are_those_of_a_deployment,
};
use deadlines::{
    a_hold_stops_the_progress_deadline_and_its_end_restarts_it,
    unschedulable_surge_pods_exceed_the_progress_deadline,
};
#[cfg(feature = "real-servers")]
use failures::a_deployment_replaces_rejected_pods_without_a_backoff;
use failures::{
    creates_that_the_server_rejects_back_off_and_are_reported,
    evicted_and_preempted_pods_are_replaced_and_do_not_count,
    pods_that_kubelets_reject_are_replaced_with_a_growing_backoff,
};
use nodes::{
    a_pod_stuck_on_a_dead_node_is_named_if_creates_wait_for_it,
    fields_of_newer_servers_start_no_second_rollout,
    pods_evicted_by_a_no_execute_taint_are_replaced_on_other_nodes,
};
#[cfg(feature = "real-servers")]
use revisions::a_deployment_numbers_its_revisions_the_same;
use revisions::{
    a_history_limit_of_zero_keeps_no_old_set, undo_and_revision_numbers_are_those_of_a_deployment,
};
use sizes::{
    recreate_never_runs_old_and_new_pods_together,
    scaling_to_zero_and_back_keeps_the_revision_and_a_rollout_at_zero_completes_immediately,
    the_status_counts_terminating_pods,
};

/// Two more nodes for scenarios that select them: their faults affect no other scenario.
const RESERVED: &str = "reserved";

fn with_reserved_nodes() -> Setting {
    let mut setting = Setting::default();
    setting.nodes.extend(["r1", "r2"].map(reserved));
    setting
}

/// A node only for pods that select its pool.
fn reserved(name: &str) -> NodeSpec {
    let taint = Taint { key: RESERVED.to_owned(), value: String::new(), effect: "NoSchedule".to_owned() };
    NodeSpec { taints: vec![taint], ..NodeSpec::in_pool(name, RESERVED) }
}

/// A pod template for the nodes of this pool.
fn in_pool(pool: &str, more: &Value) -> Value {
    let mut spec = json!({
        "containers": [{"name": "web", "image": "web:1"}],
        "nodeSelector": {"node.usage": pool},
        "tolerations": [{"key": RESERVED, "operator": "Exists", "effect": "NoSchedule"}],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})
}

#[test]
fn every_documented_scenario_exists() {
    let table = include_str!("../../../../../docs/parity.md");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let source = |file: &str| {
        let (flat, parts) = (folder.join(file).with_extension("rs"), folder.join(file));
        let parts = fs::read_dir(parts).into_iter().flatten().map(|entry| entry.unwrap().path());
        parts.chain([flat]).filter_map(|path| fs::read_to_string(path).ok()).collect::<String>()
    };
    let (mut text, mut found) = (String::new(), 0);
    for word in table.split('`').skip(1).step_by(2) {
        if folder.join(word).with_extension("rs").exists() || folder.join(word).is_dir() {
            text = source(word);
        } else if word.matches('_').count() > 2 {
            assert!(text.contains(&format!("async fn {word}(")), "{word} is not in the file named before it");
            found += 1;
        }
    }
    assert!(found > 40, "{found}");
}

side_by_side!(
    with_reserved_nodes();
    conditions_and_their_reasons_are_those_of_a_deployment,
    conditions_under_recreate_are_those_of_a_deployment,
    an_exceeded_quota_has_the_conditions_of_a_deployment,
    a_pause_after_the_deadline_and_an_infinite_deadline_are_reported,
    a_hold_stops_the_progress_deadline_and_its_end_restarts_it,
    unschedulable_surge_pods_exceed_the_progress_deadline,
    pods_that_kubelets_reject_are_replaced_with_a_growing_backoff,
    creates_that_the_server_rejects_back_off_and_are_reported,
    evicted_and_preempted_pods_are_replaced_and_do_not_count,
    pods_evicted_by_a_no_execute_taint_are_replaced_on_other_nodes,
    a_pod_stuck_on_a_dead_node_is_named_if_creates_wait_for_it,
    fields_of_newer_servers_start_no_second_rollout,
    undo_and_revision_numbers_are_those_of_a_deployment,
    a_history_limit_of_zero_keeps_no_old_set,
    recreate_never_runs_old_and_new_pods_together,
    the_status_counts_terminating_pods,
    scaling_to_zero_and_back_keeps_the_revision_and_a_rollout_at_zero_completes_immediately;
    only on a real server:
    a_deployment_has_the_same_conditions,
    a_deployment_has_the_same_conditions_with_recreate,
    a_deployment_has_the_same_conditions_with_a_quota,
    a_deployment_differs_as_documented,
    a_deployment_replaces_rejected_pods_without_a_backoff,
    a_deployment_numbers_its_revisions_the_same,
);
