//! A rollout that cannot reach its pause point: only unavailable pods at or behind the point could be
//! deleted.

use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::names::condition;

use crate::model::Cluster;
use crate::play::{histories, rolling};

/// Ten pods with `maxUnavailable: 0`, the third one with a pause point, one of them unready.
fn blocked(side: &str, unready: usize, mode: &str) -> Cluster {
    let mut cluster = rolling(10, 1, 0, "");
    cluster.play(&format!("{mode}, priorities 9 8 7, mark {side} #2, unready #{unready}, image v2"));
    cluster
}

fn before() -> Cluster {
    blocked("before", 9, "unseen")
}

fn is_reported(cluster: &Cluster) -> bool {
    let is = cluster.is("Stalled=Blocked");
    let status = cluster.status().condition(condition::STALLED).unwrap().status;
    assert!(!is || status == ConditionStatus::True);
    is
}

fn wait_out_the_grace_time(cluster: &mut Cluster) {
    assert!(!is_reported(cluster), "a minute of grace");
    cluster.settle_when_asked();
    assert!(cluster.wake.is_some(), "it asks to be woken");
    cluster.play("wait 60, settle");
}

histories! {
    // No point is used up.
    a_blocked_rollout_continues_by_itself_and_still_pauses_at_its_point:
        before() => "ready #9 => held=mark deleted=2" | "
            wait 100, settle => Stalled=Blocked
            ready #9 => held=mark deleted=2 Stalled=NotStalled";
    a_resume_passes_the_point_only_while_the_condition_names_it:
        before() => "
            wait 60, settle => Stalled=Blocked
            resume web-other@2 => ResumeIgnored=1 Stalled=Blocked
            resume => complete PausePointReached=0" | "
            resume all => complete";
    // Two of the ten pods are unready: the surge is not used up.
    a_rollout_that_wants_no_more_updated_pods_is_blocked_below_the_ceiling_too:
        rolling(10, 3, 0, "") => "
            priorities 9 8, mark before #1, unready #8 #9, image v2
            wait 60, settle => Stalled=Blocked active=11";
}

#[test]
fn a_quota_blocks_at_no_pause_point() {
    let mut cluster = rolling(3, 1, 0, "");
    cluster.play("priorities 9 8 7, mark before #1, quota 3, image v2");
    for _ in 0..4 {
        cluster.play("settle, wait 60, settle");
    }
    assert!(!is_reported(&cluster), "no old pod is unavailable");
    assert_eq!(cluster.status().blocked, None);
    assert!(cluster.status().condition(condition::REPLICA_FAILURE).is_some(), "it tells of the quota");
}

#[test]
fn a_blocked_rollout_reports_it_after_a_minute_and_is_not_held() {
    for (side, mode, unready) in
        [("before", "unseen", 9), ("before", "in-order", 9), ("before", "unseen", 2), ("after", "unseen", 9)]
    {
        let mut cluster = blocked(side, unready, mode);
        wait_out_the_grace_time(&mut cluster);
        assert!(is_reported(&cluster));
        let id = format!("{}@2", cluster.marked[0]);
        let (message, unready) = (cluster.stalled(), cluster.pod(unready).name.clone());
        for part in [&id, &unready, "maxUnavailable", "undo web", &format!("resume web {id}")] {
            assert!(message.contains(part), "{part}: {message}");
        }
        cluster.play("=> free PausePointReached=0 deleted=0");
    }
}

#[test]
fn the_time_of_a_timed_point_does_not_run_while_the_rollout_is_blocked() {
    let mut cluster = before();
    cluster.play("mark before marked for 300, wait 1000, settle\n ready #9 => held=mark");
    let hold = cluster.status().hold.unwrap();
    assert_eq!(hold.until.unwrap().0.duration_since(hold.since.0).as_secs(), 300);
}

#[test]
fn a_resume_before_the_grace_time_is_over_is_ignored() {
    let mut cluster = before();
    cluster.play(&format!("resume {}@2 => ResumeIgnored=1 incomplete", cluster.marked[0].clone()));
    assert_eq!(cluster.status().passed, None);
}

#[test]
fn a_restart_does_not_restart_the_grace_time() {
    let mut cluster = before();
    for _ in 0..3 {
        cluster.play("wait 20, restart, rest");
    }
    assert!(is_reported(&cluster));
}

#[test]
fn a_hold_ends_what_was_blocked() {
    let mut cluster = before();
    wait_out_the_grace_time(&mut cluster);
    assert!(cluster.status().blocked.is_some());
    cluster.play("mark before #0, until held => held=mark");
    assert_eq!(cluster.status().blocked, None);
    cluster.play("settle => held=mark");
    assert!(!is_reported(&cluster));
}
