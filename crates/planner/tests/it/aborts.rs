//! Aborts and retries of rollouts.

use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeploymentStatus};
use ordereddeployment_planner::{Decision, DryRun, Purpose};
use serde_json::json;

use crate::model::Cluster;
use crate::play::{histories, recreate, rolling};

/// Ten pods, held with three updated ones.
fn held() -> Cluster {
    let mut cluster = rolling(10, 1, 1, "canary after 3");
    cluster.play("image v2");
    cluster
}

fn is(cluster: &Cluster, type_: &str) -> (ConditionStatus, String) {
    let found = cluster.status().condition(type_).cloned().unwrap();
    (found.status, found.reason)
}

fn last_event(cluster: &Cluster) -> &str {
    &cluster.events.last().unwrap().message
}

histories! {
    // It can be aborted again, to the same revision.
    a_retry_starts_the_rollout_again_with_a_new_revision_and_its_pause_points:
        held() => "
            abort
            retry 1 => aborted
            retry 2 => unaborted held=canary@3 v1=7 v2=3 revision=3
            abort 3 => v1=10";
    // An undo to the revision of the abort is a rollout without an earlier one.
    a_new_template_ends_an_abort:
        held() => "
            abort, rest
            image v3 => unaborted held=canary@3
            resume => complete" | "
            abort, rest
            image v1 => complete unaborted v1=10";
    the_deadline_aborts_only_if_the_spec_asks_for_it:
        rolling(4, 1, 0, "") => "
            deadline 60, broken v2, image v2, wake => unaborted
            deadline 60 aborts, wake => aborted v1=4 v2=0";
    a_paused_rollout_is_not_aborted_by_the_deadline:
        rolling(4, 1, 0, "") => "
            deadline 60, broken v2, image v2, wake => Progressing=ProgressDeadlineExceeded
            pause, deadline 60 aborts, wake => unaborted";
    // It makes no updated pod before the point is passed.
    a_hold_under_recreate_is_not_aborted_by_the_deadline:
        recreate(4, "") => "
            priorities 5 4, mark after #1, deadline 60 aborts, image v2, wake => held=mark v1=2 v2=0
            wait 100, wake => unaborted held=mark Progressing=RolloutHeld";
    an_abort_does_not_wait_for_the_end_of_a_pause:
        held() => "
            pause
            abort => aborted v1=10 v2=0";
    scaling_during_an_abort_follows_the_replicas:
        held() => "
            abort, rest
            scale 4 => v1=4 v2=0
            scale 0 => v1=0 v2=0
            scale 7 => v1=7 v2=0";
    an_abort_to_a_set_that_is_being_deleted_is_refused:
        held() => "collect v1, abort 2, step => unaborted RequestIgnored=1 held=canary@2";
    // More pods are needed. Lost pods of the aborted revision do not come back.
    an_abort_creates_no_pods_of_the_aborted_revision:
        held() => "
            broken v1, abort, scale 20 => v1=18 v2=3
            delete 1 v2 => v1=19 v2=2
            scale 5 => v2=0";
    // A complete rollout keeps no old set. Old pods serve still; then a user removes them, and only the set
    // is left.
    the_set_of_the_last_complete_revision_is_kept_whatever_the_history_limit:
        rolling(3, 1, 0, "") => "
            history 0, image v2 => sets=1
            broken v3, image v3
            delete all
            abort => v2=3 v3=0";
}

#[test]
fn an_abort_rolls_back_to_the_last_complete_revision_and_keeps_the_spec() {
    let mut cluster = held();
    cluster.play("abort => v1=10 v2=0 Aborted=1");
    let status = cluster.status();
    let aborted = status.aborted.unwrap();
    assert_eq!((aborted.revision, aborted.to, aborted.reason.as_str()), (2, 1, "by request"));
    assert_eq!((status.hold, status.abort_requested), (None, None));
    // Only the pods of the spec's template count as updated: no tool takes the abort for a success.
    assert_eq!(status.updated_replicas, Some(0));
    assert_eq!(is(&cluster, condition::STALLED), (ConditionStatus::True, reason::ABORTED.to_owned()));
    assert_eq!(is(&cluster, condition::COMPLETE), (ConditionStatus::False, reason::ABORTED.to_owned()));
    assert_eq!(is(&cluster, condition::RECONCILING).0, ConditionStatus::False);
    let revisions: Vec<_> = cluster.sets.iter().map(|set| (cluster.image_of(set), set.revision)).collect();
    assert_eq!(revisions, [("v1".to_owned(), 1), ("v2".to_owned(), 2)]);
    // The deadline gives its reason.
    let mut cluster = rolling(4, 1, 0, "");
    cluster.play("deadline 60 aborts, broken v2, image v2, wake => aborted");
    assert!(cluster.status().aborted.unwrap().reason.contains("no progress for 60 seconds"));
}

#[test]
fn unavailable_pods_of_the_aborted_revision_go_first_and_no_pause_point_stops_it() {
    let mut cluster = held();
    cluster.play("mark before v2, unseen");
    let updated = cluster.marked.clone();
    for (name, priority) in updated.iter().zip([3, 2, 1]) {
        let pod = cluster.pods.iter_mut().find(|pod| pod.name == *name).unwrap();
        (pod.facts.priority, pod.facts.ready) = (Some(priority), priority > 1);
    }
    let before = cluster.deleted.len();
    cluster.play("abort");
    let expected = [2, 0, 1].map(|at: usize| (updated[at].clone(), Purpose::Rollout));
    assert_eq!(cluster.deleted[before..], expected);
}

#[test]
fn an_abort_of_another_revision_or_without_a_complete_one_is_refused_with_a_message() {
    let mut cluster = held();
    for revision in [1, 3] {
        cluster.play(&format!("abort {revision} => unaborted held"));
        assert_eq!(cluster.status().abort_requested, None);
        assert!(last_event(&cluster).contains("the rollout is to revision 2"), "{}", last_event(&cluster));
    }
    cluster.play("abort 2\n abort 2");
    assert!(last_event(&cluster).contains("aborted already"));

    let mut first = Cluster::new(&json!({"replicas": 3}));
    first.play("broken v1, settle\n abort 1");
    assert!(last_event(&first).contains("no revision was complete before"));

    let mut complete = rolling(3, 1, 0, "");
    complete.play("abort 1");
    assert!(last_event(&complete).contains("the rollout is complete"));
}

#[test]
fn an_abort_and_a_retry_clear_what_was_of_the_rollout() {
    let mut cluster = rolling(10, 1, 1, "canary after 1; half after 5");
    cluster.play("image v2\n resume => held=half@2");
    let edit = |cluster: &mut Cluster, edit: fn(&mut OrderedDeploymentStatus)| {
        let mut status = cluster.status();
        edit(&mut status);
        cluster.store(&status);
        cluster.step();
        let status = cluster.status();
        assert_eq!((status.hold, status.passed, status.blocked), (None, None, None));
        assert_eq!(
            (status.resume_requested, status.abort_requested, status.retry_requested),
            (None, None, None)
        );
        (status.aborted.is_some(), status.rollout.unwrap().points.unwrap())
    };
    let aborted = edit(&mut cluster, |status| {
        status.resume_requested = Some("half@2".to_owned());
        (status.abort_requested, status.retry_requested) = (Some(2), Some(1));
    });
    assert_eq!(aborted, (true, Vec::new()));
    cluster.settle();
    let (aborted, points) = edit(&mut cluster, |status| {
        status.resume_requested = Some("*@2".to_owned());
        status.retry_requested = Some(2);
    });
    let ids: Vec<_> = points.iter().map(|point| point.id.as_str()).collect();
    assert_eq!((aborted, ids), (false, vec!["canary@3", "half@3"]));
}

#[test]
fn nothing_moves_once_the_set_of_the_last_complete_revision_is_deleted() {
    let mut cluster = held();
    cluster.play("abort\n delete set v1 => active=0 Stalled=Aborted");
    assert!(cluster.stalled().contains("The set of revision 1 is gone"), "{}", cluster.stalled());
    // The point is ahead of the retry.
    cluster.play("retry 2 => held=canary@3\n resume => v2=10");
}

#[test]
fn a_finished_rollout_is_not_aborted_while_its_set_cannot_record_that_it_serves() {
    let mut cluster = rolling(4, 1, 0, "");
    cluster.play("deadline 60 aborts, image v2, until v1=0 ticking");
    for _ in 0..100 {
        // Each update of the set is refused, and the status is stored.
        cluster.tick(1);
        if let Decision::Act(act) = cluster.simulated.decide(|_| DryRun::Accepted).1 {
            cluster.simulated.store(&act.status);
        }
    }
    assert!(cluster.is("incomplete") && cluster.is("unaborted"), "{:?}", cluster.status());
    assert_eq!(is(&cluster, condition::STALLED).0, ConditionStatus::False);
    cluster.play("settle => complete");
}
