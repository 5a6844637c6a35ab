use std::time::Duration;

use kube::api::{Patch, PatchParams};
use ordereddeployment_api::OrderedDeploymentStatus;
use serde_json::json;

use super::{result, retry};
use crate::exit::{self, Exit};
use crate::testing::{self, fixture::Fixture};

const WEB: (&str, &str) = ("web", " -n shop");

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
        result(WEB, 4, &after(5, &retried), false).unwrap(),
        result(WEB, 4, &after(5, &retried), true).unwrap(),
        // A change of the template removes the request too.
        result(WEB, 4, &after(6, &retried), false).unwrap(),
        result(WEB, 4, &after(4, &json!([])), false).unwrap_err().to_string(),
    ];
    insta::assert_snapshot!(lines.join("\n\n"));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_has_its_own_exit_code_and_the_request_stays() {
    let fixture = Fixture::without_controller().await;
    let patch = Patch::Merge(json!({"status": testing::aborted()}));
    fixture.api().patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    let asked = retry(&fixture.connection, "web", None, None).await.unwrap();
    assert!(asked.starts_with("web: retry of revision 2 requested\n"), "{asked}");
    let limit = Some(Duration::from_secs(30));
    let error = retry(&fixture.connection, "web", None, limit).await.unwrap_err();
    assert_eq!(exit::of_error(&error), Exit::TimedOut);
    assert_eq!(fixture.api().get("web").await.unwrap().status.unwrap().retry_requested, Some(2));
}
