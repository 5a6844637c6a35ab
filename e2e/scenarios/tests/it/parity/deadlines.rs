//! The progress deadline: what pauses it, and what the status reports when it passes.

use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::{annotation, condition, reason};
use scenarios::{TestCluster, condition_of};
use serde_json::json;

pub(super) async fn a_hold_stops_the_progress_deadline_and_its_end_restarts_it(cluster: TestCluster) {
    let pods = cluster.deployed(&json!({"replicas": 4, "progressDeadlineSeconds": 2})).await.unwrap();
    cluster.prioritise(&pods[0], 1).await.unwrap();
    // The hold is longer than the deadline.
    cluster.annotate(&pods[0], &format!("{}=5s", annotation::PAUSE_DURATION)).await.unwrap();
    cluster.pause_at(&pods[0], "before").await.unwrap();
    cluster.set_image("web:broken").await.unwrap();
    let held = cluster.held_with(0, 4).await.unwrap();
    let until = held.status.unwrap().hold.unwrap().until.unwrap().0;
    assert_eq!(
        cluster
            .until_said(condition::PROGRESSING, ConditionStatus::Unknown, reason::ROLLOUT_HELD)
            .await
            .unwrap(),
        "The rollout is paused at a pause point"
    );
    let late = |object: &OrderedDeployment| {
        let progressing = condition_of(object, condition::PROGRESSING);
        let late = progressing.is_some_and(|found| found.reason == reason::PROGRESS_DEADLINE_EXCEEDED);
        let holds = object.status.as_ref().is_some_and(|status| status.hold.is_some());
        assert!(!late || !holds, "the clock ran on in the hold");
        late
    };
    let object = cluster.until("web", "late", late).await.unwrap();
    let passed = condition_of(&object, condition::PROGRESSING).unwrap();
    let waited = passed.last_transition_time.0.as_second() - until.as_second();
    assert!(waited >= 2, "{waited} s after the hold");
}

pub(super) async fn unschedulable_surge_pods_exceed_the_progress_deadline(cluster: TestCluster) {
    let spec = json!({
        "replicas": 3, "progressDeadlineSeconds": 3,
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
    });
    cluster.deployed(&spec).await.unwrap();
    let nowhere = |selector| json!({"spec": {"template": {"spec": {"nodeSelector": selector}}}});
    cluster.patch(&nowhere(json!({"node.usage": "nothing"}))).await.unwrap();
    let (type_, why) = (condition::PROGRESSING, reason::PROGRESS_DEADLINE_EXCEEDED);
    let message = cluster.until_said(type_, ConditionStatus::False, why).await.unwrap();
    assert!(message.contains("cannot be scheduled") && message.contains("nodes are available"), "{message}");
    let status = cluster.deployments().get("web").await.unwrap().status.unwrap();
    assert_eq!((status.available_replicas, status.replicas), (Some(3), Some(4)), "it costs no pod");
    assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());
    cluster.patch(&nowhere(json!(null))).await.unwrap();
    cluster.complete("web", 3).await.unwrap();
    cluster.until_said(type_, ConditionStatus::True, reason::NEW_REPLICA_SET_AVAILABLE).await.unwrap();
}
