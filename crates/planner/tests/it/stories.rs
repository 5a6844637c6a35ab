//! Short histories with a known end: each tells one rule of pause points. Beside each is what happened before
//! there was that rule.

use ordereddeployment_api::names::reason;
use serde_json::json;

use crate::model::Cluster;
use crate::play::{histories, recreate, rolling};

histories! {
    a_correction_of_a_bad_canary_gets_its_canary_and_the_bad_one_goes:
        rolling(6, 1, 0, "a after 1") => "
            priority 5 all, broken v2, image v2 => free incomplete v1=6 v2=1
            image v3 => held=a v1=5 v2=0 v3=1",
        rolling(6, 1, 1, "a after 1") => "
            priority 5 all, broken v2, image v2
            image v3 => held=a v1=5 v2=0 v3=1";
    an_image_and_a_larger_number_of_replicas_together_make_no_old_pod_that_was_not_there:
        rolling(10, 1, 1, "") => "scale 30, image v2 => complete v2=30 made=40" | "
            breaks 1, scale 30, broken v2, image v2, until made=11
            breaks none, lose 4 v1 => free incomplete v1=9 v2=22",
        rolling(1, 1, 0, "") => "scale 2, image v2 => complete v2=2 made=3",
        // With a point ahead, it makes them.
        rolling(10, 1, 1, "a after 1") => "scale 30, image v2 => held=a v1=29 v2=1";
    a_place_is_first_seen_when_the_rollout_has_an_old_pod:
        rolling(3, 1, 1, "a after 1; b before priority 0") => "
            image v2, lose v1 => held=b v1=3 v2=0
            resume => held=a v1=2 v2=1
            resume => complete v2=3";
    one_replica_has_an_old_pod_beside_its_canary:
        rolling(1, 1, 0, "a after 2") => "
            image v2 => held=a v1=1 v2=1
            resume => complete v2=1";
    one_replica_without_a_surge_waits_until_there_are_two_or_a_resume:
        rolling(1, 0, 1, "a after 1") => "
            image v2 => waits=a v1=1 v2=0
            scale 2 => held=a v1=1 v2=1" | "
            image v2 => waits=a v1=1 v2=0
            resume => complete v2=1";
    a_bad_template_first_seen_without_replicas_has_not_served_and_an_abort_goes_back:
        rolling(3, 1, 0, "a after 1") => "
            scale 0
            broken v2, image v2 => complete
            scale 3 => free incomplete v1=0 v2=3 served=v1
            abort => aborted incomplete v1=3 v2=0";
    a_good_template_has_served_once_enough_pods_are_available:
        rolling(3, 1, 0, "a after 1") => "
            scale 0
            image v2
            scale 3 => served=v1,v2 complete v2=3";
    an_image_and_no_replicas_together_keep_the_points_ahead:
        rolling(6, 1, 1, "a after 1") => "
            scale 0, image v2 => free incomplete active=0
            scale 6 => held=a v1=5 v2=1";
    a_suspension_keeps_a_mark_through_a_new_template:
        rolling(6, 1, 0, "") => "
            priorities 6 5 4 3 2 1, mark before #3, image v2 => held=mark v1=3 v2=3
            scale 0 => incomplete active=0
            image v3 => incomplete active=0
            scale 6 => held=mark v1=3 v3=3";
    scaling_in_a_hold_leaves_one_pod_where_one_was_and_the_held_pod_goes_last:
        rolling(10, 1, 0, "") => "
            priorities 9 8, mark before #1, image v2 => held=mark v1=9 v2=1
            scale 2 => held=mark v1=1 v2=1
            lose marked => v1=1";
    a_number_raised_in_a_hold_counts_once_it_is_passed:
        rolling(6, 1, 0, "a after 2") => "image v2\n points a after 4 => held=a v1=4 v2=2";
    a_mark_outlives_its_pod:
        rolling(6, 1, 0, "") => "
            priorities 6 5 4 3 2 1, mark before #3, image v2, step 4
            lose v1 => held=mark v1=3 v2=3";
    who_is_alone_for_a_moment_with_a_point_ahead_has_not_served:
        rolling(6, 1, 4, "a after 2") => "
            image v2
            lose v1, step => served=v1
            image v3
            abort => v2=0 v3=0";
    scaling_through_0_and_1_in_a_hold_restores_the_sizes:
        rolling(4, 1, 0, "a after 2") => "
            image v2 => held=a v1=2 v2=2
            scale 1
            scale 4 => held=a v1=2 v2=2
            scale 0 => incomplete active=0
            scale 1
            scale 4 => held=a v1=2 v2=2";
    an_autoscaler_in_a_hold_at_a_number_keeps_the_share:
        rolling(20, 1, 1, "a after 6") => "
            image v2 => held=a v1=14 v2=6
            scale 8 => held=a v1=6 v2=2
            scale 40 => held=a v1=34 v2=6
            scale 20 => held=a v1=14 v2=6";
    a_smaller_max_unavailable_in_a_rollout_makes_no_old_pod:
        rolling(6, 0, 1, "") => "
            image v2, step 4
            bounds 1 0 => complete v2=6 made=12";
    old_pods_that_are_all_lost_come_back_with_a_point_ahead:
        rolling(4, 1, 1, "canary after 1") => "
            image v2 => held=canary v1=3 v2=1
            lose v1, scale 0
            scale 4 => held=canary v1=3 v2=1
            lose v1 => held=canary v1=3 v2=1
            resume => complete v2=4" | "
            broken v2, image v2
            lose all => free v1=3 v2=1";
    an_abort_wins_over_a_stale_retry:
        rolling(4, 1, 1, "canary after 1") => "
            image v2 => held=canary v1=3 v2=1
            abort, retry, resume canary@2 => aborted incomplete v1=4 v2=0";
    recreate_keeps_what_the_point_keeps:
        recreate(6, "") => "
            priorities 9 8 7, mark before #2, image v2 => held=mark v1=4 v2=0 HoldBelowReplicas=1
            resume => complete v2=6",
        recreate(4, "low before priority 0") => "
            priorities 3 2, image v2 => held=low@2 v1=2 v2=0
            resume => complete v2=4";
    recreate_makes_no_old_pod_beside_an_updated_one:
        rolling(6, 1, 0, "") => "
            priorities 9 8 7, mark before #2, image v2 => held=mark v1=4 v2=2
            recreate, lose 2 v1 => held=mark v1=2 v2=2";
    an_invalid_list_takes_no_point_away:
        rolling(3, 1, 0, "a before priority 0") => "
            image v2 => held=a@2
            points a after 2; b after 1 => held=a@2 v2=0
            points a before priority 0 => held=a@2 v2=0
            points a after 2 => held=a@2.2 v2=2";
    a_mark_behind_a_timed_hold_is_ahead_after_scaling_through_0:
        rolling(6, 1, 1, "a after 1 for 60s") => "
            priorities 6 5 4 3 2 1, mark before #2, image v2 => held=a v1=5 v2=1
            scale 0 => incomplete active=0
            scale 6 => held=a v1=5 v2=1
            wait 100, settle => held=mark v1=4 v2=2
            resume => complete v2=6";
    a_rollout_at_0_is_not_aborted_by_the_deadline:
        rolling(4, 1, 1, "canary after 1") => "
            deadline 60 aborts, broken v2, image v2
            scale 0 => incomplete active=0
            wait 1000, settle => incomplete active=0 unaborted
            mended, scale 4 => held=canary v1=3 v2=1";
}

#[test]
fn points_in_a_wrong_order_stop_the_release_and_not_the_care() {
    let mut cluster = rolling(6, 1, 1, "a after 2");
    cluster.play(
        "image v2 => held=a v1=4 v2=2
         points a after 3; b after 1
         resume => free incomplete v1=4 v2=2
         lose 1 v1 => free incomplete v1=4 v2=2
         scale 9 => free incomplete v1=7 v2=2 Stalled=InvalidSpec",
    );
    assert!(cluster.stalled().contains("spec.strategy.pausePoints[1]"), "{}", cluster.stalled());
    cluster.play("points a after 3; b after 5 => held=b v1=4 v2=5\n resume => complete v2=9");
}

#[test]
fn a_place_whose_pods_are_drained_still_holds_and_an_event_says_so() {
    let strategy = rolling(1, 1, 1, "pool before pool n1").deployment.spec.strategy.clone();
    let mut cluster = Cluster::new(&json!({"replicas": 8, "strategy": strategy}));
    cluster.nodes.insert("n3".into(), ordereddeployment_sorter::NodeFacts::default());
    cluster.play("settle\n priority 5 all, priority 0 v1 on n1, unseen");
    let behind = cluster.chosen(&["v1", "on", "n1"]).len();
    cluster.play("image v2, step 2\n lose v1 on n1 => held=pool PausePointLost=1");
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (behind, 8 - behind));
    assert_eq!(cluster.count_events(reason::PAUSE_POINT_LOST), 1);
    cluster.play("resume => complete v2=8");
}
