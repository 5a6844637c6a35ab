use ordereddeployment_api::OrderedDeploymentStatus;
use serde_json::json;

use super::result;

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
