//! Pause points of pods: where a rollout pauses, and what makes it continue.

use std::time::Duration;

use ordereddeployment_api::names::condition;
use ordereddeployment_api::{Hold, PausePoint};
use ordereddeployment_planner::{Malformed, Point, Set, make_hashes_unique};

use crate::model::Cluster;
use crate::play::{histories, recreate, rolling};

/// Ten pods of priorities 5, 5, 3 and 0s, with a pause point on the 3.
fn ten(side: &str) -> Cluster {
    let mut cluster = rolling(10, 1, 1, "");
    cluster.play(&format!("priorities 5 5 3, mark {side} #2, image v2"));
    cluster
}

fn before() -> Cluster {
    ten("before")
}

fn hold(cluster: &Cluster) -> Hold {
    cluster.status().hold.unwrap()
}

/// Edits the annotations of the pod that was marked last.
fn annotate(cluster: &mut Cluster, point: &Point) {
    let name = cluster.marked.last().unwrap().clone();
    cluster.pods.iter_mut().find(|pod| pod.name == name).unwrap().point = point.clone();
}

fn timed(duration: Duration) -> Point {
    Point::At { side: PausePoint::Before, duration: Ok(Some(duration)) }
}

histories! {
    a_point_after_on_the_last_old_pod_holds_nothing:
        rolling(3, 1, 0, "") =>
            "priorities 0 0 -1, mark after #2, image v2 => complete PausePointReached=0";
    a_resume_naming_the_hold_continues_and_any_other_is_ignored_with_a_warning:
        before() => "
            resume web => held
            resume other@2 => held
            resume *@1 => held
            resume *@3 => held
            resume * => held ResumeIgnored=5
            resume => complete v2=10 PausePointResumed=1";
    a_resume_of_all_points_ends_this_hold_and_passes_all_later_points_of_the_rollout:
        // The next rollout holds again.
        before() => "
            mark before #7, resume all => complete
            mark before #4, image v3 => held";
    a_hold_stays_without_its_pod_and_replaces_lost_pods_in_every_set:
        before() => "
            delete marked => held=mark v1=8 v2=2
            resume => complete";
    an_undo_of_a_release_that_served_is_a_rollout_whose_own_points_hold:
        before() => "
            resume => complete
            mark before 1 v2, image v1 => held=mark revision=3";
    a_hold_stops_the_clock_of_the_progress_deadline_until_it_is_resumed:
        before() => "
            wait 3600, settle => Progressing=RolloutHeld
            broken v2, resume, wait 1, rest => Progressing=ReplicaSetUpdated";
    under_recreate_a_hold_keeps_no_more_than_replicas:
        recreate(10, "") => "
            priorities 5 5 3, mark before #2, image v2, scale 5 => v1=5 v2=0
            scale 0
            scale 5 => v1=5 v2=0";
    a_hold_that_leaves_all_pods_warns_of_nothing:
        recreate(3, "") => "priorities 5, mark before #0, image v2 => held HoldBelowReplicas=0";
    a_hold_replaces_its_last_old_pod_and_stays_without_an_old_set:
        // The set itself is deleted: nobody has passed the point.
        before() => "
            scale 1 => v1=1 v2=0
            delete all => v1=1 held
            delete set v1 => held
            resume => complete";
}

#[test]
fn a_point_holds_before_its_pod_or_once_it_is_deleted() {
    for (side, point, old) in [("before", PausePoint::Before, 8), ("after", PausePoint::After, 7)] {
        let mut cluster = ten(side);
        cluster.play("=> held=mark PausePointReached=1").play(&format!("=> v1={old} v2={}", 10 - old));
        let name = cluster.marked[0].clone();
        let hold = hold(&cluster);
        assert_eq!((hold.pod.as_str(), hold.point, hold.id), (&*name, point, format!("{name}@2")));
        assert_eq!(cluster.deleted.last().unwrap().0 == name, side == "after");
        assert!(cluster.message(condition::HELD).contains("kubectl ordered resume web"));
    }
}

#[test]
fn a_late_resume_never_skips_another_point() {
    let mut cluster = before();
    let first = hold(&cluster).id;
    cluster.play(&format!("mark before #2, resume {first} => held=mark"));
    cluster.play(&format!("resume {first} => held=mark ResumeIgnored=1"));
}

#[test]
fn a_hold_ends_when_its_annotation_is_removed_but_not_when_it_is_malformed_or_the_order_changes() {
    let mut cluster = before();
    cluster.play("priority -7 marked => held");
    for point in [Point::Malformed, Point::At { side: PausePoint::After, duration: Err(Malformed) }] {
        annotate(&mut cluster, &point);
        cluster.play("settle => held");
    }
    annotate(&mut cluster, &Point::None);
    cluster.play("settle => complete");
}

#[test]
fn a_timed_pause_follows_its_annotation_and_ends_by_itself_even_while_paused() {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("priorities 5, mark before #0 for 600, image v2");
    let hold = hold(&cluster);
    assert_eq!(hold.until.unwrap().0.as_second() - hold.since.0.as_second(), 600);
    annotate(&mut cluster, &timed(Duration::from_secs(60)));
    // `spec.paused` still holds when the pause point has ended.
    cluster.play(
        "pause, wait 30, settle => held
         wait 60, settle => free v2=0
         unpause => complete",
    );
}

#[test]
fn a_new_template_clears_the_hold_before_any_resume_and_holds_again() {
    let mut cluster = before();
    let id = hold(&cluster).id;
    cluster.play(&format!("image v3, resume {id} => held=mark ResumeIgnored=0"));
    assert_eq!(hold(&cluster).revision, 3);
}

#[test]
fn a_point_lost_before_it_was_reached_is_reported() {
    let mut cluster = rolling(10, 1, 1, "");
    cluster.play("priorities 5 5 3 0 0 0 0 0 0 -1, mark before #2 #9, image v2");
    assert!(cluster.events.iter().any(|event| event.message.contains("2 pause points")));
    cluster.play("delete marked => PausePointLost=1\n settle => PausePointLost=1");
}

#[test]
fn a_set_deleted_by_hand_ends_no_hold() {
    let mut cluster = before();
    let id = hold(&cluster).id;
    // Another template has had a collision since.
    cluster.deployment.status.get_or_insert_default().collision_count = Some(1);
    cluster.play("delete set v2 => v1=8 v2=2");
    assert_eq!(hold(&cluster).id, id);
}

#[test]
fn an_older_set_of_the_same_hash_that_is_being_deleted_ends_no_hold() {
    let mut cluster = before();
    let (hold, rollout) = (cluster.status().hold, cluster.status().rollout);
    let current = cluster.sets[1].clone();
    // It was adopted from another deployment.
    let older = Set {
        name: "api".to_owned(),
        uid: "older".into(),
        created: cluster.sets[0].created,
        replicas: 0,
        terminating: true,
        ..current
    };
    cluster.sets.push(older);
    make_hashes_unique(&mut cluster.sets);
    cluster.rest();
    assert_eq!((cluster.status().hold, cluster.status().rollout), (hold, rollout));
}

#[test]
fn unavailable_pods_ahead_of_the_point_are_deleted_before_the_rollout_counts_as_blocked() {
    let mut cluster = rolling(10, 1, 0, "");
    let second = cluster.pod(1).name.clone();
    cluster.play("priorities 9 8 7, mark before #2, unready #1 #9, image v2");
    assert_eq!(cluster.deleted[0].0, second);
}

#[test]
fn a_hold_begins_with_the_counts_that_it_was_decided_with() {
    let mut cluster = rolling(10, 1, 1, "canary after 1");
    // Who waits for the condition reads the counts next.
    cluster.play("image v2, until held ticking");
    let status = cluster.status();
    assert_eq!((status.updated_replicas, status.available_replicas), (Some(1), Some(10)));
    assert_eq!(status.unavailable_replicas, Some(0));
}

#[test]
fn a_hold_that_begins_with_its_rollout_does_not_say_that_the_new_template_is_complete() {
    // The conditions are those of the rollout before, until the first report.
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("priorities 5, mark before #0, image v2, until held");
    assert!(cluster.is_complete());
    assert!(cluster.status().observed_generation < cluster.deployment.metadata.generation);
    cluster.settle();
    assert!(!cluster.is_complete());
}

#[test]
fn the_end_of_a_pause_is_a_whole_second_and_never_too_early() {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("priorities 5, mark before #0, unseen");
    annotate(&mut cluster, &timed(Duration::from_millis(1500)));
    cluster.play("image v2, until held");
    let hold = hold(&cluster);
    assert_eq!(hold.until.unwrap().0.as_second() - hold.since.0.as_second(), 2);
    cluster.play("wait 1, rest => held\n wait 1, rest => free");
}

#[test]
fn a_malformed_duration_neither_ends_a_hold_nor_moves_its_end() {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("priorities 5, mark before #0 for 60, image v2");
    let until = hold(&cluster).until;
    annotate(&mut cluster, &Point::At { side: PausePoint::Before, duration: Err(Malformed) });
    cluster.settle();
    assert_eq!(hold(&cluster).until, until);
    // Without a duration it lasts until it is resumed.
    cluster.play("mark before marked");
    assert_eq!(hold(&cluster).until, None);
    assert!(cluster.message(condition::HELD).contains("until it is resumed"));
}
