mod conformance;
mod declared;

use std::collections::BTreeMap;
use std::time::Duration;

use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_placement::Node;
use ordereddeployment_preview::{Assumptions, preview};
use serde_json::{Value, json};

use super::forecast::{Plan, idle_points};
use super::spec_change::{SpecChange, manifest};
use super::{json as as_json, text as as_text};
use crate::commands::set::pair;
use crate::testing::{self, PLAIN, Pod, at_revision, observed_state, paused_before, pod};
use crate::view::state::ObservedState;
use crate::view::tree::Drawing;

/// The last one has a pause point too.
fn four() -> Vec<Pod> {
    let mut pods = testing::four();
    pods[3] = pods[3].clone().priority(-1).pause("after");
    pods
}

/// Complete at revision 1.
fn complete() -> ObservedState {
    observed_state(4, "web:1", &at_revision(1), &four())
}

/// The plan for that change, on the four nodes of the state.
fn plan_of(state: &ObservedState, change: &SpecChange) -> Plan {
    let node = serde_json::from_value(json!({"status": {"allocatable": {"pods": "110"}}})).unwrap();
    let nodes = state.nodes.keys().map(|name| (name.clone(), Node::of(&node))).collect();
    plan_on(state, change, Some(nodes))
}

fn plan_on(state: &ObservedState, change: &SpecChange, nodes: Option<BTreeMap<String, Node>>) -> Plan {
    let mut snapshot = state.observed();
    snapshot.deployment = change.apply(&snapshot.deployment).unwrap().into();
    let assumptions = Assumptions {
        ready_after: Duration::from_secs(5),
        gone_after: Duration::from_secs(2),
        resumed_after: Duration::from_secs(60),
        nodes,
        others: BTreeMap::new(),
    };
    let preview = preview(&snapshot, &assumptions);
    Plan {
        name: "web".into(),
        namespace: "shop".into(),
        is_rest: *change == SpecChange::default(),
        spec: snapshot.deployment.spec.clone(),
        notes: idle_points(&snapshot, &preview),
        preview,
        assumptions,
        ready_after_learned: true,
        next: Some("kubectl ordered set image web web=web:2".to_owned()),
    }
}

fn to_image(text: &str) -> SpecChange {
    SpecChange { images: vec![pair(text).unwrap()], ..SpecChange::default() }
}

fn rollout() -> Plan {
    plan_of(&complete(), &to_image("web=web:2"))
}

#[test]
fn a_rollout_as_json_has_the_same_steps() {
    insta::assert_snapshot!(format!("{:#}\n", as_json::json(&rollout())));
}

#[test]
fn on_narrow_terminals_reasons_are_cut_and_texts_are_wrapped() {
    let drawn = |width| as_text::text(&rollout(), Drawing { width: Some(width), flags: " -n shop", ..PLAIN });
    for width in [120, 100, 80, 60] {
        let text = drawn(width);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width, "{widest} > {width}:\n{text}");
    }
    insta::assert_snapshot!(format!("{}\n{}", drawn(80), drawn(60)));
}

#[test]
fn plans_list_their_steps_and_pauses_and_how_they_end() {
    let mut timed = four();
    timed[1] = timed[1].clone().annotate("ordereddeployment.io/pause-duration", "5m");
    timed[2] = timed[2].clone().pause("after");
    let timed = observed_state(4, "web:1", &at_revision(1), &timed);
    let mut state = complete();
    // No pod can be scheduled.
    state.nodes.clear();
    let stuck = Plan { next: None, ..plan_of(&state, &to_image("web=web:2")) };
    let mut pods = four();
    pods.remove(0);
    let mut status = paused_before(&pods[0]);
    status["hold"]["sizes"] = json!({"5d9c7b8c4d": 3, "7f6d9b8c4d": 1});
    pods.push(pod("web:2", "gggggggg", "n1"));
    let paused = observed_state(4, "web:2", &status, &pods);
    let scaled = SpecChange { replicas: Some(2), ..SpecChange::default() };
    for (name, plan) in [
        ("a_rollout_is_listed_step_by_step_with_its_pauses", rollout()),
        (
            "a_pause_point_with_a_duration_and_one_after_its_pod_show_how_they_end",
            plan_of(&timed, &to_image("web=web:2")),
        ),
        ("a_stuck_rollout_shows_the_reason", stuck),
        ("a_scale_down_deletes_the_first_pods_and_does_not_pause", plan_of(&complete(), &scaled)),
        ("the_rest_of_a_paused_rollout_starts_with_its_resume", plan_of(&paused, &SpecChange::default())),
    ] {
        insta::assert_snapshot!(name, as_text::text(&plan, PLAIN));
    }
}

#[test]
fn without_a_change_no_pod_is_created_or_deleted() {
    let ready: Vec<Pod> = four().into_iter().take(2).collect();
    let state = observed_state(2, "web:1", &at_revision(1), &ready);
    let text = as_text::text(&plan_of(&state, &SpecChange::default()), PLAIN);
    // What to do next.
    let expected = "\
web in shop: no pod would be created or deleted
Complete.
No rollout is running. Preview a change with:
  kubectl ordered plan web --image web=IMAGE
  kubectl ordered plan web --replicas N
  kubectl ordered plan web -f FILE
";
    assert_eq!(text, expected);
    // A change that changes nothing was already a preview.
    let same = as_text::text(&plan_of(&state, &to_image("*=web:1")), PLAIN);
    assert_eq!(same, "web in shop: no pod would be created or deleted\nComplete.\n");
}

#[test]
fn a_rollout_paused_by_its_spec_does_not_continue() {
    let change = SpecChange {
        manifest: Some(json!({"spec": {"paused": true}})),
        images: vec![pair("*=web:2").unwrap()],
        ..SpecChange::default()
    };
    let text = as_text::text(&plan_of(&complete(), &change), PLAIN);
    assert!(text.contains("The rollout does not continue while spec.paused is set."), "{text}");
    assert!(text.starts_with("web in shop: no pod would be created or deleted\n"), "{text}");
}

fn current(last_applied: Option<&Value>) -> OrderedDeployment {
    let mut object = (*complete().deployment).clone();
    if let Some(applied) = last_applied {
        let key = "kubectl.kubernetes.io/last-applied-configuration".to_owned();
        object.metadata.annotations = Some([(key, applied.to_string())].into());
    }
    object
}

#[test]
fn a_manifest_is_merged_as_by_kubectl_apply() {
    let apply = |manifest: Value, applied: Option<&Value>| {
        let change = SpecChange { manifest: Some(manifest), ..SpecChange::default() };
        change.apply(&current(applied)).unwrap()
    };
    // Fields that are not in the manifest stay.
    let same = apply(json!({"spec": {"minReadySeconds": 7}}), None);
    assert_eq!((same.spec.replicas, same.spec.min_ready_seconds), (4, 7));
    assert_eq!(same.metadata.generation, Some(3));
    // Fields that were applied before and are no longer in the manifest get their default.
    let dropped = apply(
        json!({"spec": {"minReadySeconds": 7}}),
        Some(&json!({"spec": {"replicas": 4, "paused": true}})),
    );
    assert_eq!((dropped.spec.replicas, dropped.spec.paused), (1, false));
    // Without a change the generation stays.
    assert_eq!(apply(json!({"spec": {"replicas": 4}}), None).metadata.generation, Some(2));
}

#[test]
fn an_invalid_change_is_refused_with_a_hint() {
    let refused = |change: SpecChange| change.apply(&current(None)).unwrap_err().to_string();
    assert_eq!(
        refused(to_image("sidecar=proxy:2")),
        "the template has no container \"sidecar\"\nhint: it has web"
    );
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}});
    let immutable = refused(SpecChange { manifest: Some(selector), ..SpecChange::default() });
    assert!(immutable.starts_with("the API server would reject this: spec.selector is immutable\nhint: "));
}

#[test]
fn the_manifest_is_found_among_other_documents() {
    let text = "kind: Service\n---\nkind: OrderedDeployment\nmetadata: {name: web, namespace: shop}\n";
    let change = SpecChange { manifest: Some(manifest(text).unwrap()), ..SpecChange::default() };
    assert_eq!(change.name(None).unwrap(), "web");
    assert_eq!(change.namespace(None).unwrap().as_deref(), Some("shop"));
    assert_eq!(change.namespace(Some("shop".to_owned())).unwrap().as_deref(), Some("shop"));
    let elsewhere = change.namespace(Some("a".to_owned())).unwrap_err().to_string();
    assert!(elsewhere.starts_with("the manifest has namespace shop, not a\nhint: "), "{elsewhere}");
    assert_eq!(SpecChange::default().namespace(Some("a".to_owned())).unwrap().as_deref(), Some("a"));
    let other = change.name(Some("api")).unwrap_err().to_string();
    assert!(other.starts_with("the manifest has name web, not api\nhint: "), "{other}");
    let error = |text: &str| format!("{:#}", manifest(text).unwrap_err());
    assert!(error("kind: Deployment\n").contains("kubectl ordered convert"));
    assert_eq!(error("kind: Service\n"), "the manifest has no OrderedDeployment");
    assert!(error("a: [").starts_with("invalid YAML: "), "{}", error("a: ["));
    assert!(error("kind: OrderedDeployment\n---\nkind: OrderedDeployment\n").contains("one at a time"));
}

#[test]
fn a_plan_for_two_billion_pods_stops_early() {
    let change = SpecChange { replicas: Some(i32::MAX), ..SpecChange::default() };
    let plan = plan_of(&complete(), &change);
    assert_eq!(plan.preview.end, ordereddeployment_preview::End::LimitReached);
    assert_eq!(plan.preview.created(), 0);
}

#[test]
fn long_plans_are_folded_between_their_pauses() {
    let many =
        (0..80).map(|number| Pod { name: format!("web-5d9c7b8c4d-{number:04}"), ..pod("web:1", "", "n1") });
    let mut pods: Vec<Pod> = many.collect();
    pods[0] = pods[0].clone().priority(-1).pause("before");
    let plan = plan_of(&observed_state(80, "web:1", &at_revision(1), &pods), &to_image("web=web:2"));
    let text = as_text::text(&plan, PLAIN);
    assert!(text.contains("more deletes in this order (--all shows them)"), "{text}");
    assert!(
        text.contains("paused at pause point web-5d9c7b8c4d-0000") && text.lines().count() < 60,
        "{text}"
    );
    let all = Drawing { fold: crate::view::tree::Fold { all: true, ..PLAIN.fold }, ..PLAIN };
    let shown = as_text::text(&plan, all);
    let deletes = shown.lines().filter(|line| line.contains("delete ") && line.contains("web-5d9c7b8c4d-"));
    assert_eq!(deletes.count(), 80);
}

#[test]
fn without_nodes_each_new_pod_finds_one() {
    let state = complete();
    let plan = plan_on(&state, &to_image("web=web:2"), None);
    assert_eq!(plan.preview.end, ordereddeployment_preview::End::Complete);
    // With nodes that have no room, they stay pending.
    let plan = plan_on(&state, &to_image("web=web:2"), Some(BTreeMap::new()));
    assert_ne!(plan.preview.end, ordereddeployment_preview::End::Complete);
}
