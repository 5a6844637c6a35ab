mod states;

use ordereddeployment_api::PausePoint;

use super::render;
use crate::terminal::escape::terminal_text;
use crate::terminal::style::Style;
use crate::testing::{
    PLAIN, Pod, at_revision, condition, four, observed_state, one_updated, overview, paused_before, pod,
};
use crate::view::phase::Phase;
use crate::view::state::ObservedState;
use crate::view::tree::{Drawing, Fold};

fn tree(state: &ObservedState) -> String {
    render(&overview(state), PLAIN)
}

/// The tree at that width, which no line exceeds. A command is not wrapped, so that it can be copied.
fn narrow(state: &ObservedState, width: usize) -> String {
    let drawing = Drawing { width: Some(width), flags: " -n shop", ..PLAIN };
    let text = render(&overview(state), drawing);
    for line in text.lines().filter(|line| !line.contains(" with: kubectl ")) {
        assert!(line.chars().count() <= width, "{width}: {line}\n{text}");
    }
    text
}

#[test]
fn rollouts_have_their_order_and_the_next_pause_point() {
    let mut started = four();
    started[0].terminating = true;
    started.push(Pod { ready: false, ..pod("web:2", "gggggggg", "n1") });
    started.push(Pod { node: None, ready: false, ..pod("web:2", "hhhhhhhh", "n1") });
    let mut pods = one_updated();
    pods[2] = pods[2].clone().pause("after");
    let complete = observed_state(4, "web:1", &at_revision(1), &four());
    let started = observed_state(4, "web:2", &at_revision(2), &started);
    let paused = observed_state(4, "web:2", &paused_before(&pods[0]), &pods);
    for (name, state, wide) in [
        ("a_complete_rollout_orders_all_pods_and_shows_the_pause_point_of_the_next_one", &complete, false),
        ("a_rollout_orders_its_old_pods_and_shows_its_pause_point", &started, false),
        ("a_paused_rollout_shows_its_pause_point_and_the_resume_command", &paused, false),
        ("the_wide_tree_has_ages_and_restarts", &complete, true),
    ] {
        insta::assert_snapshot!(name, render(&overview(state), Drawing { wide, ..PLAIN }));
    }
}

#[test]
fn a_migration_shows_the_command_that_finishes_it() {
    for (reason, label, command) in [
        ("Adopting", "adopting", "deployment/web\n"),
        ("HandingBack", "handing back", "deployment/web --back\n"),
    ] {
        let moving = condition("Progressing", "Unknown", reason, "Waiting for deployments/web");
        let status = serde_json::json!({"observedGeneration": 2, "conditions": [moving]});
        let text = tree(&observed_state(4, "web:1", &status, &[]));
        assert!(text.lines().next().unwrap().ends_with(label), "{text}");
        assert!(text.contains("  Waiting for deployments/web\n"), "{text}");
        assert!(text.contains(&format!("  finish with: kubectl ordered adopt {command}")), "{text}");
    }
}

#[test]
fn a_pause_point_whose_pod_is_deleted_is_shown_before_all_remaining_pods() {
    let mut pods = four();
    let paused_pod = pods[1].clone();
    pods.drain(..2);
    pods.push(pod("web:2", "gggggggg", "n1"));
    let text = tree(&observed_state(4, "web:2", &paused_before(&paused_pod), &pods));
    let lines: Vec<&str> = text.lines().collect();
    let barrier = lines.iter().position(|line| line.contains("pods below wait")).unwrap();
    assert!(lines[barrier + 1].contains("dddddddd"), "{text}");
}

#[test]
fn colours_only_add_escape_sequences() {
    let state = observed_state(4, "web:1", &at_revision(1), &four());
    let shown = overview(&state);
    let style = Style { color: true, unicode: true };
    let coloured = terminal_text(&render(&shown, Drawing { style, ..PLAIN }));
    assert!(coloured.contains('\x1b'));
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), render(&shown, PLAIN));
}

#[test]
fn a_malformed_annotation_and_a_lagging_controller_are_noted() {
    let mut pods = four();
    pods[2] = pods[2].clone().annotate("ordereddeployment.io/delete-priority", "+7");
    pods[3] = pods[3].clone().annotate("ordereddeployment.io/pause-piont", "before");
    let mut status = at_revision(1);
    status["observedGeneration"] = 1.into();
    let mut state = observed_state(4, "web:1", &status, &pods);
    let own = [("ordereddeployment.io/other".to_owned(), String::new())].into();
    std::sync::Arc::make_mut(&mut state.deployment).metadata.annotations = Some(own);
    let text = tree(&state);
    assert!(text.contains("note: the annotation ordereddeployment.io/other is unknown"), "{text}");
    assert!(text.contains("ffffffff: the annotation ordereddeployment.io/pause-piont is unknown"), "{text}");
    assert!(text.contains("did you mean ordereddeployment.io/pause-point?"), "{text}");
    assert!(text.contains("the value \"+7\" of ordereddeployment.io/delete-priority is malformed"), "{text}");
    assert!(text.contains("is ordered-controller-manager running?"), "{text}");
}

#[test]
fn a_pause_point_after_the_last_pod_is_no_barrier() {
    let mut pods = four();
    pods[1].annotations.remove("ordereddeployment.io/pause-point");
    let last = pods.iter_mut().find(|pod| pod.name.ends_with("ffffffff")).unwrap();
    *last = last.clone().pause("after").priority(-1);
    let shown = overview(&observed_state(4, "web:1", &at_revision(1), &pods));
    assert_eq!(shown.barrier, None);
    assert_eq!(shown.in_order().last().unwrap().point, Some(PausePoint::After));
}

#[test]
fn counts_and_completion_come_from_the_observed_pods_and_not_from_an_older_status() {
    let mut status = at_revision(1);
    status["availableReplicas"] = 1.into();
    let shown = overview(&observed_state(4, "web:1", &status, &four()));
    assert_eq!((shown.available, shown.updated), (4, 4));
    assert_eq!(shown.phase, Phase::Complete);
}

#[test]
fn a_narrow_terminal_has_fewer_columns_and_keeps_names_order_and_reasons() {
    let state = observed_state(4, "web:1", &at_revision(1), &four());
    let mut left_out = Vec::new();
    for width in (60..=120).rev() {
        let text = narrow(&state, width);
        let headings = text.lines().find(|line| line.contains("POD")).unwrap();
        assert!(["#", "POD", "STATUS", "WHY"].iter().all(|kept| headings.contains(kept)), "{text}");
        let missing: Vec<&str> = ["AGE", "PRIO", "READY", "POOL", "NODE"]
            .into_iter()
            .filter(|column| !headings.contains(column))
            .collect();
        if left_out.last() != Some(&missing) {
            left_out.push(missing);
        }
        assert!(text.contains("web-5d9c7b8c4d-bbbbbbbb"), "{text}");
    }
    let all = ["AGE", "PRIO", "READY", "POOL", "NODE"];
    let one_by_one: Vec<&[&str]> = (0..=all.len()).map(|count| &all[..count]).collect();
    assert_eq!(left_out, one_by_one);
}

#[test]
fn a_rollout_paused_by_its_spec_shows_how_to_continue() {
    for (image, revision, state_shown, expected) in [
        ("web:2", 2, "paused (spec.paused)", "continue with: kubectl ordered unpause web -n shop"),
        ("web:1", 1, "", "note: paused by spec.paused: the next change of the template starts no rollout"),
    ] {
        let mut state = observed_state(4, image, &at_revision(revision), &four());
        std::sync::Arc::make_mut(&mut state.deployment).spec.paused = true;
        let text = render(&overview(&state), Drawing { flags: " -n shop", ..PLAIN });
        assert!(text.contains(expected), "{text}");
        assert!(text.lines().next().unwrap().ends_with(state_shown), "{text}");
    }
}

#[test]
fn an_object_without_a_rollout_waits_for_the_controller() {
    let text = tree(&observed_state(4, "web:1", &serde_json::Value::Null, &[]));
    assert!(text.lines().next().unwrap().ends_with("waiting for the controller"), "{text}");
    assert!(!text.contains("revision 0"), "{text}");
}

#[test]
fn large_trees_are_folded_and_filtered() {
    let many =
        (0..60).map(|number| Pod { name: format!("web-5d9c7b8c4d-{number:04}"), ..pod("web:1", "", "n1") });
    let mut pods: Vec<Pod> = many.collect();
    pods[59].ready = false;
    let shown = overview(&observed_state(60, "web:1", &at_revision(1), &pods));
    let drawn = |all, filter| {
        let text = render(&shown, Drawing { fold: Fold { all, filter, on_screen: false }, ..PLAIN });
        (text.matches("web-5d9c7b8c4d-00").count(), text)
    };
    let (count, text) = drawn(false, None);
    assert!(
        text.contains("45 more pods (--all shows them)") || text.contains("44 more pods (--all shows them)"),
        "{text}"
    );
    assert!((15..=16).contains(&count) && text.contains("-0059"), "the unready pod is shown: {text}");
    assert_eq!(drawn(true, None).0, 60);
    assert_eq!(drawn(false, Some("-0042")).0, 1);
}
