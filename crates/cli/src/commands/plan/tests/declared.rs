//! Plans with declared pause points, and of aborted rollouts.

use serde_json::{Value, json};

use super::{as_json, as_text, plan_of, to_image};
use crate::commands::plan::forecast::Plan;
use crate::commands::plan::spec_change::SpecChange;
use crate::testing::{PLAIN, Pod, aborted, at_declared, at_revision, declaring, observed_state, pod};

fn pods() -> Vec<Pod> {
    vec![
        pod("web:1", "bbbbbbbb", "n1").priority(5),
        pod("web:1", "cccccccc", "n2").priority(3),
        pod("web:1", "dddddddd", "n3"),
        pod("web:1", "ffffffff", "n4").priority(-1),
    ]
}

/// The plan of a new image with these pause points.
fn rollout(replicas: usize, points: &Value) -> Plan {
    let count = i32::try_from(replicas).unwrap();
    let state = observed_state(count, "web:1", &at_revision(1), &pods()[..replicas]);
    plan_of(&declaring(state, points), &to_image("web=web:2"))
}

#[test]
fn a_plan_shows_each_declared_point_with_its_wait_and_the_numbers() {
    let plan = rollout(
        4,
        &json!([
            {"name": "canary", "afterUpdated": 1, "duration": "10m"},
            {"name": "half", "afterUpdated": "50%"},
            {"name": "leaders", "beforePriority": -1},
        ]),
    );
    let steps: Value = as_json::json(&plan);
    let steps = steps["steps"].as_array().unwrap();
    let holds: Vec<&Value> = steps.iter().filter(|step| step["step"] == "Hold").collect();
    let holds = serde_json::to_string_pretty(&holds).unwrap();
    insta::assert_snapshot!(format!("{}\n{holds}", as_text::text(&plan, PLAIN)));
}

#[test]
fn a_plan_pauses_between_groups_of_nodes() {
    let plan = rollout(4, &json!([{"name": "each-pool", "betweenNodeGroups": "node.usage"}]));
    let ids: Vec<&str> = plan.preview.holds().map(|hold| hold.id.as_str()).collect();
    // By priority first: two pods on inference nodes, then two on hybrid nodes.
    assert_eq!(ids, ["each-pool.hybrid@2"]);
    let text = as_text::text(&plan, PLAIN);
    assert!(text.contains("pause point each-pool.hybrid (nodes with node.usage=hybrid)"), "{text}");
}

#[test]
fn points_that_hold_nothing_are_named_with_the_reason() {
    let on = |pool: &str| json!({"matchLabels": {"node.usage": pool}});
    let points = json!([
        {"name": "canary", "afterUpdated": 1},
        {"name": "leaders", "beforePriority": -2},
        {"name": "spot", "beforeNodes": on("spot")},
        {"name": "each-zone", "betweenNodeGroups": "zone"},
    ]);
    let all = rollout(4, &points);
    let one = rollout(1, &points);
    let same = rollout(2, &json!([{"name": "each-pool", "betweenNodeGroups": "node.usage"}]));
    let notes = [all.notes, one.notes, same.notes].map(|notes| notes.join("\n"));
    insta::assert_snapshot!(notes.join("\n\n"));
    // A scale-down is no rollout.
    let state = declaring(observed_state(4, "web:1", &at_revision(1), &pods()), &points);
    let change = SpecChange { replicas: Some(2), ..SpecChange::default() };
    assert!(plan_of(&state, &change).notes.is_empty());
}

#[test]
fn the_rest_of_a_rollout_does_not_pause_at_the_points_that_it_has_passed() {
    let points = json!([{"name": "canary", "afterUpdated": 1}, {"name": "half", "afterUpdated": "50%"}]);
    let mut pods = pods();
    pods[0] = pod("web:2", "gggggggg", "n1");
    let mut status = at_declared("half", &pods[1..]);
    status["hold"] = Value::Null;
    status["passed"] = json!([{"id": "canary@2", "resumedAt": "2030-01-01T11:59:00Z"}]);
    let state = declaring(observed_state(4, "web:2", &status, &pods), &points);
    let plan = plan_of(&state, &SpecChange::default());
    let ids: Vec<&str> = plan.preview.holds().map(|hold| hold.id.as_str()).collect();
    assert_eq!(ids, ["half@2"]);
    assert_eq!(plan.notes, ["no pause at pause point canary: the rollout has passed it"]);
    // A new rollout pauses at all of them again.
    let plan = plan_of(&state, &to_image("web=web:3"));
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
    assert_eq!(plan.preview.holds().count(), 2);
}

#[test]
fn a_plan_of_an_aborted_rollout_is_its_rollback() {
    let mut pods = pods();
    pods[0] = pod("web:2", "gggggggg", "n1");
    let points = json!([{"name": "canary", "afterUpdated": 1}]);
    let state = declaring(observed_state(4, "web:2", &aborted(), &pods), &points);
    let plan = plan_of(&state, &SpecChange::default());
    let json: Value = as_json::json(&plan);
    assert_eq!(json["outcome"], json!({"result": "RolledBack", "aborted": 2, "to": 1}));
    insta::assert_snapshot!(as_text::text(&plan, PLAIN));
    // Another template ends the abort.
    let plan = plan_of(&state, &to_image("web=web:3"));
    assert_eq!(plan.preview.end, ordereddeployment_preview::End::Complete);
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
}
