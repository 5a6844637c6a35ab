//! The tree of each state of an OrderedDeployment.

use std::sync::Arc;

use ordereddeployment_api::template_hash;
use serde_json::{Value, json};

use super::{old, tree};
use crate::observe::ObservedState;
use crate::overview::Overview;
use crate::style::Style;
use crate::testing::{PLAIN, Pod, at_revision, observed_state, paused_before, pod};
use crate::tree::{Drawing, render};

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    let now = "2030-01-01T12:00:00Z";
    json!([{
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": now, "lastUpdateTime": now,
    }])
}

/// Paused before the second pod, which is the first of the remaining ones.
fn paused_at_point() -> ObservedState {
    let mut pods = old();
    pods.remove(0);
    pods.push(pod("web:2", "gggggggg", "n1"));
    observed_state(4, "web:2", &paused_before(&old()[1]), &pods)
}

fn paused(mut state: ObservedState) -> ObservedState {
    Arc::make_mut(&mut state.deployment).spec.paused = true;
    state
}

#[test]
fn a_pause_point_with_spec_paused_says_that_a_resume_is_not_enough() {
    insta::assert_snapshot!(tree(&paused(paused_at_point())));
}

#[test]
fn a_pause_point_with_a_duration_says_when_it_resumes() {
    let mut state = paused_at_point();
    let status = Arc::make_mut(&mut state.deployment).status.as_mut().unwrap();
    let hold = status.hold.as_mut().unwrap();
    hold.until = Some(serde_json::from_value(json!("2030-01-01T12:08:00Z")).unwrap());
    insta::assert_snapshot!(tree(&state).lines().take(4).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_blocked_rollout_shows_the_message_of_the_condition() {
    let mut pods = old();
    pods[1].ready = false;
    pods[2].ready = false;
    pods.push(pod("web:2", "gggggggg", "n1"));
    let mut status = at_revision(2);
    let message = "Blocked at pause point web-5d9c7b8c4d-dddddddd@2: (the pods that block it)";
    status["conditions"] = condition("Stalled", "True", "Blocked", message);
    insta::assert_snapshot!(tree(&observed_state(4, "web:2", &status, &pods)));
}

#[test]
fn spec_paused_during_a_rollout() {
    let mut pods = old();
    pods.remove(0);
    pods.push(pod("web:2", "gggggggg", "n1"));
    insta::assert_snapshot!(tree(&paused(observed_state(4, "web:2", &at_revision(2), &pods))));
}

#[test]
fn a_rollout_past_its_deadline_shows_the_failure_and_the_rollback_command() {
    let mut pods = old();
    pods.push(Pod { ready: false, waiting: Some(("CrashLoopBackOff", 7)), ..pod("web:2", "gggggggg", "n1") });
    pods.push(Pod { ready: false, node: None, ..pod("web:2", "hhhhhhhh", "n1") });
    let mut status = at_revision(2);
    let message = "OrderedReplicaSet web-7f6d9b8c4d has not progressed for 600 s";
    status["conditions"] = condition("Progressing", "False", "ProgressDeadlineExceeded", message);
    insta::assert_snapshot!(tree(&observed_state(4, "web:2", &status, &pods)));
}

#[test]
fn a_stalled_rollout_shows_the_message_of_the_condition() {
    let mut status = at_revision(2);
    let message = "the API server refuses the template: spec.containers[0].image: Required value";
    status["conditions"] = condition("Stalled", "True", "TemplateRefused", message);
    let mut state = observed_state(4, "web:2", &status, &old());
    // The rollout has started, and its set does not exist yet.
    let deployment = Arc::make_mut(&mut state.deployment);
    let hash = template_hash(&deployment.spec.template, 0);
    let rollout = deployment.status.as_mut().and_then(|status| status.rollout.as_mut()).unwrap();
    rollout.template_hash = hash;
    insta::assert_snapshot!(tree(&state));
}

#[test]
fn scaled_to_zero() {
    insta::assert_snapshot!(tree(&observed_state(0, "web:1", &at_revision(1), &[])));
}

#[test]
fn terminating_pods_are_marked_and_have_no_place() {
    let mut pods = old();
    pods[0].terminating = true;
    pods[2].terminating = true;
    pods.push(pod("web:2", "gggggggg", "n1"));
    insta::assert_snapshot!(tree(&observed_state(4, "web:2", &at_revision(2), &pods)));
}

#[test]
fn two_older_revisions_share_one_order() {
    let mut pods = old();
    pods.push(pod("web:2", "gggggggg", "n1").priority(4));
    pods.push(pod("web:2", "hhhhhhhh", "n3"));
    pods.push(pod("web:3", "kkkkkkkk", "n4"));
    insta::assert_snapshot!(tree(&observed_state(6, "web:3", &at_revision(3), &pods)));
}

#[test]
fn without_access_to_nodes_a_note_says_that_node_rules_are_ignored() {
    let mut state = observed_state(4, "web:1", &at_revision(1), &old());
    state.nodes.clear();
    state.nodes_unread = Some("nodes is forbidden: User \"dev\" cannot list resource \"nodes\"".to_owned());
    insta::assert_snapshot!(tree(&state));
}

#[test]
fn a_pause_point_on_narrow_terminals_and_without_unicode() {
    let overview = Overview::of(&paused_at_point(), "node.usage");
    let drawn = |width| render(&overview, Drawing { width: Some(width), flags: " -n shop", ..PLAIN });
    let ascii = render(&overview, Drawing { style: Style::default(), ..PLAIN });
    for width in [120, 100, 80, 60] {
        let widest = drawn(width).lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width, "{widest} > {width}:\n{}", drawn(width));
    }
    insta::assert_snapshot!(format!("{}\n{}\n{ascii}", drawn(80), drawn(60)));
}
