//! The sample policies of the docs: their rules allow and refuse what they say. No API server enforces them here.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use kube::core::cel::{AdmissionRequest, VapEvaluator, VapExpression};
use serde_json::{Value, json};

/// The policy in that file.
fn policy(file: &str) -> Value {
    let path = format!("{}/../../docs/examples/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let binding = objects.iter().find(|object| object["kind"] == "ValidatingAdmissionPolicyBinding").unwrap();
    let policy = objects.iter().find(|object| object["kind"] == "ValidatingAdmissionPolicy").unwrap();
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    policy["spec"].clone()
}

/// The rules of that part of a policy.
fn rules(policy: &Value, part: &str) -> Vec<VapExpression> {
    let rules = policy[part].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rule = |rule: &Value| VapExpression {
        // CEL's own way to leave a value without a type, which the evaluator does not know and does not need: it has no types.
        expression: text(&rule["expression"]).replace("dyn(", "("),
        message: rule.get("message").map(text),
        message_expression: None,
    };
    rules.iter().map(rule).collect()
}

/// Whether the policy lets this user make the one object out of the other.
fn allows(policy: &Value, user: &str, old: &Value, new: &Value) -> bool {
    let request = AdmissionRequest { username: user.to_owned(), ..AdmissionRequest::default() };
    let evaluator =
        VapEvaluator::builder().object(new.clone()).old_object(old.clone()).request(request).build();
    let holds = |part| evaluator.evaluate(&rules(policy, part)).iter().all(|result| result.passed);
    !holds("matchConditions") || holds("validations")
}

const CONTROLLER: &str = "system:serviceaccount:ordered-system:ordered-deployment";

#[test]
fn a_resumer_changes_the_requests_and_nothing_else_of_the_status() {
    let policy = policy("resume-only.yaml");
    let held = json!({"status": {
        "replicas": 3, "hold": {"id": "web-a@2", "sizes": {"5d9c": 2}}, "passed": [],
        "conditions": [{"type": "Held", "status": "True"}],
    }});
    let with = |change: &dyn Fn(&mut Value)| {
        let mut changed = held.clone();
        change(&mut changed["status"]);
        changed
    };
    let asked = with(&|status| status["resumeRequested"] = json!("web-a@2"));
    assert!(allows(&policy, "ann", &held, &asked));
    assert!(allows(&policy, "ann", &asked, &held), "it may be taken back");
    assert!(allows(&policy, "ann", &held, &held));
    for request in ["abortRequested", "retryRequested"] {
        let asked = with(&|status| status[request] = json!(2));
        assert!(allows(&policy, "ann", &held, &asked), "{request}");
        assert!(allows(&policy, "ann", &asked, &held), "{request} may be taken back");
    }
    let others: [&dyn Fn(&mut Value); 8] = [
        &|status| status["hold"]["sizes"]["5d9c"] = json!(0),
        &|status| _ = status.as_object_mut().unwrap().remove("hold"),
        &|status| status["passed"] = json!([{"podUID": "*"}]),
        &|status| status["passedPoints"] = json!([{"name": "canary"}]),
        &|status| status["aborted"] = json!({"revision": 2, "to": 1}),
        &|status| status["history"] = json!([]),
        &|status| status["readyReplicas"] = json!(3),
        &|status| status["conditions"] = json!([]),
    ];
    for change in others {
        let changed = with(&|status| {
            status["resumeRequested"] = json!("web-a@2");
            change(status);
        });
        assert!(!allows(&policy, "ann", &held, &changed), "{changed}");
        assert!(allows(&policy, CONTROLLER, &held, &changed));
    }
    assert!(!allows(&policy, "ann", &held, &json!({})));
    assert!(!allows(&policy, "ann", &json!({}), &asked), "the first status is the controller's");
}

#[test]
fn the_crds_are_not_deleted_and_others_are() {
    let policy = policy("protect-crds.yaml");
    let of = |group: &str| json!({"spec": {"group": group}});
    assert!(!allows(&policy, "ann", &of("ordereddeployment.io"), &Value::Null));
    assert!(allows(&policy, "ann", &of("example.com"), &Value::Null));
}
