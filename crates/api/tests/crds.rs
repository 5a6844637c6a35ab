//! The committed definitions are those of the code.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::PathBuf;

use ordereddeployment_api::{OrderedDeploymentStatus, crds, to_yaml};
use serde_json::{Value, json};

/// Where the chart keeps the definition named `name`.
fn committed(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../charts/ordered-deployment/crds/{name}.yaml"))
}

#[test]
fn the_committed_definitions_are_those_of_the_code() {
    for crd in crds() {
        let path = committed(crd.metadata.name.as_deref().unwrap());
        if std::env::var_os("UPDATE_CRDS").is_some() {
            std::fs::write(&path, to_yaml(&crd)).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == to_yaml(&crd),
            "{} is not what the code says: run `cargo xtask crds`",
            path.display()
        );
    }
}

#[test]
fn the_definitions_are_small_enough_for_client_side_apply() {
    for crd in crds() {
        assert!(serde_json::to_string(&crd).unwrap().len() < 262_144 / 2);
    }
}

/// The paths in a schema of lists, maps and texts without a limit.
fn unlimited(schema: &Value, path: &str, found: &mut Vec<String>) {
    let (limit, is_listed) = match schema["type"].as_str() {
        Some("array") => ("maxItems", false),
        Some("object") if schema.get("additionalProperties").is_some() => ("maxProperties", false),
        Some("string") => ("maxLength", schema.get("enum").is_some()),
        _ if schema.get("x-kubernetes-int-or-string").is_some() => ("maxLength", false),
        _ => ("", true),
    };
    if !is_listed && schema.get(limit).is_none() {
        found.push(path.to_owned());
    }
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        unlimited(inner, &format!("{path}.{key}"), found);
    }
    for inner in ["items", "additionalProperties"].into_iter().filter_map(|key| schema.get(key)) {
        unlimited(inner, &format!("{path}[]"), found);
    }
}

#[test]
fn every_list_map_and_text_of_a_status_has_a_limit() {
    let mut found = Vec::new();
    for crd in crds() {
        let crd = serde_json::to_value(crd).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
        unlimited(schema, "status", &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_status_beyond_its_limits_is_cut_to_them_once() {
    let text = "é".repeat(70_000);
    let time = "2023-11-14T22:13:20Z";
    let passed: Vec<_> =
        (0..5000).map(|at| json!({"id": format!("{}", at / 2), "resumedAt": time})).collect();
    let points: Vec<_> = (0..5000).map(|at| json!({"id": format!("{at}{text}")})).collect();
    let conditions: Vec<_> = (0..100)
        .map(|at| {
            json!({"type": format!("T{}", at / 2), "status": "True", "reason": text, "message": text,
                   "lastTransitionTime": time, "lastUpdateTime": time})
        })
        .chain([json!({"type": "Complete", "status": "True", "reason": "r", "message": "m",
                       "lastTransitionTime": time, "lastUpdateTime": time})])
        .collect();
    let entry = json!({"action": "Held", "id": text, "revision": 1, "at": time, "reason": text});
    let mut status: OrderedDeploymentStatus = serde_json::from_value(json!({
        "selector": "x".repeat(500_000), "conditions": conditions, "passed": passed,
        "history": vec![entry; 100], "blocked": {"id": text, "since": time},
        "rollout": {"revision": 1, "templateHash": text, "points": points,
                    "from": {"revision": 1, "templateHash": text}},
        "aborted": {"revision": 1, "to": 1, "templateHash": text, "at": time, "reason": text},
        "hold": {"id": text, "pod": text, "podUID": text, "node": text, "point": "Before", "revision": 1,
        "since": time,
                 "replicas": 1, "declared": {"name": text, "group": text}},
    }))
    .unwrap();
    assert!(status.limit());
    assert!(status.condition("Complete").is_some(), "the controller's own conditions stay");
    assert_eq!(status.passed.as_ref().unwrap().last().unwrap().id, "2499", "the last ones stay");
    let mut wrong = Vec::new();
    let crd = serde_json::to_value(&crds()[0]).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
    beyond(schema, &serde_json::to_value(&status).unwrap(), "status", &mut wrong);
    assert_eq!(wrong, Vec::<String>::new());
    assert!(!status.limit(), "nothing is left to cut");
}

/// The paths of values that are longer than the schema allows.
fn beyond(schema: &Value, value: &Value, path: &str, wrong: &mut Vec<String>) {
    let length = match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(entries) => entries.len(),
        _ => 0,
    };
    let limits =
        ["maxLength", "maxItems", "maxProperties"].into_iter().filter_map(|key| schema[key].as_u64());
    if limits.min().is_some_and(|most| u64::try_from(length).unwrap() > most) {
        wrong.push(path.to_owned());
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        beyond(&schema["items"], item, &format!("{path}[{at}]"), wrong);
    }
    for (key, item) in value.as_object().into_iter().flatten() {
        let inner = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
        beyond(inner, item, &format!("{path}.{key}"), wrong);
    }
}
