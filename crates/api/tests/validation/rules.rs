//! Every rule refuses what it should with a message for people, and the CEL of the definitions and the Rust
//! of `validate` agree, on the cases of each rule and on random specs.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeSet;

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
    each_once(broken_rules(&schema, &object, None))
}

fn each_once(messages: Vec<String>) -> Vec<String> {
    BTreeSet::from_iter(messages).into_iter().collect()
}

/// The messages of the same rules in Rust.
fn by_rust(object: &Value) -> Vec<String> {
    let typed: OrderedDeployment = serde_json::from_value(object.clone()).unwrap();
    each_once(validate(&typed.spec).into_iter().map(|violation| violation.message).collect())
}

/// What CEL says to the cases is asserted beside, in `constraints`.
#[test]
fn every_rule_says_the_same_in_cel_and_in_rust() {
    for case in cases::all().iter().filter(|case| case.kind == DEPLOYMENT && case.is_cel()) {
        for patch in case.breaks.iter().filter(|_| !case.is_transition()) {
            let object = case.object(patch);
            // What the types cannot hold never reaches the rules in Rust.
            if serde_json::from_value::<OrderedDeployment>(object.clone()).is_ok() {
                assert_eq!(by_rust(&object), [case.says()], "{patch}");
            }
        }
        for patch in &case.passes {
            assert_eq!(by_rust(&case.object(patch)), Vec::<String>::new(), "{patch}");
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

/// The manifests that users copy, next to the documentation.
#[test]
fn the_sample_manifests_break_no_rule() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");
    let mut points = 0;
    for name in ["web.yaml", "pause-points.yaml"] {
        let text = std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        let object: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(by_cel(&object), Vec::<String>::new(), "{name}");
        assert_eq!(by_rust(&object), Vec::<String>::new(), "{name}");
        points += object["spec"]["strategy"]["pausePoints"].as_array().map_or(0, Vec::len);
    }
    assert_eq!(points, 3);
}

/// Of the schema's constraints on pause points, validation in Rust knows all but the lengths inside a
/// selector.
#[test]
fn pause_points_that_the_schema_refuses_are_refused_in_rust_too() {
    let of_points = |case: &&cases::Case| {
        case.at.starts_with("spec.strategy.pausePoints")
            && !case.at.contains("beforeNodes.")
            && !case.is_cel()
    };
    let mut refused = 0;
    for case in cases::all().iter().filter(of_points) {
        for patch in &case.breaks {
            let object = case.object(patch);
            // What the types cannot hold never reaches the rules in Rust.
            if serde_json::from_value::<OrderedDeployment>(object.clone()).is_ok() {
                assert_ne!(by_rust(&object), Vec::<String>::new(), "{}: {patch}", case.id());
                refused += 1;
            }
        }
        for patch in &case.passes {
            assert_eq!(by_rust(&case.object(patch)), Vec::<String>::new(), "{}: {patch}", case.id());
        }
    }
    assert!(refused > 40, "{refused}");
}

const NUMBERS: &str = "the numbers of afterUpdated must not decrease from one pause point to the next";
const PERCENTAGES: &str =
    "the percentages of afterUpdated must not decrease from one pause point to the next";

/// Their price in CEL is too high.
#[test]
fn numbers_that_decrease_are_refused_in_rust_alone() {
    let said = |counts: &[Value]| {
        let points = counts.iter().enumerate();
        let points = points.map(|(at, count)| json!({"name": format!("point-{at}"), "afterUpdated": count}));
        let object = with(&[("/strategy/pausePoints", points.collect())]);
        assert_eq!(by_cel(&object), Vec::<String>::new());
        by_rust(&object)
    };
    let refused: [(&[Value], &str); 7] = [
        (&[json!(2), json!(1)], NUMBERS),
        (&[json!(10), json!(9)], NUMBERS),
        (&[json!(2), json!("50%"), json!(1)], NUMBERS),
        (&[json!(1), json!(3), json!(2)], NUMBERS),
        (&[json!("50%"), json!("10%")], PERCENTAGES),
        (&[json!("100%"), json!("9%")], PERCENTAGES),
        (&[json!("50%"), json!(1), json!("049%")], PERCENTAGES),
    ];
    for (counts, message) in refused {
        assert_eq!(said(counts), [message], "{counts:?}");
    }
    let accepted: [&[Value]; 4] = [
        &[json!(1), json!(1), json!(2)],
        &[json!(9), json!(10), json!(i32::MAX)],
        &[json!("9%"), json!("10%"), json!("010%"), json!("100%")],
        // Which of them comes first depends on the replicas.
        &[json!(5), json!("10%"), json!(6), json!("11%")],
    ];
    for counts in accepted {
        assert_eq!(said(counts), Vec::<String>::new(), "{counts:?}");
    }
}

#[test]
fn a_wrong_pause_point_is_named_by_its_index_and_field() {
    let points = json!([
        {"name": "canary", "afterUpdated": 2},
        {"name": "Canary", "afterUpdated": "0%", "duration": "10"},
        {"name": "canary", "afterUpdated": 1, "duration": "0s"},
    ]);
    let typed: OrderedDeployment =
        serde_json::from_value(with(&[("/strategy/pausePoints", points)])).unwrap();
    let found: Vec<_> = validate(&typed.spec).iter().map(ToString::to_string).collect();
    let at = "spec.strategy.pausePoints";
    assert_eq!(
        found,
        [
            format!("{at}[1].name: must be a DNS label, such as canary"),
            format!(
                "{at}[1].afterUpdated: must be an integer greater than 0 or a percentage from 1% to 100%"
            ),
            format!(
                "{at}[1].duration: must be a duration such as 10m, of at most 20 characters and with at most \
                 6 digits before a unit"
            ),
            format!("{at}[2]: another pause point has the same name"),
            format!("{at}[2]: duration must be longer than 0s and at most 876000h"),
            format!(
                "{at}[2]: the numbers of afterUpdated must not decrease from one pause point to the next"
            ),
        ]
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

/// Pause points that the schema lets pass, with some, one or no kind.
fn points() -> impl Strategy<Value = Value> {
    let count = prop_oneof![
        (1i32..12).prop_map(|number| json!(number)),
        "0{0,2}([1-9][0-9]?|100)%".prop_map(|text| json!(text)),
    ];
    let label = prop_oneof![Just(json!("zone")), Just(json!("topology.kubernetes.io/zone"))];
    let kind = prop_oneof![
        count.prop_map(|count| json!({"afterUpdated": count})),
        (-1i32..2).prop_map(|priority| json!({"beforePriority": priority})),
        selector().prop_map(|nodes| json!({"beforeNodes": nodes})),
        label.prop_map(|label| json!({"betweenNodeGroups": label})),
    ];
    let duration = prop_oneof![
        "[0-9]{1,6}([.][0-9]{0,2})?(ns|us|ms|s|m|h)",
        "([0-9]{1,2}(ns|us|ms|s|m|h)){1,4}",
        "87(6000|5999|6001)h",
    ];
    let kinds = prop_oneof![4 => Just(1_usize), 1 => 0..3_usize];
    let point = (kinds, proptest::collection::vec(kind, 3), proptest::option::of(duration)).prop_map(
        |(kinds, all, duration)| {
            let mut point = json!({});
            for fields in all.iter().take(kinds).filter_map(Value::as_object).flatten() {
                point[fields.0] = fields.1.clone();
            }
            if let Some(duration) = duration {
                point["duration"] = json!(duration);
            }
            point
        },
    );
    proptest::collection::vec(point, 0..5).prop_map(|mut points| {
        for (index, point) in points.iter_mut().enumerate() {
            point["name"] = json!(format!("point-{index}"));
        }
        Value::Array(points)
    })
}

proptest! {
    #[test]
    fn cel_and_rust_agree_on_random_pause_points(points in points(), recreate: bool) {
        let mut changes = vec![("/strategy/pausePoints", points)];
        if recreate {
            changes.extend([("/strategy/type", json!("Recreate")), ("/strategy/rollingUpdate", Value::Null)]);
        }
        let object = with(&changes);
        let mut rust = by_rust(&object);
        rust.retain(|message| message != NUMBERS && message != PERCENTAGES);
        prop_assert_eq!(by_cel(&object), rust);
    }

    #[test]
    fn cel_and_rust_agree_on_random_specs(
        surge in amount(), unavailable in amount(), selector in selector(), recreate: bool,
        min_ready in 0i32..4, deadline in 0i32..4, pool in selector(),
        cordoned in proptest::option::of(any::<bool>()),
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
