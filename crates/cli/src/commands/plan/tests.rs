use std::collections::BTreeMap;
use std::time::Duration;

use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_placement::Node;
use ordereddeployment_preview::{Assumptions, preview};
use serde_json::{Value, json};

use super::change::{Change, image, manifest};
use super::forecast::Plan;
use super::{json as as_json, text as as_text};
use crate::observe::Seen;
use crate::testing::{PLAIN, Pod, at_revision, held_before, pod, seen};
use crate::tree::Drawing;

fn four() -> Vec<Pod> {
    vec![
        pod("web:1", "bbbbbbbb", "n1").priority(5),
        pod("web:1", "cccccccc", "n2").priority(3).pause("before"),
        pod("web:1", "dddddddd", "n3"),
        pod("web:1", "ffffffff", "n2").priority(-1).pause("after"),
    ]
}

/// The plan for that change, on the four nodes that are there.
fn plan_of(seen: &Seen, change: &Change) -> Plan {
    let mut snapshot = seen.observed();
    snapshot.deployment = change.apply(&snapshot.deployment).unwrap().into();
    let node = json!({"status": {"allocatable": {"pods": "110"}}});
    let nodes: BTreeMap<String, Node> = seen
        .nodes
        .keys()
        .map(|name| (name.clone(), Node::of(&serde_json::from_value(node.clone()).unwrap())))
        .collect();
    let assumptions = Assumptions {
        ready_after: Duration::from_secs(5),
        gone_after: Duration::from_secs(2),
        resumed_after: Duration::from_secs(60),
        nodes,
        others: BTreeMap::new(),
    };
    Plan {
        name: "web".into(),
        namespace: "shop".into(),
        preview: preview(&snapshot, &assumptions),
        ready_after: assumptions.ready_after,
        gone_after: assumptions.gone_after,
        resumed_after: assumptions.resumed_after,
        ready_after_learned: true,
        notes: Vec::new(),
        next: Some("kubectl ordered set image web web=web:2".to_owned()),
    }
}

fn to_image(text: &str) -> Change {
    Change { images: vec![image(text).unwrap()], ..Change::default() }
}

fn rollout() -> Plan {
    let mut status = at_revision(1);
    status["conditions"] = json!([]);
    plan_of(&seen(4, "web:1", &status, &four()), &to_image("web=web:2"))
}

#[test]
fn a_rollout_is_told_step_by_step_with_its_halts() {
    insta::assert_snapshot!(as_text::text(&rollout(), PLAIN));
}

#[test]
fn a_rollout_as_json_has_the_same_steps() {
    insta::assert_snapshot!(as_json::json(&rollout()).unwrap());
}

#[test]
fn on_narrow_terminals_reasons_and_columns_give_way_and_texts_are_wrapped() {
    let drawn = |width| as_text::text(&rollout(), Drawing { width: Some(width), flags: " -n shop", ..PLAIN });
    for width in [120, 100, 80, 60] {
        let text = drawn(width);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width, "{widest} > {width}:\n{text}");
    }
    insta::assert_snapshot!(format!("{}\n{}", drawn(80), drawn(60)));
}

#[test]
fn a_point_with_a_duration_and_one_behind_its_pod_say_how_they_end() {
    let mut pods = four();
    pods[1] = pods[1].clone().annotate("ordereddeployment.io/pause-duration", "5m");
    pods[2] = pods[2].clone().pause("after");
    let mut status = at_revision(1);
    status["conditions"] = json!([]);
    let plan = plan_of(&seen(4, "web:1", &status, &pods), &to_image("web=web:2"));
    insta::assert_snapshot!(as_text::text(&plan, PLAIN));
}

#[test]
fn a_rollout_that_cannot_go_on_says_what_it_waits_for() {
    let mut status = at_revision(1);
    status["conditions"] = json!([]);
    let mut seen = seen(4, "web:1", &status, &four());
    // No node is left to place a pod on.
    seen.nodes.clear();
    let mut plan = plan_of(&seen, &to_image("web=web:2"));
    plan.next = None;
    insta::assert_snapshot!(as_text::text(&plan, PLAIN));
}

#[test]
fn a_scale_down_takes_the_first_of_the_order_and_halts_nowhere() {
    let change = Change { replicas: Some(2), ..Change::default() };
    insta::assert_snapshot!(as_text::text(
        &plan_of(&seen(4, "web:1", &at_revision(1), &four()), &change),
        PLAIN
    ));
}

#[test]
fn what_is_left_of_a_held_rollout_begins_with_its_resume() {
    let mut pods = four();
    let held = pods[1].clone();
    pods.remove(0);
    pods.push(pod("web:2", "gggggggg", "n1"));
    let mut status = held_before(&held);
    status["hold"]["sizes"] = json!({"5d9c7b8c4d": 3, "7f6d9b8c4d": 1});
    let plan = plan_of(&seen(4, "web:2", &status, &pods), &Change::default());
    insta::assert_snapshot!(as_text::text(&plan, PLAIN));
}

#[test]
fn where_nothing_is_to_be_done_it_says_so() {
    let ready: Vec<Pod> = four().into_iter().take(2).collect();
    let plan = plan_of(&seen(2, "web:1", &at_revision(1), &ready), &Change::default());
    let text = as_text::text(&plan, PLAIN);
    assert!(text.starts_with("web in shop: no pod would come or go\n"), "{text}");
}

#[test]
fn a_paused_rollout_goes_no_further() {
    let change = Change {
        manifest: Some(json!({"spec": {"paused": true}})),
        images: vec![image("*=web:2").unwrap()],
        ..Change::default()
    };
    let text = as_text::text(&plan_of(&seen(4, "web:1", &at_revision(1), &four()), &change), PLAIN);
    assert!(text.contains("It goes no further while spec.paused is set."), "{text}");
    assert!(text.starts_with("web in shop: no pod would come or go\n"), "{text}");
}

fn present(last_applied: Option<&Value>) -> OrderedDeployment {
    let mut object: OrderedDeployment = (*seen(4, "web:1", &at_revision(1), &four()).deployment).clone();
    if let Some(applied) = last_applied {
        let key = "kubectl.kubernetes.io/last-applied-configuration".to_owned();
        object.metadata.annotations = Some([(key, applied.to_string())].into());
    }
    object
}

#[test]
fn a_manifest_is_merged_as_kubectl_applies_it() {
    let apply = |manifest: Value, applied: Option<&Value>| {
        let change = Change { manifest: Some(manifest), ..Change::default() };
        change.apply(&present(applied)).unwrap()
    };
    // What it does not speak of stays.
    let same = apply(json!({"spec": {"minReadySeconds": 7}}), None);
    assert_eq!((same.spec.replicas, same.spec.min_ready_seconds), (4, 7));
    assert_eq!(same.metadata.generation, Some(3));
    // What it spoke of, and does no more, goes back to its default.
    let dropped = apply(
        json!({"spec": {"minReadySeconds": 7}}),
        Some(&json!({"spec": {"replicas": 4, "paused": true}})),
    );
    assert_eq!((dropped.spec.replicas, dropped.spec.paused), (1, false));
    // Nothing changed is no new generation.
    assert_eq!(apply(json!({"spec": {"replicas": 4}}), None).metadata.generation, Some(2));
}

#[test]
fn a_change_that_cannot_be_made_is_refused_with_what_to_do() {
    let refused = |change: Change| change.apply(&present(None)).unwrap_err().to_string();
    assert_eq!(
        refused(to_image("sidecar=proxy:2")),
        "the template has no container \"sidecar\"\nhint: it has web"
    );
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}});
    let immutable = refused(Change { manifest: Some(selector), ..Change::default() });
    assert!(immutable.starts_with("the API server would refuse this: spec.selector is immutable\nhint: "));
    assert!(image("web").is_err() && image("=x").is_err() && image("web=").is_err());
}

#[test]
fn a_manifest_is_found_among_others() {
    let text = "kind: Service\n---\nkind: OrderedDeployment\nmetadata: {name: web, namespace: shop}\n";
    let change = Change { manifest: Some(manifest(text).unwrap()), ..Change::default() };
    assert_eq!(change.name(None).unwrap(), "web");
    assert_eq!(change.namespace(None).unwrap().as_deref(), Some("shop"));
    assert_eq!(change.namespace(Some("shop".to_owned())).unwrap().as_deref(), Some("shop"));
    let elsewhere = change.namespace(Some("a".to_owned())).unwrap_err().to_string();
    assert!(elsewhere.starts_with("the manifest is of the namespace shop, not of a\nhint: "), "{elsewhere}");
    assert_eq!(Change::default().namespace(Some("a".to_owned())).unwrap().as_deref(), Some("a"));
    let other = change.name(Some("api")).unwrap_err().to_string();
    assert!(other.starts_with("the manifest is of web, not of api\nhint: "), "{other}");
    let error = |text: &str| manifest(text).unwrap_err().to_string();
    assert!(error("kind: Deployment\n").contains("kubectl ordered convert"));
    assert_eq!(error("kind: Service\n"), "there is no OrderedDeployment in it");
    assert!(error("a: [").starts_with("it is not valid YAML: "), "{}", error("a: ["));
    assert!(error("kind: OrderedDeployment\n---\nkind: OrderedDeployment\n").contains("one at a time"));
}

#[test]
fn a_plan_for_two_billion_pods_says_at_once_that_it_does_not_end() {
    let change = Change { replicas: Some(i32::MAX), ..Change::default() };
    let plan = plan_of(&seen(4, "web:1", &at_revision(1), &four()), &change);
    assert_eq!(plan.preview.end, ordereddeployment_preview::End::Unending);
    assert_eq!(plan.preview.created(), 0);
}
