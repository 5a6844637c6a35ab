use super::{order, preview};
use crate::overview::Overview;
use crate::testing::{PLAIN, Pod, at_revision, held_before, pod, seen};

fn four() -> Vec<Pod> {
    vec![
        pod("web:1", "bbbbbbbb", "n1").priority(5),
        pod("web:1", "cccccccc", "n2").priority(3).pause("before"),
        pod("web:1", "dddddddd", "n3"),
        pod("web:1", "ffffffff", "n2"),
    ]
}

fn overview(seen: &crate::observe::Seen) -> Overview {
    Overview::of(seen, "node.usage")
}

#[test]
fn the_order_gives_each_pod_its_place_its_reason_and_the_pause_point() {
    insta::assert_snapshot!(order(&overview(&seen(4, "web:1", &at_revision(1), &four())), PLAIN));
}

#[test]
fn in_a_rollout_only_the_old_pods_are_lined_up() {
    let mut pods = four();
    pods.push(pod("web:2", "gggggggg", "n1"));
    let text = order(&overview(&seen(4, "web:2", &at_revision(2), &pods)), PLAIN);
    assert!(text.contains("4 pods of older revisions"), "{text}");
    assert!(!text.contains("gggggggg"), "{text}");
}

#[test]
fn a_scale_down_takes_the_first_of_the_order_whatever_their_pause_points() {
    let seen = seen(4, "web:1", &at_revision(1), &four());
    insta::assert_snapshot!(preview(&seen, &overview(&seen), 2, PLAIN));
}

#[test]
fn a_scale_down_of_a_held_rollout_keeps_the_held_pod_longest() {
    let mut pods = four();
    let held = pods[1].clone();
    pods.remove(0);
    pods.push(pod("web:2", "gggggggg", "n1"));
    let mut status = held_before(&held);
    status["hold"]["sizes"] = serde_json::json!({"5d9c7b8c4d": 3, "7f6d9b8c4d": 1});
    let seen = seen(4, "web:2", &status, &pods);
    let text = preview(&seen, &overview(&seen), 2, PLAIN);
    let (going, staying) = text.split_once("would stay").unwrap();
    assert!(!going.contains("cccccccc") && staying.contains("cccccccc"), "{text}");
    assert!(text.contains("would delete 2 pods"), "{text}");
}

#[test]
fn scaling_up_deletes_nothing_and_says_so() {
    let seen = seen(4, "web:1", &at_revision(1), &four());
    let text = preview(&seen, &overview(&seen), 5, PLAIN);
    assert!(text.contains("would delete no pod: that is no scale-down"), "{text}");
}

#[test]
fn scaling_to_none_deletes_all() {
    let seen = seen(4, "web:1", &at_revision(1), &four());
    assert!(preview(&seen, &overview(&seen), 0, PLAIN).contains("would delete 4 pods"));
}

#[test]
fn without_pods_there_is_no_order() {
    assert_eq!(order(&overview(&seen(4, "web:1", &at_revision(1), &[])), PLAIN), "web has no active pods.\n");
}
