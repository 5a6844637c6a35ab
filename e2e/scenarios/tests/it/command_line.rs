//! `kubectl ordered` as a user runs it: real kubectl finds the plugin in PATH. The tests check what each command does to a
//! cluster, its exit codes, and its errors.

mod changes;
mod looking;
mod waiting;

use scenarios::{Setting, TestCluster, side_by_side};
use serde_json::json;

use changes::{
    a_change_of_an_outdated_template_is_refused, a_deployment_is_converted_applied_and_converted_back,
    control_characters_are_escaped, images_restarts_and_undos_are_rollouts_in_the_history,
    marks_are_written_and_removed, pause_and_unpause_write_spec_paused,
};
use looking::{
    a_plan_of_a_manifest_matches_the_rollout, get_watches_a_rollout_until_the_object_is_deleted,
    kubectl_completes_names_of_the_cluster_through_the_plugin, the_list_spans_namespaces,
    the_order_previews_a_scale_down,
};
#[cfg(feature = "real-servers")]
use waiting::a_user_without_permissions_gets_the_name_of_the_role;
use waiting::{
    a_failed_rollout_has_its_own_exit_code, all_points_are_passed_at_once,
    every_end_of_a_wait_has_its_exit_code,
};

/// Six pods of `web` with different priorities, in deletion order.
async fn six_in_order(cluster: &TestCluster) -> Vec<String> {
    let pods = cluster.deployed(&json!({})).await.unwrap();
    for (pod, priority) in pods.iter().zip([60, 50, 40, 30, 20, 10]) {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    pods
}

side_by_side!(
    Setting::default();
    every_end_of_a_wait_has_its_exit_code,
    a_failed_rollout_has_its_own_exit_code,
    all_points_are_passed_at_once,
    get_watches_a_rollout_until_the_object_is_deleted,
    the_list_spans_namespaces,
    the_order_previews_a_scale_down,
    a_plan_of_a_manifest_matches_the_rollout,
    kubectl_completes_names_of_the_cluster_through_the_plugin,
    marks_are_written_and_removed,
    images_restarts_and_undos_are_rollouts_in_the_history,
    pause_and_unpause_write_spec_paused,
    a_change_of_an_outdated_template_is_refused,
    a_deployment_is_converted_applied_and_converted_back,
    control_characters_are_escaped,
    ; only on a real server:
    a_user_without_permissions_gets_the_name_of_the_role,
);
