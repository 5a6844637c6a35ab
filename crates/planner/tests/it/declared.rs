//! Declared pause points: where a rollout pauses, and what scaling, edits and lost pods do to them.

use ordereddeployment_api::names::condition;
use ordereddeployment_planner::rollout_order;

use crate::play::{histories, rolling};

const TWO: &str = "canary after 1; half after 50%";

histories! {
    a_number_and_a_percentage_pause_with_so_many_updated_pods_and_all_replicas:
        // The points of a complete rollout are forgotten: the next one pauses again.
        rolling(12, 1, 1, "canary after 1; quarter after 25%") => "
            image v2 => held=canary@2 v1=11 v2=1
            resume => held=quarter@2 v1=9 v2=3
            resume => complete PausePointReached=2
            image v3 => held=canary@3";
    the_first_creation_meets_no_point:
        rolling(4, 1, 1, "canary after 1; all before priority 9") => "settle => complete PausePointReached=0";
    a_number_is_reached_only_when_its_updated_pods_are_available:
        rolling(4, 1, 1, "canary after 1") => "
            broken v2, image v2 => free v1=3 v2=1
            mended, ready all => held=canary@2 v1=3 v2=1";
    a_point_before_a_priority_pauses_before_the_first_pod_of_that_priority_or_a_lower_one:
        rolling(6, 1, 1, "leaders before priority 1") =>
            "priorities 5 5 3 1 0 -2, image v2 => held=leaders@2 v1=3 v2=3";
    points_at_one_place_pause_in_the_order_of_the_list_and_before_the_point_of_the_pod:
        rolling(4, 1, 1, "two after 2; low before priority 0") => "
            priorities 5 5 0 -1, mark before #2, image v2 => held=two@2 v1=2 v2=2
            resume => held=low@2 v1=2 v2=2
            resume => held=mark v1=2 v2=2
            resume => complete";
    a_percentage_follows_the_replicas_while_it_is_ahead_and_in_a_hold:
        rolling(10, 1, 1, "canary after 1; quarter after 25%") => "
            image v2
            scale 20 => held=canary@2 v1=19 v2=1
            resume => held=quarter@2 v1=15 v2=5
            scale 40 => held=quarter@2 v1=30 v2=10
            scale 10 => held=quarter@2 v1=7 v2=3
            scale 4 => held=quarter@2 v1=3 v2=1
            scale 1 => held=quarter@2 v1=1 v2=1
            scale 10 => held=quarter@2 v1=7 v2=3";
    // Of equal numbers, the first of the list.
    scaling_a_running_rollout_passes_no_point:
        rolling(10, 1, 1, "half after 5; low before priority -1") => "
            priorities 0 0 0 0 0 0 0 0 -1 -1, image v2, until v2>3 ticking
            scale 2 => held=half@2 v1=1 v2=1
            resume => held=low@2 v1=1 v2=1";
    removing_the_held_point_ends_the_hold_and_editing_it_does_not:
        rolling(10, 1, 1, "canary after 2") => "
            image v2
            points canary after 80% => held=canary@2 v1=8 v2=2
            points => complete";
    a_new_point_whose_number_is_exceeded_is_ahead:
        rolling(10, 1, 1, "half after 5") => "
            image v2
            points canary after 1; half after 5; most after 8 => held=half@2 v1=5 v2=5
            resume => held=canary@2 v1=5 v2=5
            resume => held=most@2 v1=2 v2=8",
        // It brings no old pod back: both pods are updated.
        rolling(1, 1, 0, "") => "
            image v2, lose #0, step
            scale 2
            points canary after 1 => deleted=0 active=2";
    an_undo_in_the_middle_goes_back_without_a_pause:
        rolling(10, 1, 1, TWO) => "
            image v2
            resume => held=half@2 v1=5 v2=5
            image v1 => complete v1=10";
}

#[test]
fn a_point_before_nodes_pauses_before_their_first_pod() {
    let mut cluster = rolling(6, 1, 1, "pool before pool n2");
    cluster.play("nodes n0 n0 n1 n2 n2 n3, priorities 6 5 4 3 2 1, image v2 => held=pool@2 v1=3 v2=3");
    assert_eq!(cluster.status().hold.unwrap().node.as_deref(), Some("n2"));
}

#[test]
fn groups_of_nodes_go_one_after_the_other_and_the_rollout_pauses_between_them() {
    let mut cluster = rolling(6, 1, 1, "each between pool");
    cluster.play("nodes n2 n0 n3 n1 n0 n2, image v2 => held=each.n1@2 v1=4 v2=2");
    let mut snapshot = cluster.observed();
    snapshot.nodes = cluster.nodes.iter().map(|(name, facts)| (name.clone(), Some(facts.clone()))).collect();
    let why = rollout_order(&snapshot).places.into_iter().map(|place| place.why.to_string());
    assert_eq!(
        why.collect::<Vec<_>>(),
        [
            "priority 0, n1 before n2",
            "priority 0, tie: UID",
            "priority 0, n2 before no group",
            "priority 0, last"
        ]
    );
    // The node n3 is gone: its pods have no group, and are last.
    cluster.play(
        "resume => held=each.n2@2 v1=3 v2=3
         resume => held=each@2 v1=1 v2=5
         resume => complete",
    );
}

#[test]
fn a_hold_is_in_the_history_and_its_condition_says_how_to_resume_it() {
    let mut cluster = rolling(4, 1, 1, "canary after 1");
    cluster.play("image v2");
    let message = cluster.message(condition::HELD);
    assert!(message.starts_with("Paused at pause point canary, rollout to revision 2"), "{message}");
    assert!(message.contains("kubectl ordered resume web"), "{message}");
    cluster.play("resume");
    let history = cluster.status().history.unwrap();
    let entries: Vec<_> =
        history.iter().map(|entry| format!("{:?} {}", entry.action, entry.id.clone().unwrap())).collect();
    assert_eq!(entries, ["Held canary@2", "Resumed canary@2"]);
    assert_eq!(history[1].reason, "by request");
}
