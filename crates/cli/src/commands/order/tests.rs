use super::{order, preview};
use crate::testing::{PLAIN, at_revision, four, observed_state, one_updated, overview, paused_before, pod};

#[test]
fn the_order_gives_each_pod_its_place_its_reason_and_the_pause_point() {
    insta::assert_snapshot!(order(&overview(&observed_state(4, "web:1", &at_revision(1), &four())), PLAIN));
}

#[test]
fn in_a_rollout_only_the_old_pods_are_in_the_order() {
    let mut pods = four();
    pods.push(pod("web:2", "gggggggg", "n1"));
    let text = order(&overview(&observed_state(4, "web:2", &at_revision(2), &pods)), PLAIN);
    assert!(text.contains("4 pods of older revisions"), "{text}");
    assert!(!text.contains("gggggggg"), "{text}");
}

#[test]
fn a_scale_down_deletes_the_first_pods_of_the_order_whatever_their_pause_points() {
    let state = observed_state(4, "web:1", &at_revision(1), &four());
    let scaled = |replicas| preview(&state, &overview(&state), replicas, PLAIN).unwrap();
    insta::assert_snapshot!(scaled(2));
    assert!(scaled(5).contains("would delete no pod: not a scale-down"), "{}", scaled(5));
    assert!(scaled(0).contains("would delete 4 pods"), "{}", scaled(0));
}

#[test]
fn a_scale_down_of_a_paused_rollout_deletes_the_pod_of_the_pause_point_last() {
    let pods = one_updated();
    let mut status = paused_before(&pods[0]);
    status["hold"]["sizes"] = serde_json::json!({"5d9c7b8c4d": 3, "7f6d9b8c4d": 1});
    let state = observed_state(4, "web:2", &status, &pods);
    let text = preview(&state, &overview(&state), 2, PLAIN).unwrap();
    let (going, staying) = text.split_once("would stay").unwrap();
    assert!(!going.contains("cccccccc") && staying.contains("cccccccc"), "{text}");
    assert!(text.contains("would delete 2 pods"), "{text}");
}

#[test]
fn without_pods_there_is_no_order() {
    assert_eq!(
        order(&overview(&observed_state(4, "web:1", &at_revision(1), &[])), PLAIN),
        "web has no active pods.\n"
    );
}

#[test]
fn programs_get_the_order_as_data() {
    let state = observed_state(4, "web:1", &at_revision(1), &four());
    let value = super::json(&overview(&state));
    assert_eq!((&value["name"], &value["rolling"]), (&"web".into(), &false.into()));
    let places: Vec<_> = value["pods"].as_array().unwrap().iter().map(|pod| pod["place"].as_u64()).collect();
    assert_eq!(places, [Some(1), Some(2), Some(3), Some(4)]);
    assert!(value["pods"][0]["why"].as_str().unwrap().starts_with("priority"), "{value}");
}
