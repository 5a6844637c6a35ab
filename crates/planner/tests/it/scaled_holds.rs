//! Scaling while a rollout has pause points ahead, and what a hold keeps.

use ordereddeployment_planner::Purpose;

use crate::model::Cluster;
use crate::play::{histories, rolling};

histories! {
    a_point_after_is_kept_when_scaling_deletes_the_pods_behind_it:
        rolling(4, 1, 1, "") => "
            priorities 9 5 4 3, mark after #2, broken v2, image v2 => v1=3 free
            scale 1 => held=mark
            mended, ready all => held v1>0";
    a_remaining_timed_point_does_not_replace_an_untimed_one:
        // None of the pods behind the point stays.
        rolling(4, 0, 1, "") => "
            priorities 9 8 7 6, mark before #1 for 600, mark after #2, image v2, scale 2
            wait 3600, settle => held=mark v1>0";
    // Held at a point of ten minutes; another point, without a duration, follows.
    an_untimed_point_survives_scaling_in_a_timed_hold:
        timed_before_untimed() =>
            "scale 2
            scale 10
            wait 3600, settle => held=mark v1>0" |
            "scale 1
            scale 10
            wait 3600, settle => held=mark v1>0" |
            "scale 0
            scale 10
            wait 3600, settle => held=mark v1>0";
    a_pause_scaled_to_zero_is_not_complete_and_keeps_its_old_set:
        rolling(10, 1, 1, "") => "
            history 0, broken v2, image v2 => v1=9 v2=2
            pause
            scale 0 => active=0 incomplete
            scale 10 => v1=8 v2=2";
    // Some evictions were accepted, and the budget refuses the next.
    a_pause_scaled_to_zero_during_another_scaling_keeps_its_split:
        rolling(10, 1, 1, "") => "
            priorities 9 8 7, mark before #2, broken v2, image v2 => free v1=9
            pause
            scale 5, lose #8 #9, scale 0
            scale 10 => v1=8";
}

#[test]
fn if_only_pods_with_points_are_left_the_first_one_is_the_barrier() {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("priorities 9 8 7 6, mark before #0 #1 #2 #3, image v2, scale 2 => held v1>0");
    let hold = cluster.status().hold.unwrap();
    assert!(cluster.marked.contains(&hold.pod));
    assert!(cluster.active().any(|pod| pod.name == hold.pod), "the held pod goes last");
}

fn timed_before_untimed() -> Cluster {
    let mut cluster = rolling(10, 1, 1, "");
    cluster.play("priorities 0 0 0 0 0 9 8, mark before #6 for 600, mark before #1, image v2 => held");
    assert!(cluster.status().hold.unwrap().until.is_some());
    cluster
}

/// Two pods of v1 stay at their points, beside pods of v2, and v3 never gets ready.
fn two_old_sets() -> Cluster {
    let mut cluster = rolling(8, 2, 2, "");
    cluster.play(
        "priorities 0 0 9 9 9 9 9 9, mark before #0 #1, broken v3, image v2 => held v1=2 v2=6
         image v3 => v1=2 v2>0",
    );
    cluster
}

#[test]
fn the_split_over_old_sets_yields_to_the_points() {
    let mut cluster = two_old_sets();
    let deleted = cluster.deleted.len();
    cluster.play("scale 4 => v1=2");
    assert!(cluster.deleted[deleted..].iter().any(|(_, purpose)| *purpose == Purpose::Scale));
    // It becomes idle: no pod is created in one old set and deleted in the other.
    let before = (cluster.count, cluster.deleted.len());
    cluster.play("wait 5, settle");
    assert_eq!((cluster.count, cluster.deleted.len()), before);
}

#[test]
fn a_set_that_is_being_deleted_costs_no_pod_of_another_in_a_hold() {
    for pause in ["settle", "pause"] {
        let mut cluster = two_old_sets();
        cluster.play(pause);
        let deleted = cluster.deleted.len();
        let second = cluster.sets.iter().position(|set| cluster.image_of(set) == "v2").unwrap();
        cluster.sets[second].terminating = true;
        cluster.play("settle => v1=2");
        assert_eq!(cluster.deleted.len(), deleted);
    }
}

#[test]
fn scaling_holds_at_no_point_of_a_set_that_is_being_deleted() {
    let mut cluster = rolling(10, 1, 1, "");
    cluster.play(
        "priorities 9 9 9 9 9, mark before #5, image v2 => held=mark
         priority 20 v2, broken v3, image v3 => free",
    );
    let first = cluster.sets.iter().position(|set| cluster.image_of(set) == "v1");
    cluster.sets[first.unwrap()].terminating = true;
    cluster.play("scale 8 => free");
}
