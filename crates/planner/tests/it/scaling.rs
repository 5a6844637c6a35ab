//! Scaling: outside a rollout, in one, held and paused.

use ordereddeployment_planner::Purpose;

use crate::model::Cluster;
use crate::play::{histories, recreate, rolling};

fn ten() -> Cluster {
    rolling(10, 1, 1, "")
}

fn timed_before_untimed() -> Cluster {
    let mut cluster = ten();
    cluster.play("priorities 0 0 0 0 0 9 8, mark before #6 for 600, mark before #1, image v2 => held");
    assert!(cluster.status().hold.unwrap().until.is_some());
    cluster
}

/// Eight old and two new pods, held.
fn held() -> Cluster {
    let mut cluster = ten();
    cluster.play("priorities 5 5 3, mark before #2, image v2 => held=mark v1=8 v2=2");
    cluster
}

histories! {
    zero_replicas_allow_no_pod_and_a_rollout_at_zero_completes:
        ten() => "
            scale 0, image v2 => active=0 complete
            scale 3 => v2=3";
    // `delete marked` checks that the held pod goes last.
    scaling_while_held_keeps_the_split_and_never_advances_the_release:
        held() => "
            scale 5 => v1=4 v2=1 held
            delete marked => v1=4 v2=1 held
            scale 0 => active=0 held
            scale 10 => v1=8 v2=2 held
            scale 20 => v1=16 v2=4 held
            scale 1 => v1=1 v2=0 held
            scale 10 => v1=8 v2=2 held
            resume => v2=10";
    // Held at a point of ten minutes; another point, without a duration, follows.
    an_untimed_point_survives_scaling_in_a_timed_hold:
        timed_before_untimed() =>
            "scale 2
            scale 10
            wait 3600, settle => held=mark v1>0" |
            "scale 0
            scale 10
            wait 3600, settle => held=mark v1>0";
    scaling_holds_at_no_point_of_a_set_that_is_being_deleted:
        ten() => "
            priorities 9 9 9 9 9, mark before #5, image v2 => held=mark
            priority 20 v2, broken v3, image v3 => free
            collect v1, scale 8 => free";
    a_set_that_is_being_deleted_costs_no_pod_of_another_in_a_hold:
        rolling(8, 2, 2, "") => "
            priorities 0 0 9 9 9 9 9 9, mark before #0 #1, broken v3, image v2 => held v1=2 v2=6
            image v3 => v1=2 v2>0
            pause, collect v2, settle => v1=2";
    replicas_changed_together_with_paused_are_scaled:
        ten() => "pause, scale 5 => active=5" | "pause, scale 14 => active=14";
    a_new_template_while_paused_at_no_replicas_restores_the_revision_that_served:
        held() => "
            pause
            scale 0
            image v3
            image v4
            scale 10 => v1=10 v2=0";
    // After the new template the pods of v2 are the old ones.
    a_new_template_while_paused_moves_no_pod:
        held() => "
            pause, scale 1 => v1=1 v2=0 deleted=11
            image v1 => v1=1 v2=0 deleted=11",
        // Nor of a set that had none before.
        rolling(0, 1, 0, "") => "
            image v2
            pause
            scale 1 => v2=1
            image v1 => v1=0 v2=1";
    a_pause_creates_no_surge_pod_after_the_surge_was_lowered:
        ten() => "
            broken v2, image v2
            pause
            bounds 0 1, delete #0 => v1=8 v2=2";
    updated_pods_beyond_the_replicas_go_also_if_no_status_says_that_there_were_more:
        rolling(4, 4, 0, "") => "
            broken v2, image v2 => v1=4 v2=4
            lose status, scale 2 => v1=2 v2=2";
    one_replica_keeps_the_last_old_pod_while_a_point_is_ahead:
        rolling(4, 1, 3, "most after 3") => "
            broken v2, image v2 => v1=1 v2=3 free
            scale 1, until active<=3 => v1=1";
    pods_lost_just_before_a_pause_are_replaced_in_it:
        rolling(4, 1, 0, ""), recreate(4, "") => "delete #0 #1, pause => v1=4";
    a_resume_while_paused_at_no_replicas_keeps_the_split:
        held() => "
            pause
            scale 0
            resume => free
            scale 10 => v1=8 v2=2";
    // The ceiling of eleven leaves room for one.
    replacements_in_a_hold_wait_for_terminating_pods_if_the_policy_says_so:
        held() => "
            await-ends, delete #3 #4 #5, rest => active=8
            settle => v1=8 v2=2";
    // There are five pods, and six are wanted.
    a_pause_that_begins_before_the_new_set_is_created_fills_the_largest_old_one:
        rolling(6, 2, 0, "") => "
            in-order, broken v2, image v2 => v1=6 v2=2
            delete 3 v1, pause, image v3 => v1=4 v2=2 v3=0";
    a_point_after_is_kept_when_scaling_deletes_the_pods_behind_it:
        rolling(4, 1, 1, "") => "
            priorities 9 5 4 3, mark after #2, broken v2, image v2 => v1=3 free
            scale 1 => held=mark
            mended, ready all => held v1>0";
    a_pause_scaled_to_zero_is_not_complete_and_keeps_its_old_set:
        rolling(10, 1, 1, "") => "
            history 0, broken v2, image v2 => v1=9 v2=2
            pause
            scale 0 => active=0 incomplete
            scale 10 => v1=8 v2=2";
}

#[test]
fn a_scale_down_deletes_the_first_of_the_order() {
    let mut cluster = ten();
    let name = cluster.pod(6).name.clone();
    cluster.play("priority 9 #6, scale 9 => complete");
    assert_eq!(cluster.deleted, [(name, Purpose::Scale)]);
    cluster.play("scale 12 => v1=12");
    // Also while paused, where two available pods are first in the order and few are available.
    let mut cluster = ten();
    let names = [0, 1].map(|index| (cluster.pod(index).name.clone(), Purpose::Scale));
    cluster.play("pause\n priorities 9 8, unready #2 #3 #4 #5 #6 #7 #8 #9, scale 8, step");
    assert_eq!(cluster.deleted, names);
}

#[test]
fn a_scale_up_in_a_rollout_creates_no_more_updated_pods_than_replicas() {
    let mut cluster = rolling(4, 4, 0, "");
    cluster.play(
        "broken v2, image v2 => v1=4 v2=4
         ready #5 #6 #7 => v1=1 v2=4
         scale 5",
    );
    assert!(cluster.deleted.iter().all(|(_, purpose)| *purpose == Purpose::Rollout), "{:?}", cluster.deleted);
}

#[test]
fn a_rollout_that_cannot_be_scaled_continues() {
    let mut cluster = ten();
    cluster.play("quota 11, image v2, step 2\n scale 11, until v1=0 ticking");
}

/// Old and new pods side by side, as a template that never becomes ready leaves them.
fn stuck(surge: i32, unavailable: i32) -> Cluster {
    let mut cluster = rolling(10, surge, unavailable, "");
    cluster.play("in-order, broken v2, broken v3, image v2\n image v3");
    cluster
}

/// The pods of each revision after the scaling of the sets, before the rollout continues.
fn scaled(cluster: &mut Cluster) -> [usize; 3] {
    for _ in 0..100 {
        let rollout = cluster.status().rollout.unwrap();
        if rollout.replicas == cluster.deployment.spec.replicas && rollout.scaled_from.is_none() {
            return ["v1", "v2", "v3"].map(|image| cluster.of_image(image));
        }
        cluster.step();
    }
    panic!("it is never scaled: {:#?}", cluster.status());
}

#[test]
fn interrupted_scaling_ends_in_the_same_split() {
    for (surge, unavailable) in [(1, 1), (3, 0), (5, 3)] {
        for replicas in [1, 2, 4, 7, 9, 11, 14, 20, 33] {
            let mut whole = stuck(surge, unavailable);
            whole.edit(|spec| spec.replicas = replicas);
            let expected = scaled(&mut whole);
            for breaks_after in 1..4 {
                let mut cluster = stuck(surge, unavailable);
                cluster.breaks_after = Some(breaks_after);
                cluster.edit(|spec| spec.replicas = replicas);
                assert_eq!(scaled(&mut cluster), expected, "{replicas} in steps of {breaks_after}");
            }
        }
    }
}

#[test]
fn if_only_pods_with_points_are_left_the_first_one_is_the_barrier() {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("priorities 9 8 7 6, mark before #0 #1 #2 #3, image v2, scale 2 => held v1>0");
    let hold = cluster.status().hold.unwrap();
    assert!(cluster.marked.contains(&hold.pod));
    assert!(cluster.active().any(|pod| pod.name == hold.pod), "the held pod goes last");
}

#[test]
fn the_split_over_old_sets_yields_to_the_points() {
    // Two pods of v1 stay at their points, beside pods of v2, and v3 never gets ready.
    let mut cluster = rolling(8, 2, 2, "");
    cluster.play(
        "priorities 0 0 9 9 9 9 9 9, mark before #0 #1, broken v3, image v2 => held v1=2 v2=6
         image v3 => v1=2 v2>0",
    );
    let deleted = cluster.deleted.len();
    cluster.play("scale 4 => v1=2");
    assert!(cluster.deleted[deleted..].iter().any(|(_, purpose)| *purpose == Purpose::Scale));
    // It becomes idle: no pod is created in one old set and deleted in the other.
    let before = (cluster.count, cluster.deleted.len());
    cluster.play("wait 5, settle");
    assert_eq!((cluster.count, cluster.deleted.len()), before);
}

#[test]
fn pods_that_scaling_deletes_from_several_sets_follow_one_order() {
    for end in ["settle", "broken v2, resume"] {
        let mut cluster = held();
        cluster.play(end);
        let priorities: Vec<i32> = (0..11).map(|index| index * 7 % 11).collect();
        let count = cluster.active().count();
        cluster.prioritize(&priorities[..count]);
        let before = cluster.deleted.len();
        cluster.play(&format!("scale 2, until deleted>{before}"));
        let priority = |name: &str| cluster.pods.iter().find(|pod| pod.name == name).unwrap().facts.priority;
        let gone: Vec<_> =
            cluster.deleted[before..].iter().map(|(name, _)| priority(name).unwrap()).collect();
        assert!(gone.len() > 6 && gone.is_sorted_by(|first, second| first >= second), "{gone:?}");
    }
}

#[test]
fn replicas_changed_together_with_the_end_of_a_hold_or_a_pause_are_scaled_in_proportion_first() {
    let mut paused = ten();
    paused.play("broken v2, image v2\n pause => v1=9 v2=2");
    for (mut cluster, end, pods) in [(held(), "resume", 4), (paused, "unpause", 5)] {
        let before = cluster.deleted.len();
        cluster.play(&format!("scale 5, {end}, rest"));
        let first = cluster.deleted[before..].iter().take(pods).map(|(_, purpose)| *purpose);
        assert_eq!(first.collect::<Vec<_>>(), vec![Purpose::Scale; pods], "six are left");
    }
}
