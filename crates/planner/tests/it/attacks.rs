//! Ways past a pause point, or into a standstill, that a review found.

use std::collections::BTreeSet;
use std::sync::Arc;

use ordereddeployment_api::{AheadPoint, Share, limits};
use ordereddeployment_sorter::NodeFacts;
use serde_json::json;

use crate::model::Cluster;
use crate::play::{histories, recreate, rolling};

/// All nodes exist.
fn all_nodes(mut cluster: Cluster) -> Cluster {
    cluster.nodes.insert("n3".into(), NodeFacts::default());
    cluster
}

const ZONES: &str = "zones between pool";
const GATE: &str = "gate before pool n1";
/// No node has it.
const NONE: &str = "gate before pool none";

histories! {
    the_time_of_a_hold_counts_from_its_begin_without_the_time_at_zero:
        rolling(4, 1, 1, "canary after 1 for 10m") => "
            image v2
            wait 300, scale 0
            wait 3600, points canary after 1 for 1h
            scale 4
            wait 600, settle => held
            wait 3000, settle => complete",
        // A duration that is added at zero.
        rolling(4, 1, 1, "canary after 1") => "
            image v2
            scale 0
            wait 7200, points canary after 1 for 10m
            scale 4
            wait 300, settle => held";
    an_invalid_list_stops_a_rollout_without_an_old_pod:
        rolling(1, 0, 1, "") => "
            image v2
            points a after 5; b after 3, lose all, image v1 => v1=0 v2=1";
    pods_without_a_node_are_one_group_until_one_has_a_node:
        rolling(3, 1, 0, ZONES) => "
            node - all, unready all, image v2 => held=zones@2 v2=0
            resume => complete";
    a_mark_on_the_first_pod_lets_no_updated_pod_be_when_others_are_lost:
        rolling(10, 1, 1, "") => "
            priorities 9, mark before #0, lose #6 #7 #8 #9, image v2 => held=mark v2=0";
    what_an_abort_goes_back_to_is_kept_until_another_revision_served:
        rolling(4, 1, 1, "") => "
            history 0, scale 0
            broken v2, image v2
            scale 4
            abort => v1=4 v2=0";
    who_waits_at_a_point_with_one_replica_is_not_aborted_by_the_deadline:
        rolling(1, 0, 1, "canary after 1") => "
            deadline 60 aborts, image v2
            wait 3600, settle => unaborted";
    pods_that_have_no_node_yet_do_not_hide_a_place:
        rolling(4, 1, 1, GATE), recreate(4, GATE) => "
            lose all, image v2, until active=4
            node - all, unready all, rest => held=gate@2 v2=0";
    a_set_that_is_gone_does_not_stop_the_way_back:
        rolling(4, 1, 1, "") => "
            image v2
            points canary after 1
            image v1
            image v2, step
            delete set v1 => free v2=4";
    a_lost_canary_comes_back_in_a_hold_with_an_invalid_list:
        rolling(10, 0, 1, "canary after 1") => "
            image v2
            points a after 5; b after 3
            lose 1 v2 => v1=9 v2=1";
    groups_of_nodes_are_ahead_when_no_pod_could_show_them:
        rolling(4, 1, 1, ZONES), recreate(4, ZONES) => "lose all, image v2 => held=zones@2 v1>0",
        rolling(4, 1, 1, "canary after 1") => "
            image v2
            scale 0
            points zones between pool
            scale 10 => held=zones@2";
    no_place_is_judged_empty_without_replicas:
        rolling(4, 1, 1, GATE) => "
            lose v1 on n1, scale 0, image v2
            scale 4 => held=gate";
    pods_without_a_node_count_as_behind_a_place_that_shows_one:
        rolling(10, 10, 0, GATE) => "node - all, node n1 #0, image v2 => held=gate@2 v2=0";
    a_new_template_with_another_list_keeps_a_suspension:
        rolling(4, 1, 1, "canary after 1") => "
            image v2
            scale 0
            points first after 1, image v3
            scale 4 => held=first@3 v3=1",
        // An invalid list hides the points.
        rolling(4, 1, 1, "canary after 1") => "
            image v2
            scale 0
            points canary after 5; b after 3
            image v3
            image v4
            points canary after 1
            scale 4 => held=canary@4 v4=1";
    lost_pods_are_of_what_served_while_templates_cannot_be_compared:
        rolling(4, 1, 1, "") => "
            compares, image v2
            pause, image v3
            silent, image v4, rest
            lose #3, rest => v1=0 v2=4";
    a_set_that_somebody_deletes_makes_no_way_back:
        rolling(4, 1, 1, "") => "
            image v2
            points canary after 1
            image v1 => held=canary@3
            delete set v2 => held=canary@3 v1=1";
    pods_that_are_missing_can_be_another_group_of_nodes:
        rolling(8, 2, 2, ZONES) => "
            nodes n0 n0 n0 n0 n0 n0 n1 n1, lose #6 #7, image v2 => held=zones@2 v2=6",
        // The same without replicas.
        rolling(4, 1, 1, ZONES) => "
            node n0 all, lose #2 #3, scale 0, image v2
            scale 4 => held=zones@2";
    a_suspension_that_ends_with_a_new_template_keeps_its_points:
        rolling(6, 1, 0, "") => "
            priorities 9 8 7, mark before #3, image v2
            scale 0
            scale 6, image v3 => held v3=3" | "
            priorities 9 8 7, mark before #3, image v2
            scale 0
            abort
            retry 2
            scale 6 => held v2=3";
    a_larger_number_does_not_count_while_it_may_be_that_of_another_template:
        rolling(10, 10, 0, "half after 1") => "
            compares, broken v2, image v2 => v2=1
            silent, points half after 9, image v3, rest => v2=1 v3=0";
    a_place_that_is_empty_stays_so_while_the_rollout_replaces_pods:
        all_nodes(recreate(4, NONE)) => "image v2 => complete made=8",
        all_nodes(rolling(1, 0, 1, NONE)) => "image v2 => complete made=2",
        all_nodes(rolling(10, 0, 1, NONE)) => "image v2 => complete made=20",
        all_nodes(rolling(4, 1, 0, NONE)) => "image v2 => complete made=8",
        // A bad canary there is no pod of the place either.
        all_nodes(rolling(10, 1, 0, NONE)) => "
            broken v2, image v2
            node n0 v1, node n1 v2, points gate before pool n1, image v3 => complete";
    the_time_of_a_hold_stands_still_while_one_replica_waits:
        rolling(4, 0, 1, "canary after 1 for 10m") => "
            image v2
            scale 1
            wait 3600, settle => v1=1 v2=0
            scale 4
            wait 660, settle => complete";
    a_second_push_under_recreate_does_not_stop_at_an_empty_place:
        all_nodes(recreate(4, "gate before pool none")), all_nodes(recreate(4, "gate between none")) => "
            image v2, rest => active=0
            image v3, rest => free v1=0
            settle => v3=4";
    an_abort_that_got_replicas_leaves_no_points_for_later:
        rolling(4, 1, 1, "") => "
            priorities 9 8, mark before #2, image v2 => held
            scale 0
            abort
            scale 4
            scale 0
            image v3
            scale 4 => free v3=4";
    a_mark_is_ahead_though_no_status_says_that_there_were_no_replicas:
        suspended_unstored() =>
            "scale 4, image v3 => held=mark v3=2" |
            "scale 0
            abort 2, step
            scale 4, image v3 => held=mark v3=2" |
            "scale 0
            abort 2, step
            scale 4, retry 2 => held=mark v2=2";
    a_rollout_that_begins_before_the_last_group_of_nodes_pauses_there:
        held_between_groups() =>
            "image v3 => held=zones.n2@3 v3=3" |
            "points gate between pool => held=gate.n2@2 v2=3" |
            "abort, step
            retry 2 => held=zones.n2@3 v2=3";
    fewer_replicas_in_the_same_edit_open_no_group_of_nodes:
        held_between_groups() => "scale 3, image v3 => held=zones.n2@3 v1=3",
        // The scale-down takes its share of both.
        held_between_groups() => "scale 3, points gate between pool => held=gate.n2@2 v1=1",
        held_between_groups() => "
            abort, step
            scale 3, retry 2 => held=zones.n2@3 v1=1";
    a_correction_goes_on_in_the_group_of_nodes_where_the_release_before_began:
        // After an abort, it begins with the group that comes first then.
        rolling(6, 1, 0, ZONES) => "
            v1 nodes n1 n1 n1 n2 n2 n2, broken v2, scale 8, image v2
            image v3 => held=zones.n2@3 v1=3
            abort
            v1 nodes n0 n0 n0 n0 n2 n2 n2 n2, image v4 => held=zones.n2@4 v1=4";
    groups_of_nodes_that_are_declared_in_a_rollout_are_all_ahead:
        rolling(6, 1, 0, "half after 3") => "
            v1 nodes n1 n1 n1 n2 n2 n2, image v2
            points zones between pool => held=zones.n1@2",
        rolling(6, 0, 1, "half after 3") => "
            v1 nodes n1 n1 n1 n2 n2 n2, image v2
            scale 1
            points zones between pool => held=zones*",
        recreate(6, "") => "
            v1 nodes n1 n1 n1 n2 n2 n2, priorities 5 5 5, mark before #3, image v2
            scale 3
            points zones between pool
            resume => held=zones*",
        // A correction of an undo to a revision that served long ago declares them.
        rolling(6, 1, 0, "") => "
            image v2
            image v3
            v3 nodes n1 n1 n1 n2 n2 n2, points half after 3, image v1
            v1 nodes n2 n2 n2, points zones between pool, image v4 => held=zones*";
    a_group_of_nodes_whose_point_is_stored_is_not_opened:
        held_between_groups() => "
            scale 0
            abort, step
            retry 2, scale 1
            v1 nodes n2 => held=zones.n2@3 v1=1";
    groups_by_another_label_without_a_pod_cause_no_hot_loop:
        held_between_groups() => "
            scale 0
            points zones between rack, scale 6 => held=zones active=6";
    a_correction_right_after_a_delete_opens_no_other_group_of_nodes:
        rolling(3, 1, 0, "") => "
            image v2
            image v3
            v3 nodes n0 n1 n2, points zones between pool, begin v1
            until v3<=2 ticking
            image v4 => held=zones.n1";
    the_open_group_of_nodes_stays_once_a_pod_is_missing:
        begun_in_three_groups() =>
            // It is blocked, and its pod is drained.
            "unready #1, step
            lose #0, mended => held=zones.n1@2" |
            // It is paused meanwhile.
            "pause, step
            lose #0, mended
            unpause => held=zones.n1@2" |
            // It is scaled down and up again.
            "scale 2
            mended
            scale 3 => held=zones.n1@2";
    a_place_that_comes_back_after_a_number_is_another_point:
        rolling(1, 1, 0, "gate before priority -1") => "
            image v2, step
            points gate after 1, lose all, step
            points gate before priority 0 => held=gate@2.3 v2=0";
    a_correction_keeps_a_place_whose_pod_is_missing:
        rolling(4, 1, 0, GATE) => "
            v1 nodes n0 n0 n0 n1, broken v2, begin v2
            lose v1 on n1, image v3
            points gate before pool n1 => held=gate" | "
            v1 nodes n0 n0 n0 n1, broken v2, begin v2
            lose v1 on n1, points other before priority 0; other after 1, image v3
            points gate before pool n1 => held=gate";
    a_place_that_was_counted_without_replicas_keeps_its_number:
        rolling(2, 1, 0, "gate before priority 0") => "
            priorities 1 0, scale 0, image v2, step
            scale 2 => held=gate@2 v2=0",
        // A correction counts it.
        rolling(10, 1, 1, "gate before priority 0") => "
            priorities 1 1 1 1 1 0 0 0 0 0, scale 0, image v2, step
            scale 10 => held=gate@2 v2=0
            image v3 => held=gate@3 v3=5";
    pods_of_a_rejected_release_take_the_place_of_no_lost_ones:
        rolling(10, 1, 1, "canary after 1") => "
            image v2
            lose v1, image v3 => held=canary@3 v2=1
            image v2 => held=canary@4 v2=1" | "
            image v2
            lose v1, image v3, scale 20 => held=canary@3 v2=1
            image v2 => held=canary@4 v2=1";
    more_replicas_and_an_invalid_list_make_no_updated_pods:
        rolling(3, 1, 1, "canary after 1") => "
            image v2
            points canary after 5; other after 3
            abort, step
            retry 2
            scale 12
            points canary after 1 => held=canary v2=1" | "
            image v2
            points canary after 5; other after 3
            image v3, step
            image v2
            scale 12
            points canary after 1 => held=canary v2=1";
    a_number_is_ahead_of_a_retry_however_many_pods_are_updated:
        rolling(10, 1, 0, "half after 50%") => "
            image v2
            broken v1, unready v1, abort, scale 2
            retry 2
            scale 10 => held=half@3 v2<=5";
    before_a_revision_has_served_no_rejected_release_grows:
        first_release_that_never_served() => "
            image v3
            lose 1 v1, scale 12 => held=canary v1=10 v2=1 v3=1";
    a_status_that_is_lost_without_replicas_keeps_the_canary_ahead:
        rolling(4, 1, 1, "canary after 1") => "
            image v2
            scale 0
            lose status
            scale 4 => held=canary v2=1";
    a_release_that_somebody_took_back_gets_no_more_pods_and_has_its_points_again:
        rolling(1, 1, 0, "canary after 1"), rolling(2, 1, 0, "canary after 1") => "
            image v2 => held
            image v1, step
            scale 10 => complete v1=10 v2=0
            image v2 => held=canary@4 v2=1";
    going_back_makes_no_pod_of_a_retired_revision:
        rolling(1, 1, 0, "") => "
            image v2
            points canary after 1
            refused v3, image v3
            image v2 => complete v1=0 v2=1
            deadline 600 aborts, image v4
            broken v2, image v2, lose all, wake => unaborted v1=0";
    // A pod is lost just before, or all are. More replicas come with the image.
    missing_pods_count_as_behind_a_place:
        rolling(10, 10, 0, "gate before priority 100") => "lose #0, image v2 => held=gate@2 v2=0",
        rolling(4, 1, 1, "gate before priority 100") => "lose all, image v2 => held=gate@2 v2=0",
        rolling(10, 5, 1, "gate before priority 100") => "scale 20, image v2 => held=gate@2 v2=0";
    no_hold_begins_at_a_number_that_an_invalid_list_hides:
        rolling(10, 0, 1, "half after 5 for 10m") => "
            begin v2, wait 0, unseen
            points a after 5; b after 3 => free
            wait 900, points half after 5 for 10m => held=half@2 v2=5";
    going_back_replaces_lost_pods_while_paused_too:
        rolling(4, 1, 1, ""), recreate(4, "") => "
            image v2, step
            pause, image v1, step
            lose all => v1=4";
    missing_pods_can_be_a_group_of_nodes_beside_nodes_without_the_label:
        rolling(8, 2, 2, "zones between zone") => "lose #6 #7, image v2 => held=zones@2";
    an_old_revision_that_comes_back_without_replicas_can_be_aborted:
        rolling(4, 1, 1, "") => "
            image v2
            scale 0
            deadline 60, history 0, image v1
            broken v1, scale 4
            wait 90, settle => Progressing=ProgressDeadlineExceeded
            abort 3 => v1=0 v2=4";
    no_rejected_release_grows_where_the_first_one_comes_back:
        // Those that come back get ready.
        first_release_that_never_served() => "
            mended, image v1, scale 8 => v1=3 v2=1 Stalled=NoEarlierRevision
            lose v1
            resume => v1=8 v2=0";
    no_template_gets_past_its_points_by_going_back_without_replicas:
        rolling(4, 1, 1, "canary after 1") => "
            image v2
            scale 0
            image v1
            image v2
            scale 4 => held=canary@4 v2=1";
}

#[test]
fn a_revision_that_somebody_gives_a_set_takes_no_point_away() {
    let mut cluster = rolling(6, 1, 1, "");
    cluster.play(
        "priorities 9 8 7, mark before #2, image v2 => held=mark
         lose marked, unseen",
    );
    cluster.sets[0].revision = 100;
    let id = format!("{}@101", cluster.marked[0]);
    cluster.play("settle").play(&format!("=> held={id} v2=2"));
}

#[test]
fn many_marks_beside_a_point_or_a_pod_of_the_same_name_hold_one_by_one() {
    let mut cluster = rolling(80, 1, 1, "canary after 1");
    // An adopted pod can have any name. The observer knows points by their names.
    cluster.forged = true;
    cluster.pod(3).name = "canary".to_owned();
    let marked: Vec<_> = (0..70).map(|at| format!("#{at}")).collect();
    cluster.play(&format!("mark before {}, image v2", marked.join(" ")));
    let holds = cluster.resume_all("v2");
    cluster.play("=> complete");
    let unique: BTreeSet<_> = holds.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(unique.len(), holds.len());
    for id in ["canary@2", "canary@2.2", "more@2"] {
        assert!(unique.contains(id), "{id}: {unique:?}");
    }
}

#[test]
fn more_is_no_name_of_a_declared_point() {
    let mut cluster = rolling(3, 1, 1, "more after 1");
    cluster.play("image v2 => v2=0");
    assert!(cluster.stalled().contains("choose another name"), "{}", cluster.stalled());
}

#[test]
fn a_forged_time_of_a_hold_is_no_overflow() {
    let mut cluster = rolling(4, 1, 1, "canary after 1");
    cluster.play("image v2");
    for elapsed in [i64::MIN, i64::MAX] {
        let hold = cluster.deployment.status.as_mut().unwrap().hold.as_mut().unwrap();
        hold.elapsed = Some(elapsed);
        cluster.play("settle => held");
    }
    let points = cluster.deployment.status.as_mut().unwrap().rollout.as_mut().unwrap();
    let share = Some(Share { limit: i32::MAX, replicas: i32::MAX });
    points.points.as_mut().unwrap().push(AheadPoint { id: "x@2".into(), share, ..AheadPoint::default() });
    cluster.settle();
}

#[test]
fn a_mark_with_a_smaller_number_takes_the_place_of_a_larger_one() {
    let mut cluster = rolling(80, 1, 1, "");
    let priorities: Vec<i32> = (0..80).rev().collect();
    cluster.prioritize(&priorities);
    let marked: Vec<_> = (10..75).map(|at| format!("#{at}")).collect();
    cluster.play(&format!("mark before {}, image v2, step", marked.join(" ")));
    cluster.play("mark before #5 => PausePointsJoined=1 held=mark v2=5");
    let holds = cluster.resume_all("v2");
    cluster.play("=> complete");
    let ids: BTreeSet<_> = holds.iter().map(|(id, _)| id).collect();
    assert!(ids.len() >= 65 && ids.len() == holds.len(), "{holds:?}");
}

#[test]
fn more_groups_than_the_status_keeps_stop_nothing_else() {
    let mut cluster = rolling(1030, 1, 1, "hosts between host");
    cluster.forged = true;
    for at in 0..cluster.pods.len() {
        let node: Arc<str> = format!("h{at:04}").into();
        let labels = [("host".to_owned(), node.to_string())].into();
        cluster.nodes.insert(Arc::clone(&node), NodeFacts { labels, ..Default::default() });
        cluster.pods[at].facts.node = Some(node);
    }
    cluster.play("image v2, step 6");
    let points = cluster.status().rollout.unwrap().points.unwrap();
    assert!(points.len() <= limits::POINTS, "{}", points.len());
}

/// Held at a mark of two of four pods, and scaled to 0; the pods are gone, and the status does not say so.
fn suspended_unstored() -> Cluster {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("priorities 9 8, mark before #2, image v2 => held");
    let status = cluster.deployment.status.clone();
    cluster.play("scale 0");
    cluster.deployment.status = status;
    assert_eq!(cluster.pods.len(), 0);
    cluster
}

/// Three pods, each in another group of nodes, and the first one of v2, which never gets ready.
fn begun_in_three_groups() -> Cluster {
    let mut cluster = rolling(3, 1, 0, ZONES);
    cluster.play("v1 nodes n0 n1 n2, broken v2, begin v2");
    cluster
}

/// Six pods in the groups of nodes n1 and n2; the rollout to v2 is held before n2.
fn held_between_groups() -> Cluster {
    let mut cluster = rolling(6, 1, 0, ZONES);
    cluster.play("nodes n1 n1 n1 n2 n2 n2, image v2 => held=zones.n2@2 v1=3");
    cluster
}

#[test]
fn one_group_of_nodes_is_open_also_if_pods_get_their_nodes_later() {
    let mut cluster = rolling(4, 1, 0, ZONES);
    cluster.play("node - all, quota 4, image v2, step");
    for (at, node) in ["n2", "n2", "n1", "n0"].into_iter().enumerate() {
        cluster.play(&format!("node {node} #{at}, step"));
    }
    cluster.play("quota none");
    let holds = cluster.resume_all("v1");
    let between: Vec<_> = holds.iter().filter(|(id, _)| id.contains(".n")).collect();
    assert_eq!(between.len(), 2, "{holds:?}");
}

#[test]
fn a_group_of_nodes_that_shows_once_a_pod_is_updated_is_the_open_one() {
    let mut cluster = rolling(6, 1, 0, ZONES);
    cluster.play("v1 nodes n1 n1 n2 n2 - -, begin v2\n node n0 #4 #5");
    assert_eq!(cluster.resume_all("v1"), [("zones.n1@2".to_owned(), 4), ("zones.n2@2".to_owned(), 2)]);
}

#[test]
fn groups_by_another_label_are_other_ones() {
    let mut cluster = held_between_groups();
    for (node, rack) in [("n1", "n2"), ("n2", "n1")] {
        cluster.nodes.get_mut(node).unwrap().labels.insert("rack".into(), rack.into());
    }
    cluster.play("points zones between rack, image v3 => held=zones.n1@3 v1=3");
    // Also in an invalid list.
    let mut cluster = held_between_groups();
    cluster.play("resume, step");
    for node in ["n1", "n2"] {
        cluster.nodes.get_mut(node).unwrap().labels.insert("rack".into(), node.into());
    }
    cluster.play(
        "points zones between rack; four after 4; five after 3
         points zones between rack; four after 4; five after 5 => held=zones.n2",
    );
}

#[test]
fn a_share_that_is_paused_is_that_of_the_pods_that_are_there() {
    rolling(10, 1, 1, "").play(
        "image v2, until v1<=5 ticking => v2=5
         pause, scale 4 => v1=2 v2=2
         scale 10 => v1=5 v2=5",
    );
    // One updated pod beside an old one is half of the pods.
    for (replicas, surge) in [(2, 2), (1, 1)] {
        let mut cluster = rolling(replicas, surge, 0, "");
        cluster.play("broken v2, image v2").play(&format!("=> v1={replicas} v2={replicas}"));
        cluster.play("pause\n scale 10 => v1=5 v2=5");
    }
}

#[test]
fn pods_that_are_made_when_a_rollout_begins_can_be_of_the_first_group_of_nodes() {
    let mut cluster = rolling(6, 1, 0, ZONES);
    cluster.place("v1", &["n1", "n1", "n1", "n2", "n0", "n0"]);
    let known: Vec<_> = cluster.pods.iter().map(|pod| pod.name.clone()).collect();
    cluster.pods.truncate(4);
    cluster.set_image("v2");
    for _ in 0..100 {
        cluster.step();
        for at in 0..cluster.pods.len() {
            if !known.contains(&cluster.pods[at].name) {
                let node = if cluster.image(&cluster.pods[at]) == "v1" { "n0" } else { "n2" };
                cluster.pods[at].facts.node = Some(node.into());
            }
        }
        cluster.tick(1);
    }
    cluster.settle();
    let holds = cluster.resume_all("v2");
    assert_eq!(holds.first().map(|(id, _)| id.as_str()), Some("zones.n1@2"), "{holds:?}");
}

/// Four pods of a first release that does not get ready, and a canary of v2, which the next template
/// replaces.
fn first_release_that_never_served() -> Cluster {
    let strategy = rolling(4, 1, 0, "canary after 1").deployment.spec.strategy.clone();
    let mut cluster = Cluster::new(&json!({"replicas": 4, "strategy": strategy}));
    cluster.play("broken v1, settle\n image v2 => held=canary");
    cluster
}

#[test]
fn no_rejected_release_takes_the_place_of_a_set_that_somebody_deleted() {
    for image in ["v1", "v3"] {
        let mut cluster = rolling(10, 1, 1, "canary after 1");
        cluster.play("image v2\n delete set v1 => Stalled=NoEarlierRevision");
        cluster.forged = true;
        cluster.play(&format!("image {image}, scale 20 => v2<=1"));
    }
}

#[test]
fn a_pod_of_a_scale_up_does_not_hide_that_one_of_the_open_group_is_missing() {
    let mut cluster = rolling(3, 1, 0, ZONES);
    cluster.play("v1 nodes n0 n1 n2, broken v2, begin v2");
    let known: Vec<_> = cluster.pods.iter().map(|pod| pod.name.clone()).collect();
    cluster.play("scale 6, until v1>3\n lose 1 v1 on n0, unseen");
    for pod in cluster.pods.iter_mut().filter(|pod| !known.contains(&pod.name)) {
        pod.facts.node = Some("n2".into());
    }
    cluster.play("mended, settle");
    let holds = cluster.resume_all("v2");
    assert_eq!(holds.first().map(|(id, _)| id.as_str()), Some("zones.n1@2"), "{holds:?}");
}

#[test]
fn a_late_resume_passes_no_point_of_another_template_however_many_were_set_while_paused() {
    let mut cluster = rolling(4, 1, 1, "gate before priority 1000");
    cluster.play("pause, unseen");
    for number in 2..=40 {
        cluster.play(&format!("image v{number}"));
    }
    let id = cluster.status().hold.unwrap().id;
    cluster.play("image other").play(&format!("resume {id}")).play("unpause => held=gate");
    assert_eq!(cluster.of_image("other"), 0);
}

#[test]
fn a_revision_without_an_available_pod_ends_no_group_of_nodes() {
    let mut cluster = recreate(4, ZONES);
    cluster.play("v1 nodes n1 n1 n2 n2, broken v2, image v2");
    assert_eq!(cluster.resume_all("v1").len(), 1);
    cluster.play("v2 nodes n0 n0 n2 n2, image v3 => held=zones.n0@3 v2=4");
}

#[test]
fn a_pause_counts_while_templates_cannot_be_compared() {
    let mut cluster = rolling(10, 1, 1, "");
    cluster.play(
        "compares, image v2, until v2>2 ticking
         silent, pause, image v3, unseen",
    );
    for _ in 0..4 {
        cluster.play("lose 1 v1, unseen");
        for _ in 0..10 {
            cluster.step();
            cluster.tick(1);
        }
    }
    cluster.play("=> v2=3 v3=0");
}
