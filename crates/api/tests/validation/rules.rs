//! Every rule refuses what it should with a message for people, and the CEL of the definitions and the Rust of
//! `validate` agree, on the cases of each rule and on random specs.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use ordereddeployment_api::{OrderedDeployment, crds, validate};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cases::{self, DEPLOYMENT};
use crate::evaluation::{broken_rules, schema_of, set_defaults};

/// A valid object.
fn valid() -> Value {
    json!({
        "apiVersion": "ordereddeployment.io/v1alpha1",
        "kind": "OrderedDeployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "front"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })
}

/// The object with the spec's fields at these pointers set; null removes.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut object = valid();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(&format!("/spec{parent}")).unwrap().as_object_mut().unwrap();
        if value.is_null() {
            parent.remove(key);
        } else {
            parent.insert(key.to_owned(), value.clone());
        }
    }
    object
}

/// The messages of the CEL rules that `object` breaks.
fn by_cel(object: &Value) -> Vec<String> {
    let schema = schema_of(DEPLOYMENT);
    let mut object = object.clone();
    set_defaults(&mut object, &schema);
    let mut messages = broken_rules(&schema, &object, None);
    messages.sort();
    messages.dedup();
    messages
}

/// The messages of the same rules in Rust.
fn by_rust(object: &Value) -> Vec<String> {
    let typed: OrderedDeployment = serde_json::from_value(object.clone()).unwrap();
    let mut messages: Vec<_> = validate(&typed.spec).into_iter().map(|violation| violation.message).collect();
    messages.sort();
    messages.dedup();
    messages
}

#[test]
fn every_rule_says_the_same_in_cel_and_in_rust() {
    for case in cases::all().iter().filter(|case| case.kind == DEPLOYMENT && case.is_cel()) {
        for patch in case.breaks.iter().filter(|_| !case.is_transition()) {
            let object = case.object(patch);
            assert_eq!(by_cel(&object), [case.says()], "{patch}");
            // What the types cannot hold never reaches the rules in Rust.
            if serde_json::from_value::<OrderedDeployment>(object.clone()).is_ok() {
                assert_eq!(by_rust(&object), [case.says()], "{patch}");
            }
        }
        for patch in &case.passes {
            let object = case.object(patch);
            assert_eq!(by_cel(&object), Vec::<String>::new(), "{patch}");
            assert_eq!(by_rust(&object), Vec::<String>::new(), "{patch}");
        }
    }
}

#[test]
fn a_number_in_quotes_without_a_percent_sign_is_refused_by_the_schema_and_in_rust() {
    let crd = serde_json::to_value(&crds()[0]).unwrap();
    let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties").unwrap();
    let bounds = &schema["strategy"]["properties"]["rollingUpdate"]["properties"];
    for bound in ["maxSurge", "maxUnavailable"] {
        assert_eq!(bounds[bound]["pattern"], "^[0-9]+%$");
        let quoted = with(&[(&format!("/strategy/rollingUpdate/{bound}"), json!("5"))]);
        assert!(by_rust(&quoted)[0].contains("must be an integer"));
    }
}

#[test]
fn integers_out_of_range_are_refused_in_rust_too() {
    for field in ["/replicas", "/minReadySeconds", "/revisionHistoryLimit"] {
        assert_eq!(by_rust(&with(&[(field, json!(-1))])), ["must be greater than or equal to 0"], "{field}");
    }
    assert_eq!(
        by_rust(&with(&[("/template/spec/containers", json!([]))])),
        ["must have at least one container"]
    );
}

fn amount() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-2i32..3).prop_map(|number| json!(number)),
        "0{0,2}[0-9]{0,3}%".prop_map(|text| json!(text)),
        Just(json!("0%")),
    ]
}

fn selector() -> impl Strategy<Value = Value> {
    let label = prop_oneof![Just("app"), Just("tier"), Just("none")];
    let value = prop_oneof![Just("web"), Just("front"), Just("x")];
    let operator = prop_oneof![Just("In"), Just("NotIn"), Just("Exists"), Just("DoesNotExist")];
    let values = proptest::option::of(proptest::collection::vec(value.clone(), 0..3));
    let requirement = (label.clone(), operator, values).prop_map(|(key, operator, values)| match values {
        Some(values) => json!({"key": key, "operator": operator, "values": values}),
        None => json!({"key": key, "operator": operator}),
    });
    let labels = proptest::option::of(proptest::collection::btree_map(label, value, 0..3));
    (labels, proptest::option::of(proptest::collection::vec(requirement, 0..3))).prop_map(
        |(labels, expressions)| {
            let mut selector = json!({});
            if let Some(labels) = labels {
                selector["matchLabels"] = json!(labels);
            }
            if let Some(expressions) = expressions {
                selector["matchExpressions"] = json!(expressions);
            }
            selector
        },
    )
}

proptest! {
    #[test]
    fn cel_and_rust_agree_on_random_specs(
        surge in amount(), unavailable in amount(), selector in selector(), recreate: bool,
        min_ready in 0i32..4, deadline in 0i32..4, pool in selector(), cordoned in proptest::option::of(any::<bool>()),
        unassigned in proptest::option::of(any::<bool>()), priority in proptest::option::of(0i32..2),
    ) {
        let mut rule = json!({"nodeSelector": pool, "deletionCost": 1});
        if let Some(cordoned) = cordoned { rule["unschedulable"] = json!(cordoned); }
        if let Some(unassigned) = unassigned { rule["unassigned"] = json!(unassigned); }
        if let Some(priority) = priority { rule["priority"] = json!(priority); }
        let object = with(&[
            ("/strategy/rollingUpdate/maxSurge", surge),
            ("/strategy/rollingUpdate/maxUnavailable", unavailable),
            ("/strategy/type", json!(if recreate { "Recreate" } else { "RollingUpdate" })),
            ("/selector", selector),
            ("/minReadySeconds", json!(min_ready)),
            ("/progressDeadlineSeconds", json!(deadline)),
            ("/deletionOrder", json!({"nodePriorities": [rule]})),
        ]);
        prop_assert_eq!(by_cel(&object), by_rust(&object));
    }
}
