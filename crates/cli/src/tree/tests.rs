mod states;

use ordereddeployment_api::PausePoint;

use super::render;
use crate::escape::shown;
use crate::overview::{Overview, Phase};
use crate::style::Style;
use crate::testing::{PLAIN, Pod, at_revision, held_before, pod, seen};
use crate::tree::Drawing;

fn old() -> Vec<Pod> {
    vec![
        pod("web:1", "bbbbbbbb", "n1").priority(5),
        pod("web:1", "cccccccc", "n2").priority(3).pause("before"),
        pod("web:1", "dddddddd", "n3"),
        pod("web:1", "ffffffff", "n2"),
    ]
}

fn tree(seen: &crate::observe::Seen) -> String {
    render(&Overview::of(seen, "node.usage"), PLAIN)
}

#[test]
fn a_complete_rollout_lines_up_all_pods_and_shows_where_the_next_one_halts() {
    insta::assert_snapshot!(tree(&seen(4, "web:1", &at_revision(1), &old())));
}

#[test]
fn a_rollout_lines_up_its_old_pods_and_shows_where_it_will_halt() {
    let mut pods = old();
    pods[0].terminating = true;
    let mut updated = pod("web:2", "gggggggg", "n1");
    updated.ready = false;
    pods.push(updated);
    pods.push(Pod { node: None, ready: false, ..pod("web:2", "hhhhhhhh", "n1") });
    insta::assert_snapshot!(tree(&seen(4, "web:2", &at_revision(2), &pods)));
}

#[test]
fn a_hold_says_where_and_how_to_resume() {
    let mut pods = old();
    pods[3] = pods[3].clone().pause("after");
    let held = pods[1].clone();
    pods.remove(0);
    pods.push(pod("web:2", "gggggggg", "n1"));
    insta::assert_snapshot!(tree(&seen(4, "web:2", &held_before(&held), &pods)));
}

#[test]
fn pods_that_change_hands_are_told_with_what_ends_it() {
    let status = serde_json::json!({"observedGeneration": 2, "conditions": [{
        "type": "Progressing", "status": "Unknown", "reason": "Adopting",
        "message": "It takes over once these are gone: deployments/web",
        "lastTransitionTime": "2030-01-01T12:00:00Z", "lastUpdateTime": "2030-01-01T12:00:00Z",
    }]});
    let text = tree(&seen(4, "web:1", &status, &[]));
    assert!(text.lines().next().unwrap().ends_with("adopting"), "{text}");
    assert!(text.contains("  It takes over once these are gone: deployments/web\n"), "{text}");
    assert!(text.contains("  finish it with: kubectl ordered adopt deployment/web"), "{text}");
}

#[test]
fn a_hold_whose_pod_is_gone_stands_before_all_that_is_left() {
    let mut pods = old();
    let held = pods[1].clone();
    pods.drain(..2);
    pods.push(pod("web:2", "gggggggg", "n1"));
    let text = tree(&seen(4, "web:2", &held_before(&held), &pods));
    let lines: Vec<&str> = text.lines().collect();
    let barrier = lines.iter().position(|line| line.contains("nothing below goes")).unwrap();
    assert!(lines[barrier + 1].contains("dddddddd"), "{text}");
}

#[test]
fn without_unicode_every_character_is_ascii_and_the_words_are_the_same() {
    let mut pods = old();
    pods.push(pod("web:2", "gggggggg", "n1"));
    let seen = seen(4, "web:2", &at_revision(2), &pods);
    let overview = Overview::of(&seen, "node.usage");
    let ascii = render(&overview, Drawing { style: Style::default(), ..PLAIN });
    assert!(ascii.is_ascii(), "{ascii}");
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(words(&ascii), words(&render(&overview, PLAIN)));
}

#[test]
fn colours_change_nothing_but_escape_sequences() {
    let seen = seen(4, "web:1", &at_revision(1), &old());
    let overview = Overview::of(&seen, "node.usage");
    let style = Style { color: true, unicode: true };
    let coloured = render(&overview, Drawing { style, ..PLAIN });
    let coloured = shown(&coloured);
    assert!(coloured.contains('\x1b'));
    let mut plain = String::new();
    for part in coloured.split('\x1b') {
        plain.push_str(
            part.strip_prefix('[').and_then(|part| part.split_once('m')).map_or(part, |(_, rest)| rest),
        );
    }
    assert_eq!(plain, render(&overview, PLAIN));
}

#[test]
fn lines_of_a_usual_name_fit_a_hundred_columns() {
    let mut pods = old();
    let held = pods.remove(1);
    pods.push(held.clone());
    pods.push(pod("web:2", "gggggggg", "n1"));
    for text in [
        tree(&seen(4, "web:1", &at_revision(1), &old())),
        tree(&seen(4, "web:2", &held_before(&held), &pods)),
    ] {
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
    }
}

#[test]
fn a_malformed_annotation_and_a_controller_that_lags_are_told() {
    let mut pods = old();
    pods[2] = pods[2].clone().annotate("ordereddeployment.io/delete-priority", "+7");
    let mut status = at_revision(1);
    status["observedGeneration"] = 1.into();
    let text = tree(&seen(4, "web:1", &status, &pods));
    assert!(text.contains("delete-priority=\"+7\" is malformed"), "{text}");
    assert!(text.contains("is ordered-controller-manager running?"), "{text}");
}

#[test]
fn without_pools_there_is_no_column_for_them() {
    let mut seen = seen(4, "web:1", &at_revision(1), &old());
    seen.nodes.clear();
    assert!(!tree(&seen).contains("POOL"));
}

#[test]
fn a_point_after_on_the_last_pod_halts_nothing() {
    let mut pods = old();
    pods[1].annotations.remove("ordereddeployment.io/pause-point");
    let last = pods.iter_mut().find(|pod| pod.name.ends_with("ffffffff")).unwrap();
    *last = last.clone().pause("after").priority(-1);
    let overview = Overview::of(&seen(4, "web:1", &at_revision(1), &pods), "node.usage");
    assert_eq!(overview.barrier, None);
    assert_eq!(overview.in_order().last().unwrap().point, Some(PausePoint::After));
}

#[test]
fn counts_and_completion_are_of_the_pods_as_read_and_not_of_an_older_status() {
    let mut status = at_revision(1);
    status["availableReplicas"] = 1.into();
    let overview = Overview::of(&seen(4, "web:1", &status, &old()), "node.usage");
    assert_eq!((overview.available, overview.updated), (4, 4));
    assert_eq!(overview.phase, Phase::Complete);
}

#[test]
fn a_narrow_terminal_gets_fewer_columns_and_keeps_names_order_and_reasons() {
    let overview = Overview::of(&seen(4, "web:1", &at_revision(1), &old()), "node.usage");
    let mut left_out = Vec::new();
    for width in (60..=120).rev() {
        let text = render(&overview, Drawing { width: Some(width), ..PLAIN });
        let headings = text.lines().find(|line| line.contains("POD")).unwrap();
        assert!(["#", "POD", "STATUS", "PRIO", "WHY"].iter().all(|kept| headings.contains(kept)), "{text}");
        let missing: Vec<&str> = ["AGE", "READY", "POOL", "NODE"]
            .into_iter()
            .filter(|column| !headings.contains(column))
            .collect();
        if left_out.last() != Some(&missing) {
            left_out.push(missing);
        }
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width, "{widest} > {width}:\n{text}");
        assert!(text.contains("web-5d9c7b8c4d-bbbbbbbb"), "{text}");
    }
    let one_by_one: [&[&str]; 5] =
        [&[], &["AGE"], &["AGE", "READY"], &["AGE", "READY", "POOL"], &["AGE", "READY", "POOL", "NODE"]];
    assert_eq!(left_out, one_by_one);
}

#[test]
fn the_wide_tree_has_ages_and_restarts() {
    let overview = Overview::of(&seen(4, "web:1", &at_revision(1), &old()), "node.usage");
    insta::assert_snapshot!(render(&overview, Drawing { wide: true, ..PLAIN }));
}

#[test]
fn a_pause_as_a_whole_says_how_to_go_on() {
    let mut seen = seen(4, "web:1", &at_revision(1), &old());
    std::sync::Arc::make_mut(&mut seen.deployment).spec.paused = true;
    let text = render(&Overview::of(&seen, "node.usage"), Drawing { flags: " -n shop", ..PLAIN });
    assert!(text.contains("go on with: kubectl ordered unpause web -n shop"), "{text}");
}
