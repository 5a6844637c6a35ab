use std::time::Duration;

use kube::api::{Patch, PatchParams};
use ordereddeployment_api::OrderedDeploymentStatus;
use serde_json::json;

use super::{Request, Which, answer, request, resume};
use crate::exit::{self, Exit};
use crate::testing::bench::Bench;
use crate::testing::{held_before, pod, seen};

fn held() -> OrderedDeploymentStatus {
    serde_json::from_value(held_before(&pod("web:1", "cccccccc", "n2"))).unwrap()
}

const WEB: (&str, &str) = ("web", " -n shop");
const ID: &str = "web-5d9c7b8c4d-cccccccc@2";

#[test]
fn the_present_hold_is_named_by_its_id() {
    assert_eq!(request(WEB, &held(), Which::Present, None).unwrap(), Request::For(ID.to_owned()));
    assert_eq!(request(WEB, &held(), Which::Hold(ID), None).unwrap(), Request::For(ID.to_owned()));
}

fn condition(type_: &str, status: &str, reason: &str) -> serde_json::Value {
    let time = "2030-01-01T11:51:00Z";
    json!({
        "type": type_, "status": status, "reason": reason, "message": format!("{reason} at the pause point."),
        "lastTransitionTime": time, "lastUpdateTime": time,
    })
}

/// A rollout that cannot reach its pause point; the condition says so.
fn blocked() -> OrderedDeploymentStatus {
    serde_json::from_value(json!({
        "rollout": {"revision": 2, "templateHash": "7f6d9b8c4d", "replicas": 4},
        "blocked": {"id": ID, "since": "2030-01-01T11:50:00Z"},
        "conditions": [condition("Stalled", "True", "Blocked"), condition("Complete", "False", "RolloutInProgress")],
    }))
    .unwrap()
}

#[test]
fn a_blocked_rollout_is_resumed_by_name_only_and_a_plain_resume_says_the_ways_out() {
    let error = request(WEB, &blocked(), Which::Present, None).unwrap_err().to_string();
    let by_name = format!("resume web --hold {ID} -n shop");
    for part in ["web is not held", "Blocked at the pause point.", by_name.as_str(), "undo web -n shop"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(request(WEB, &blocked(), Which::Hold(ID), None).unwrap(), Request::For(ID.to_owned()));
    assert_eq!(request(WEB, &blocked(), Which::All, None).unwrap(), Request::For("*@2".to_owned()));
    // Not before the condition says so, and not at another point.
    let early = OrderedDeploymentStatus { conditions: None, ..blocked() };
    let view = seen(4, "web:2", &json!({}), &[pod("web:1", "cccccccc", "n2")]).pods.remove(0);
    assert!(request(WEB, &early, Which::Hold(ID), Some(&view)).is_err());
}

#[test]
fn all_points_are_those_of_the_present_rollout() {
    assert_eq!(request(WEB, &held(), Which::All, None).unwrap(), Request::For("*@2".to_owned()));
}

#[test]
fn without_a_hold_there_is_nothing_to_resume() {
    let status = OrderedDeploymentStatus { hold: None, ..held() };
    for which in [Which::Present, Which::All] {
        let error = request(WEB, &status, which, None).unwrap_err().to_string();
        assert!(error.contains("web is not held"), "{error}");
    }
}

#[test]
fn a_hold_that_is_passed_needs_no_second_resume() {
    let mut status = held();
    let hold = status.hold.take().unwrap();
    // Its pod was replaced.
    assert_eq!(request(WEB, &status, Which::Hold(ID), None).unwrap(), Request::Passed(ID.to_owned()));
    // Its pod is still there, and stored as passed.
    let view = seen(4, "web:2", &json!({}), &[pod("web:1", "cccccccc", "n2")]).pods.remove(0);
    assert!(request(WEB, &status, Which::Hold(ID), Some(&view)).is_err());
    status.passed =
        serde_json::from_value(json!([{"podUID": hold.pod_uid, "resumedAt": "2030-01-01T12:00:00Z"}]))
            .unwrap();
    assert_eq!(request(WEB, &status, Which::Hold(ID), Some(&view)).unwrap(), Request::Passed(ID.to_owned()));
}

#[test]
fn another_hold_and_another_revision_are_refused() {
    for wrong in ["web-5d9c7b8c4d-cccccccc@1", "other-5d9c7b8c4d-dddddddd@2", "web"] {
        let error = request(WEB, &held(), Which::Hold(wrong), None).unwrap_err().to_string();
        assert!(error.contains(ID), "{error}");
    }
}

#[test]
fn the_answer_tells_a_dropped_request_from_the_next_hold() {
    let before = held().hold.unwrap();
    assert!(answer(WEB, ID, Some(&before), &held(), false).is_err());
    let mut next = held();
    next.hold.as_mut().unwrap().id = "web-5d9c7b8c4d-dddddddd@2".to_owned();
    let told = answer(WEB, ID, Some(&before), &next, false).unwrap();
    assert!(told.contains("now held at web-5d9c7b8c4d-dddddddd@2"), "{told}");
    next.hold = None;
    assert!(answer(WEB, ID, Some(&before), &next, false).unwrap().contains("the rollout goes on"));
}

#[test]
fn what_to_do_next_depends_on_what_keeps_it() {
    let before = held().hold.unwrap();
    let mut next = held();
    next.hold.as_mut().unwrap().id = "web-5d9c7b8c4d-dddddddd@2".to_owned();
    let lines = [
        answer(WEB, ID, Some(&before), &next, false).unwrap(),
        answer(WEB, ID, Some(&before), &OrderedDeploymentStatus { hold: None, ..held() }, true).unwrap(),
        answer(WEB, ID, Some(&before), &OrderedDeploymentStatus { hold: None, ..held() }, false).unwrap(),
        answer(WEB, ID, Some(&before), &held(), false).unwrap_err().to_string(),
        request(WEB, &OrderedDeploymentStatus { hold: None, ..held() }, Which::Present, None)
            .unwrap_err()
            .to_string(),
    ];
    insta::assert_snapshot!(lines.join("\n\n"));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_does_not_answer_is_told_with_a_code_of_its_own_and_the_request_stands() {
    let bench = Bench::without_controller().await;
    let status = json!({"status": held_before(&pod("web:1", "cccccccc", "n2"))});
    bench.api().patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let asked = resume(&bench.connection, "web", Which::Present, None).await.unwrap();
    assert!(
        asked.starts_with(&format!("web: asked for the resume of {ID}\n`kubectl ordered get web`")),
        "{asked}"
    );
    let limit = Some(Duration::from_secs(30));
    let error = resume(&bench.connection, "web", Which::Present, limit).await.unwrap_err();
    assert_eq!(exit::of_error(&error), Exit::TimedOut);
    let error = error.to_string();
    assert!(
        error.contains("has not taken the resume of") && error.contains("within 30 s\nhint: "),
        "{error}"
    );
    let stands = bench.api().get("web").await.unwrap().status.unwrap().resume_requested;
    assert_eq!(stands.as_deref(), Some(ID));
}
