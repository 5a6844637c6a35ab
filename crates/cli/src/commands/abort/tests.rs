use std::time::Duration;

use ordereddeployment_api::OrderedDeploymentStatus;
use serde_json::json;

use super::{abort, abortable, result, retry, retry_result};
use crate::commands::resume::{ResumeTarget, resume};
use crate::testing::{self, fixture::Fixture};
use crate::view::phase::Phase;

const WEB: (&str, &str) = ("web", " -n shop");
const LIMIT: Option<Duration> = Some(Duration::from_secs(30));

/// A rollout to revision 2 that pauses when one pod is updated.
async fn at_canary() -> Fixture {
    let fixture = Fixture::start().await;
    let points = json!([{"name": "canary", "afterUpdated": 1}, {"name": "half", "afterUpdated": "50%"}]);
    fixture.pause_at(points).await;
    fixture
}

/// Waits until all pods are of revision 1 again.
async fn rolled_back(fixture: &Fixture) {
    let is_back = |status: &OrderedDeploymentStatus| {
        status.updated_replicas == Some(0) && status.available_replicas == Some(4)
    };
    fixture
        .until(|web| matches!(Phase::of(web), Phase::Aborted(_)) && web.status.as_ref().is_some_and(is_back))
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_abort_rolls_back_and_a_retry_starts_again() {
    let fixture = at_canary().await;
    let connection = &fixture.connection;
    let mut lines = vec![abort(connection, "web", None, LIMIT).await.unwrap()];
    rolled_back(&fixture).await;
    lines.push(abort(connection, "web", None, LIMIT).await.unwrap());
    let resumed = resume(connection, "web", ResumeTarget::All(None), LIMIT).await;
    lines.push(resumed.unwrap_err().to_string());
    lines.push(retry(connection, "web", None, LIMIT).await.unwrap());
    // The retry pauses at the same pause point.
    fixture.until_state("Paused at canary").await;
    lines.push(resume(connection, "web", ResumeTarget::Current, LIMIT).await.unwrap());
    fixture.until_state("Paused at half").await;
    lines.push(resume(connection, "web", ResumeTarget::Hold("canary@3"), LIMIT).await.unwrap());
    lines.push(resume(connection, "web", ResumeTarget::All(None), LIMIT).await.unwrap());
    fixture.until_state("Complete").await;
    lines.push(abort(connection, "web", None, LIMIT).await.unwrap_err().to_string());
    lines.push(retry(connection, "web", None, LIMIT).await.unwrap_err().to_string());
    insta::assert_snapshot!(lines.join("\n\n"));
}

fn status(change: &serde_json::Value) -> OrderedDeploymentStatus {
    let mut rollout = json!({
        "revision": 4, "templateHash": "a", "replicas": 4, "from": {"revision": 3, "templateHash": "b"},
    });
    for (key, value) in change.as_object().unwrap() {
        rollout[key] = value.clone();
    }
    serde_json::from_value(json!({"rollout": rollout})).unwrap()
}

#[test]
fn a_rollout_that_cannot_be_aborted_says_why() {
    let first = status(&json!({"from": null}));
    let complete = status(&json!({"completed": true}));
    let mut lines: Vec<String> = [OrderedDeploymentStatus::default(), complete.clone(), first.clone()]
        .iter()
        .map(|status| abortable(WEB, status).unwrap_err().to_string())
        .collect();
    assert_eq!(abortable(WEB, &status(&json!({}))).unwrap(), 4);
    // The controller has removed the request, and the status is not that of an abort.
    for after in [status(&json!({"revision": 5})), complete, first, status(&json!({}))] {
        lines.push(result(WEB, 4, &after, false).unwrap_err().to_string());
    }
    let text = lines.join("\n\n");
    assert!(!text.contains("adopt"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn an_abort_under_spec_paused_says_that_no_pod_is_replaced() {
    let status = serde_json::from_value(testing::aborted()).unwrap();
    let text = result(WEB, 2, &status, true).unwrap();
    assert!(text.contains("until `kubectl ordered unpause web -n shop`"), "{text}");
}

fn after(revision: i64, history: &serde_json::Value) -> OrderedDeploymentStatus {
    let rollout = json!({"revision": revision, "templateHash": "a", "replicas": 4});
    serde_json::from_value(json!({"rollout": rollout, "history": history})).unwrap()
}

#[test]
fn the_answer_to_a_retry_is_read_from_the_status() {
    let retried = json!([{
        "action": "Retried", "revision": 5, "at": "2030-01-01T12:00:00Z", "reason": "by request",
    }]);
    let lines = [
        retry_result(WEB, 4, &after(5, &retried), false).unwrap(),
        retry_result(WEB, 4, &after(5, &retried), true).unwrap(),
        // A change of the template removes the request too.
        retry_result(WEB, 4, &after(6, &retried), false).unwrap(),
        retry_result(WEB, 4, &after(4, &json!([])), false).unwrap_err().to_string(),
    ];
    insta::assert_snapshot!(lines.join("\n\n"));
}
