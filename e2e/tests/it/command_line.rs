//! `kubectl ordered` as a user lives with it: real kubectl finds the plugin in the PATH. What each command does to a cluster,
//! what its exit codes are worth to a script, and what it says where it is refused.

mod changes;
mod looking;
mod waiting;

use e2e::{Setting, World, side_by_side};
use serde_json::json;

use changes::{
    a_change_that_somebody_overtakes_is_refused_in_words,
    a_deployment_is_converted_applied_and_converted_back,
    images_restarts_and_undos_are_rollouts_and_history_lists_them, marks_are_written_and_taken_away,
    pause_and_unpause_stop_and_go_on, what_would_steer_a_terminal_is_shown_and_not_done,
};
use looking::{
    a_plan_of_a_manifest_is_what_then_happens, a_tree_is_followed_to_the_end_of_a_rollout_and_of_its_object,
    kubectl_completes_names_of_the_cluster_through_the_plugin, the_list_spans_namespaces,
    the_order_tells_who_goes_in_a_scale_down,
};
#[cfg(feature = "real-servers")]
use waiting::who_may_only_look_is_told_which_role_to_ask_for;
use waiting::{
    a_failed_rollout_has_an_exit_code_of_its_own, all_points_are_passed_at_once,
    every_end_of_a_wait_has_its_exit_code,
};

/// Six pods of `web`, each with a priority of its own, the first to go first.
async fn six_in_order(world: &World) -> Vec<String> {
    let pods = world.deployed(&json!({})).await.unwrap();
    for (pod, priority) in pods.iter().zip([60, 50, 40, 30, 20, 10]) {
        world.prioritise(pod, priority).await.unwrap();
    }
    pods
}

side_by_side!(
    Setting::default();
    every_end_of_a_wait_has_its_exit_code,
    a_failed_rollout_has_an_exit_code_of_its_own,
    all_points_are_passed_at_once,
    a_tree_is_followed_to_the_end_of_a_rollout_and_of_its_object,
    the_list_spans_namespaces,
    the_order_tells_who_goes_in_a_scale_down,
    a_plan_of_a_manifest_is_what_then_happens,
    kubectl_completes_names_of_the_cluster_through_the_plugin,
    marks_are_written_and_taken_away,
    images_restarts_and_undos_are_rollouts_and_history_lists_them,
    pause_and_unpause_stop_and_go_on,
    a_change_that_somebody_overtakes_is_refused_in_words,
    a_deployment_is_converted_applied_and_converted_back,
    what_would_steer_a_terminal_is_shown_and_not_done,
    ; only on a real server:
    who_may_only_look_is_told_which_role_to_ask_for,
);
