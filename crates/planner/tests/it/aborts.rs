//! Aborts and retries of rollouts.

use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeploymentStatus, ProgressDeadlineAction};
use ordereddeployment_planner::Purpose;
use serde_json::json;

use crate::model::Cluster;

/// Ten pods, held with three updated ones.
fn held() -> Cluster {
    let mut cluster = Cluster::running(&json!({
        "replicas": 10,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1},
            "pausePoints": [{"name": "canary", "afterUpdated": 3}],
        },
    }));
    cluster.set_image("v2");
    cluster.settle();
    cluster
}

fn is(cluster: &Cluster, type_: &str) -> (ConditionStatus, String) {
    let found = cluster.status().condition(type_).cloned().unwrap();
    (found.status, found.reason)
}

#[test]
fn an_abort_rolls_back_to_the_last_complete_revision_and_keeps_the_spec() {
    let mut cluster = held();
    cluster.request_abort(2);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (10, 0));
    let status = cluster.status();
    let aborted = status.aborted.unwrap();
    assert_eq!((aborted.revision, aborted.to, aborted.reason.as_str()), (2, 1, "by request"));
    assert_eq!((status.hold, status.abort_requested), (None, None));
    // Only the pods of the spec's template count as updated: no tool takes the abort for a success.
    assert_eq!(status.updated_replicas, Some(0));
    assert_eq!(is(&cluster, condition::STALLED), (ConditionStatus::True, reason::ABORTED.to_owned()));
    assert_eq!(is(&cluster, condition::COMPLETE), (ConditionStatus::False, reason::ABORTED.to_owned()));
    assert_eq!(is(&cluster, condition::RECONCILING).0, ConditionStatus::False);
    assert_eq!(cluster.count_events(reason::ABORTED), 1);
    let revisions: Vec<_> = cluster.sets.iter().map(|set| (cluster.image_of(set), set.revision)).collect();
    assert_eq!(revisions, [("v1".to_owned(), 1), ("v2".to_owned(), 2)]);
}

#[test]
fn unavailable_pods_of_the_aborted_revision_go_first_and_no_pause_point_stops_it() {
    let mut cluster = held();
    let updated: Vec<_> =
        cluster.active().filter(|pod| cluster.image(pod) == "v2").map(|pod| pod.name.clone()).collect();
    for (index, name) in updated.iter().enumerate() {
        let pod = cluster.pods.iter_mut().find(|pod| pod.name == *name).unwrap();
        pod.facts.priority = Some(3 - i32::try_from(index).unwrap());
        pod.point = ordereddeployment_planner::Point::At {
            side: ordereddeployment_api::PausePoint::Before,
            duration: Ok(None),
        };
        pod.facts.ready = index != 2;
    }
    let before = cluster.deleted.len();
    cluster.request_abort(2);
    cluster.settle();
    let deleted: Vec<_> =
        cluster.deleted[before..].iter().map(|(name, purpose)| (name.as_str(), *purpose)).collect();
    let expected = [&updated[2], &updated[0], &updated[1]].map(|name| (name.as_str(), Purpose::Rollout));
    assert_eq!(deleted, expected);
}

#[test]
fn an_abort_of_another_revision_or_without_a_complete_one_is_refused_with_a_message() {
    let mut cluster = held();
    for (revision, why) in [(1, "the rollout is to revision 2"), (3, "the rollout is to revision 2")] {
        cluster.request_abort(revision);
        cluster.settle();
        let status = cluster.status();
        assert_eq!((status.aborted, status.abort_requested), (None, None));
        assert!(status.hold.is_some());
        assert!(cluster.events.last().unwrap().message.contains(why), "{:?}", cluster.events.last());
    }
    cluster.request_abort(2);
    cluster.settle();
    cluster.request_abort(2);
    cluster.settle();
    assert!(cluster.events.last().unwrap().message.contains("aborted already"));

    let mut first = Cluster::new(&json!({"replicas": 3}));
    first.broken.insert("v1".to_owned());
    first.settle();
    first.request_abort(1);
    first.settle();
    assert!(first.events.last().unwrap().message.contains("no revision was complete before"));

    let mut complete = Cluster::running(&json!({"replicas": 3}));
    complete.request_abort(1);
    complete.settle();
    assert!(complete.events.last().unwrap().message.contains("the rollout is complete"));
}

#[test]
fn a_resume_in_an_abort_is_dropped() {
    let mut cluster = held();
    cluster.request_abort(2);
    cluster.rest();
    cluster.request_resume("*@2");
    cluster.settle();
    assert_eq!(cluster.of_image("v1"), 10);
    assert_eq!(cluster.count_events(reason::RESUME_IGNORED), 1);
}

#[test]
fn a_retry_starts_the_rollout_again_with_a_new_revision_and_its_pause_points() {
    let mut cluster = held();
    cluster.request_abort(2);
    cluster.settle();
    cluster.request_retry(1);
    cluster.settle();
    assert!(cluster.status().aborted.is_some(), "another revision");
    cluster.request_retry(2);
    cluster.settle();
    assert_eq!(cluster.status().aborted, None);
    assert_eq!(cluster.status().hold.unwrap().id, "canary@3");
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (7, 3));
    assert_eq!(cluster.sets[1].revision, 3);
    // It can be aborted again, to the same revision.
    cluster.request_abort(3);
    cluster.settle();
    assert_eq!(cluster.of_image("v1"), 10);
}

#[test]
fn a_new_template_ends_an_abort() {
    let mut cluster = held();
    cluster.request_abort(2);
    cluster.rest();
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!(cluster.status().aborted, None);
    assert_eq!(cluster.status().hold.unwrap().id, "canary@3");
    cluster.resume();
    cluster.settle();
    assert!(cluster.is_complete());
    // An undo to the revision of the abort is a rollout without an earlier one.
    let mut cluster = held();
    cluster.request_abort(2);
    cluster.rest();
    cluster.set_image("v1");
    cluster.settle();
    assert!(cluster.is_complete());
    assert_eq!((cluster.status().aborted, cluster.of_image("v1")), (None, 10));
}

#[test]
fn the_deadline_aborts_if_the_spec_asks_for_it() {
    let mut cluster = Cluster::running(&json!({
        "replicas": 4, "progressDeadlineSeconds": 60, "progressDeadlineAction": "Abort",
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
    }));
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle_when_asked();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (4, 0));
    assert!(cluster.status().aborted.unwrap().reason.contains("no progress for 60 seconds"));
    // Without it the rollout only reports.
    let mut cluster = Cluster::running(&json!({"replicas": 4, "progressDeadlineSeconds": 60}));
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle_when_asked();
    assert_eq!(cluster.status().aborted, None);
    cluster.edit(|spec| spec.progress_deadline_action = ProgressDeadlineAction::Abort);
    cluster.settle_when_asked();
    assert_eq!(cluster.of_image("v1"), 4);
}

#[test]
fn a_paused_rollout_is_not_aborted_by_the_deadline() {
    let mut cluster = Cluster::running(&json!({"replicas": 4, "progressDeadlineSeconds": 60}));
    cluster.broken.insert("v2".to_owned());
    cluster.set_image("v2");
    cluster.settle_when_asked();
    assert_eq!(is(&cluster, condition::PROGRESSING).0, ConditionStatus::False);
    cluster.edit(|spec| {
        spec.paused = true;
        spec.progress_deadline_action = ProgressDeadlineAction::Abort;
    });
    cluster.settle_when_asked();
    assert_eq!(cluster.status().aborted, None);
}

#[test]
fn an_abort_to_a_set_that_is_being_deleted_is_refused() {
    let mut cluster = held();
    cluster.sets[0].terminating = true;
    cluster.request_abort(2);
    cluster.step();
    assert_eq!((cluster.status().aborted, cluster.status().abort_requested), (None, None));
    assert_eq!(cluster.count_events(reason::REQUEST_IGNORED), 1);
    assert_eq!(cluster.status().hold.unwrap().id, "canary@2");
}

#[test]
fn an_abort_and_a_retry_clear_what_was_of_the_rollout() {
    let mut cluster = Cluster::running(&json!({
        "replicas": 10,
        "strategy": {"type": "RollingUpdate", "pausePoints": [
            {"name": "canary", "afterUpdated": 1}, {"name": "half", "afterUpdated": 5},
        ]},
    }));
    cluster.set_image("v2");
    cluster.settle();
    cluster.resume();
    cluster.settle();
    assert_eq!(cluster.status().hold.unwrap().id, "half@2");
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
fn an_abort_does_not_wait_for_the_end_of_a_pause() {
    let mut cluster = held();
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    cluster.request_abort(2);
    cluster.settle();
    assert!(cluster.status().aborted.is_some());
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (10, 0));
}

#[test]
fn scaling_during_an_abort_follows_the_replicas() {
    let mut cluster = held();
    cluster.request_abort(2);
    cluster.rest();
    for replicas in [4, 0, 7] {
        cluster.edit(|spec| spec.replicas = replicas);
        cluster.settle();
        assert_eq!(cluster.of_image("v1"), usize::try_from(replicas).unwrap());
        assert_eq!(cluster.of_image("v2"), 0);
    }
}

#[test]
fn an_abort_creates_no_pods_of_the_aborted_revision() {
    let mut cluster = held();
    cluster.broken.insert("v1".to_owned());
    cluster.request_abort(2);
    cluster.edit(|spec| spec.replicas = 20);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (18, 3), "more pods are needed");
    // Lost pods of the aborted revision do not come back.
    let uid = cluster.active().find(|pod| cluster.image(pod) == "v2").unwrap().facts.uid.clone();
    cluster.delete(&uid);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (19, 2));
    cluster.edit(|spec| spec.replicas = 5);
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 0);
}

#[test]
fn nothing_moves_once_the_set_of_the_last_complete_revision_is_deleted() {
    let mut cluster = held();
    cluster.request_abort(2);
    cluster.settle();
    cluster.delete_set(0);
    cluster.settle();
    assert_eq!(cluster.active().count(), 0);
    let (_, stalled) = is(&cluster, condition::STALLED);
    assert_eq!(stalled, reason::ABORTED);
    let message = cluster.status().condition(condition::STALLED).unwrap().message.clone();
    assert!(message.contains("The set of revision 1 is gone"), "{message}");
    cluster.request_retry(2);
    cluster.settle();
    let id = cluster.status().hold.unwrap().id;
    assert!(id.ends_with("@3"), "the point is ahead of the retry: {id}");
    cluster.request_resume(&id);
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 10);
}

#[test]
fn the_set_of_the_last_complete_revision_is_kept_whatever_the_history_limit() {
    let mut cluster = Cluster::running(&json!({
        "replicas": 3, "revisionHistoryLimit": 0,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
    }));
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.sets.len(), 1, "a complete rollout keeps none");
    cluster.broken.insert("v3".to_owned());
    cluster.set_image("v3");
    cluster.settle();
    // Two old pods serve still; then a user removes them, and only the set is left.
    for uid in cluster.active().map(|pod| pod.facts.uid.clone()).collect::<Vec<_>>() {
        cluster.delete(&uid);
    }
    cluster.settle();
    cluster.request_abort(3);
    cluster.settle();
    assert_eq!((cluster.of_image("v2"), cluster.of_image("v3")), (3, 0));
}
