use serde_json::{Value, json};

use super::{Until, judge};
use crate::exit::Exit;
use crate::testing::{held_before, pod, seen};

fn exits(status: &Value, paused: bool) -> [Option<Exit>; 3] {
    let mut deployment = (*seen(4, "web:2", status, &[]).deployment).clone();
    deployment.spec.paused = paused;
    [None, Some(Until::Complete), Some(Until::Held)].map(|until| judge(&deployment, until, "").0)
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    let now = "2030-01-01T12:00:00Z";
    json!({"observedGeneration": 2, "conditions": [{
        "type": type_, "status": status, "reason": reason, "message": "No progress for 600 seconds",
        "lastTransitionTime": now, "lastUpdateTime": now,
    }]})
}

#[test]
fn the_exit_code_tells_the_states_apart_by_what_was_awaited() {
    let held = held_before(&pod("web:1", "cccccccc", "n2"));
    let mut timed = held.clone();
    timed["hold"]["until"] = "2030-01-01T13:00:00Z".into();
    let complete = condition("Complete", "True", "RolloutComplete");
    let failed = condition("Progressing", "False", "ProgressDeadlineExceeded");
    let rolling = json!({"observedGeneration": 2});
    assert_eq!(exits(&held, false), [Some(Exit::Held), None, Some(Exit::Done)]);
    assert_eq!(exits(&timed, false), [None, None, Some(Exit::Done)]);
    assert_eq!(exits(&complete, false), [Some(Exit::Done), Some(Exit::Done), Some(Exit::NotHeld)]);
    assert_eq!(exits(&failed, false), [Some(Exit::Failed); 3]);
    assert_eq!(exits(&rolling, false), [None; 3]);
    assert_eq!(exits(&rolling, true), [Some(Exit::Held), None, None]);
    assert_eq!(exits(&json!({"observedGeneration": 1}), false), [None; 3]);
}

#[test]
fn every_state_is_told_with_what_to_do() {
    let held = held_before(&pod("web:1", "cccccccc", "n2"));
    let failed = condition("Progressing", "False", "ProgressDeadlineExceeded");
    let complete = condition("Complete", "True", "RolloutComplete");
    let lines: Vec<String> = [held, failed, complete, json!({"observedGeneration": 2}), json!({})]
        .iter()
        .map(|status| judge(&seen(4, "web:2", status, &[]).deployment, None, " -n shop").1)
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}
