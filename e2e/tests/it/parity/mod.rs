//! The behavior of a Deployment, row by row as in `docs/parity.md`: tested here for an OrderedDeployment and, if
//! possible, for a Deployment next to it. Rows with a separate test file are not repeated here.

mod conditions;
mod deadlines;
mod failures;
mod nodes;
mod revisions;
mod sizes;

use std::fs;
use std::path::Path;

use e2e::{Setting, World, side_by_side};
use ordereddeployment_api::{Condition, ConditionStatus, OrderedDeployment};
use ordereddeployment_sandbox::NodeSpec;
use ordereddeployment_sandbox::agents::nodes::Taint;
use serde_json::{Value, json};

#[cfg(feature = "real-servers")]
use conditions::{
    a_deployment_differs_where_the_documentation_says_so, a_deployment_says_the_same_at_the_same_points,
    a_deployment_says_the_same_of_a_quota, a_deployment_says_the_same_under_recreate,
};
use conditions::{
    a_pause_after_the_deadline_and_a_deadline_that_never_passes_are_told,
    a_used_up_quota_is_told_as_a_deployment_tells_it, conditions_and_their_reasons_are_those_of_a_deployment,
    conditions_under_recreate_are_those_of_a_deployment,
};
use deadlines::{
    a_hold_stops_the_clock_of_the_deadline_and_its_end_starts_it_anew,
    surge_pods_that_no_node_takes_pass_the_deadline_and_it_says_so,
};
#[cfg(feature = "real-servers")]
use failures::a_deployment_makes_pods_as_fast_as_their_kubelets_refuse_them;
use failures::{
    evicted_and_preempted_pods_are_replaced_and_what_is_left_of_them_counts_for_nothing,
    pods_that_the_server_refuses_are_tried_ever_more_rarely_and_that_is_told,
    pods_that_their_kubelets_refuse_again_and_again_come_back_ever_more_slowly,
};
use nodes::{
    a_field_of_the_template_that_the_server_drops_starts_no_second_rollout,
    a_no_execute_taint_empties_its_node_and_the_pods_come_back_elsewhere,
    a_pod_that_does_not_end_on_a_dead_node_is_named_where_creates_wait_for_it,
};
#[cfg(feature = "real-servers")]
use revisions::a_deployment_numbers_its_revisions_the_same;
use revisions::{
    a_history_limit_of_zero_keeps_no_old_set,
    undo_goes_back_by_one_or_to_a_revision_and_numbers_grow_as_a_deployments_do,
};
use sizes::{
    pods_that_terminate_are_counted_in_the_status, recreate_runs_old_and_new_pods_never_at_once,
    scaling_to_zero_and_back_brings_the_same_revision_back_and_a_rollout_at_zero_is_done_at_once,
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

/// The condition of this type, if it is about the newest generation.
fn condition_of(object: &OrderedDeployment, type_: &str) -> Option<Condition> {
    let status = object.status.as_ref()?;
    let is_current = status.observed_generation == object.metadata.generation;
    status.condition(type_).filter(|_| is_current).cloned()
}

/// Waits until the condition has this status and reason. Returns its message.
async fn until_said(world: &World, type_: &str, status: ConditionStatus, reason: &str) -> String {
    let says = |object: &OrderedDeployment| {
        condition_of(object, type_).is_some_and(|found| found.status == status && found.reason == reason)
    };
    let object = world.until("web", &format!("{type_} {status:?}: {reason}"), says).await.unwrap();
    condition_of(&object, type_).unwrap().message
}

#[test]
fn every_scenario_that_the_documentation_names_is_there() {
    let table = include_str!("../../../../docs/parity.md");
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
    a_used_up_quota_is_told_as_a_deployment_tells_it,
    a_pause_after_the_deadline_and_a_deadline_that_never_passes_are_told,
    a_hold_stops_the_clock_of_the_deadline_and_its_end_starts_it_anew,
    surge_pods_that_no_node_takes_pass_the_deadline_and_it_says_so,
    pods_that_their_kubelets_refuse_again_and_again_come_back_ever_more_slowly,
    pods_that_the_server_refuses_are_tried_ever_more_rarely_and_that_is_told,
    evicted_and_preempted_pods_are_replaced_and_what_is_left_of_them_counts_for_nothing,
    a_no_execute_taint_empties_its_node_and_the_pods_come_back_elsewhere,
    a_pod_that_does_not_end_on_a_dead_node_is_named_where_creates_wait_for_it,
    a_field_of_the_template_that_the_server_drops_starts_no_second_rollout,
    undo_goes_back_by_one_or_to_a_revision_and_numbers_grow_as_a_deployments_do,
    a_history_limit_of_zero_keeps_no_old_set,
    recreate_runs_old_and_new_pods_never_at_once,
    pods_that_terminate_are_counted_in_the_status,
    scaling_to_zero_and_back_brings_the_same_revision_back_and_a_rollout_at_zero_is_done_at_once;
    only on a real server:
    a_deployment_says_the_same_at_the_same_points,
    a_deployment_says_the_same_under_recreate,
    a_deployment_says_the_same_of_a_quota,
    a_deployment_differs_where_the_documentation_says_so,
    a_deployment_makes_pods_as_fast_as_their_kubelets_refuse_them,
    a_deployment_numbers_its_revisions_the_same,
);
