//! The tree of each state of an OrderedDeployment.

use std::sync::Arc;

use ordereddeployment_api::template_hash;
use serde_json::{Value, json};

use super::{narrow, tree};
use crate::terminal::style::Style;
use crate::testing::{
    PLAIN, Pod, aborted, at_declared, at_revision, condition, declaring, four, observed_state, one_updated,
    overview, paused_before, pod,
};
use crate::view::state::ObservedState;
use crate::view::tree::{Drawing, render};

/// Paused before the second pod, which is the first of the remaining ones.
fn paused_at_point() -> ObservedState {
    let pods = one_updated();
    observed_state(4, "web:2", &paused_before(&pods[0]), &pods)
}

fn paused(mut state: ObservedState) -> ObservedState {
    Arc::make_mut(&mut state.deployment).spec.paused = true;
    state
}

#[test]
fn a_failing_rollout_shows_the_message_of_its_condition() {
    let failing = |type_, status, reason, message, pods: &[Pod]| {
        let mut of_object = at_revision(2);
        of_object["conditions"] = json!([condition(type_, status, reason, message)]);
        observed_state(4, "web:2", &of_object, pods)
    };
    let mut pods = four();
    pods[1].ready = false;
    pods[2].ready = false;
    pods.push(pod("web:2", "gggggggg", "n1"));
    let message = "Blocked at pause point web-5d9c7b8c4d-dddddddd@2: (the pods that block it)";
    let blocked = failing("Stalled", "True", "Blocked", message, &pods);
    let mut pods = four();
    pods.push(Pod { ready: false, waiting: Some(("CrashLoopBackOff", 7)), ..pod("web:2", "gggggggg", "n1") });
    pods.push(Pod { ready: false, node: None, ..pod("web:2", "hhhhhhhh", "n1") });
    let message = "OrderedReplicaSet web-7f6d9b8c4d has not progressed for 600 s";
    let late = failing("Progressing", "False", "ProgressDeadlineExceeded", message, &pods);
    let message = "the API server refuses the template: spec.containers[0].image: Required value";
    let mut refused = failing("Stalled", "True", "TemplateRefused", message, &four());
    // The rollout has started, and its set does not exist yet.
    let deployment = Arc::make_mut(&mut refused.deployment);
    let hash = template_hash(&deployment.spec.template, 0);
    let rollout = deployment.status.as_mut().and_then(|status| status.rollout.as_mut()).unwrap();
    rollout.template_hash = hash;
    for (name, state) in [
        ("a_blocked_rollout_shows_the_message_of_the_condition", blocked),
        ("a_rollout_past_its_deadline_shows_the_failure_and_the_rollback_command", late),
        ("a_stalled_rollout_shows_the_message_of_the_condition", refused),
    ] {
        insta::assert_snapshot!(name, tree(&state));
    }
}

#[test]
fn other_states_have_their_lines_and_notes() {
    let mut unread = observed_state(4, "web:1", &at_revision(1), &four());
    unread.nodes.clear();
    unread.nodes_unread = Some("nodes is forbidden: User \"dev\" cannot list resource \"nodes\"".to_owned());
    let mut pods = four();
    pods.push(pod("web:2", "gggggggg", "n1").priority(4));
    pods.push(pod("web:2", "hhhhhhhh", "n3"));
    pods.push(pod("web:3", "kkkkkkkk", "n4"));
    let mut suspended = at_revision(2);
    suspended["rollout"]["points"] = json!([{"id": "canary@2"}]);
    suspended["replicas"] = 0.into();
    for (name, state) in [
        ("a_pause_point_with_spec_paused_says_that_a_resume_is_not_enough", paused(paused_at_point())),
        ("scaled_to_zero", observed_state(0, "web:1", &at_revision(1), &[])),
        ("a_suspended_rollout_says_how_it_continues", observed_state(0, "web:2", &suspended, &[])),
        ("two_older_revisions_share_one_order", observed_state(6, "web:3", &at_revision(3), &pods)),
        ("without_access_to_nodes_a_note_says_that_node_rules_are_ignored", unread),
    ] {
        insta::assert_snapshot!(name, tree(&state));
    }
}

#[test]
fn a_pause_point_on_narrow_terminals_and_without_unicode() {
    let state = paused_at_point();
    let ascii = render(&overview(&state), Drawing { style: Style::default(), ..PLAIN });
    let [_, _, eighty, sixty] = [120, 100, 80, 60].map(|width| narrow(&state, width));
    insta::assert_snapshot!(format!("{eighty}\n{sixty}\n{ascii}"));
}

/// Paused at `canary`. The next pod has a pause point of its own.
fn at_canary() -> ObservedState {
    let pods = one_updated();
    let state = observed_state(4, "web:2", &at_declared("canary", &pods), &pods);
    declaring(state, &json!([{"name": "canary", "afterUpdated": 1}, {"name": "half", "afterUpdated": "50%"}]))
}

#[test]
fn a_declared_pause_point_shows_its_name_and_what_it_waits_for() {
    let mut timed = at_canary();
    let status = Arc::make_mut(&mut timed.deployment).status.as_mut().unwrap();
    status.hold.as_mut().unwrap().until =
        Some(serde_json::from_value(json!("2030-01-01T12:08:00Z")).unwrap());
    let head: Vec<String> = tree(&timed).lines().take(4).map(str::to_owned).collect();
    insta::assert_snapshot!(format!("{}\n{}", tree(&at_canary()), head.join("\n")));
}

#[test]
fn the_next_pause_point_of_a_rollout_can_be_a_declared_one() {
    let mut pods = four();
    pods.push(pod("web:2", "gggggggg", "n1"));
    let mut unmarked = pods.clone();
    unmarked[1].annotations.remove("ordereddeployment.io/pause-point");
    let drawn = |pods: &[Pod], points: Value| {
        let text = tree(&declaring(observed_state(5, "web:2", &at_revision(2), pods), &points));
        let lines: Vec<String> = text.lines().skip(3).map(str::to_owned).collect();
        lines.join("\n")
    };
    insta::assert_snapshot!(
        [
            drawn(&pods, json!([{"name": "leaders", "beforePriority": 4}])),
            drawn(
                &unmarked,
                json!([{"name": "hybrid", "beforeNodes": {"matchLabels": {"node.usage": "hybrid"}}}])
            ),
            drawn(&unmarked, json!([{"name": "each-pool", "betweenNodeGroups": "node.usage"}])),
            // It holds nothing.
            drawn(&unmarked, json!([{"name": "leaders", "beforePriority": -9}])),
        ]
        .join("\n\n")
    );
}

#[test]
fn a_long_declared_pause_point_fits_on_narrow_terminals() {
    let points = json!([{
        "name": "a-pause-point-whose-name-has-as-many-characters-as-a-name-may-take",
        "beforeNodes": {"matchLabels": {"node.usage": "spot", "topology.kubernetes.io/zone": "a"}},
    }, {"name": "hybrid", "beforeNodes": {"matchExpressions": [
        {"key": "node.usage", "operator": "In", "values": ["hybrid", "spot", "on-demand", "reserved"]},
    ]}}]);
    let mut pods = four();
    pods[1].annotations.remove("ordereddeployment.io/pause-point");
    pods.push(pod("web:2", "gggggggg", "n1"));
    let mut status = at_revision(2);
    status["rollout"]["points"] = json!([{"id": "hybrid@2", "limit": 3, "replicas": 5}]);
    let state = declaring(observed_state(5, "web:2", &status, &pods), &points);
    for width in [120, 100, 80, 60] {
        let text = narrow(&state, width);
        assert!(text.contains("pause point hybrid"), "{text}");
    }
}

#[test]
fn an_aborted_rollout_shows_how_far_it_is_rolled_back() {
    let half = tree(&observed_state(4, "web:2", &aborted(), &one_updated()));
    let mut pods = four();
    pods.push(pod("web:2", "gggggggg", "n1"));
    pods[4].terminating = true;
    let done = tree(&paused(observed_state(4, "web:2", &aborted(), &pods)));
    insta::assert_snapshot!(format!("{half}\n{done}"));
}
