use serde_json::{Value, json};

use super::{Until, evaluate, points_left};
use crate::exit::Exit;
use crate::testing::fixture::{Fixture, without_names};
use crate::testing::{BEFORE, aborted, at_declared, at_revision, condition, deployment, paused_before, pod};

fn exits(status: &Value, paused: bool) -> [Option<Exit>; 3] {
    let mut web = deployment(status);
    web.spec.paused = paused;
    [None, Some(Until::Complete), Some(Until::Held)].map(|until| evaluate(&web, until, "").0)
}

fn with(type_: &str, status: &str, reason: &str) -> Value {
    json!({"observedGeneration": 2, "conditions": [condition(type_, status, reason,
        "No progress for 600 seconds")]})
}

#[test]
fn the_exit_code_depends_on_the_state_and_on_until() {
    let paused = paused_before(&pod("web:1", "cccccccc", "n2"));
    let mut timed = paused.clone();
    timed["hold"]["until"] = "2030-01-01T13:00:00Z".into();
    let complete = with("Complete", "True", "RolloutComplete");
    let failed = with("Progressing", "False", "ProgressDeadlineExceeded");
    let rolling = json!({"observedGeneration": 2});
    assert_eq!(exits(&paused, false), [Some(Exit::Held), None, Some(Exit::Success)]);
    assert_eq!(exits(&timed, false), [None, None, Some(Exit::Success)]);
    assert_eq!(exits(&complete, false), [Some(Exit::Success), Some(Exit::Success), Some(Exit::NotHeld)]);
    assert_eq!(exits(&failed, false), [Some(Exit::Failed); 3]);
    assert_eq!(exits(&rolling, false), [None; 3]);
    assert_eq!(exits(&rolling, true), [Some(Exit::Held), None, None]);
    assert_eq!(exits(&json!({"observedGeneration": 1}), false), [None; 3]);
    assert_eq!(exits(&aborted(), false), [Some(Exit::Failed); 3]);
}

#[test]
fn every_state_has_a_line_with_the_next_command() {
    let paused = paused_before(&pod("web:1", "cccccccc", "n2"));
    let failed = with("Progressing", "False", "ProgressDeadlineExceeded");
    let complete = with("Complete", "True", "RolloutComplete");
    let lines: Vec<String> = [paused, failed, complete, json!({"observedGeneration": 2}), json!({})]
        .iter()
        .map(|status| evaluate(&deployment(status), None, " -n shop").1)
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn declared_points_aborts_and_suspensions_have_a_line() {
    let canary = at_declared("canary", &[pod("web:1", "cccccccc", "n2")]);
    let mut timed = canary.clone();
    timed["hold"]["until"] = "2030-01-01T13:00:00Z".into();
    // Its point was removed from the spec.
    let mut removed = timed.clone();
    removed["hold"]["limit"] = serde_json::Value::Null;
    let mut back = aborted();
    back["updatedReplicas"] = 0.into();
    let mut suspended = at_revision(2);
    suspended["rollout"]["points"] = json!([{"id": "canary@2"}]);
    suspended["replicas"] = 0.into();
    let lines: Vec<String> = [canary, timed, removed, aborted(), back, suspended]
        .iter()
        .map(|status| evaluate(&deployment(status), None, " -n shop").1)
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_complete_rollout_names_the_pause_points_that_are_left() {
    let (fixture, order) = Fixture::with_order().await;
    assert_eq!(points_left("web", &fixture.connection).await, None);
    fixture.mark(&order[1], BEFORE).await;
    let note = points_left("web", &fixture.connection).await.unwrap();
    insta::assert_snapshot!(without_names(&note, &order));
    // While the rollout is not complete, these are its own.
    fixture.image("web:2").await;
    fixture.until_state("Paused at").await;
    assert_eq!(points_left("web", &fixture.connection).await, None);
}
