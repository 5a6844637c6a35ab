use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::resource::{builtin as info, builtins};

const NOW: &str = "2024-01-01T01:00:00Z";

/// The cells by the names of their columns.
fn row(info: &ResourceInfo, object: &Value) -> Value {
    let now: Timestamp = NOW.parse().unwrap();
    let version = json!({"resourceVersion": "7"});
    let table = table(info, std::slice::from_ref(object), &version, now);
    assert_eq!(table["rows"][0]["object"], *object);
    assert_eq!(table["metadata"]["resourceVersion"], "7");
    let names = table["columnDefinitions"].as_array().unwrap().iter();
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(names.len(), cells.len(), "{}", info.kind);
    names.map(|column| column["name"].as_str().unwrap().to_owned()).zip(cells.iter().cloned()).collect()
}

#[test]
fn the_status_of_a_pod_is_one_word() {
    let waiting =
        json!([{"name": "a", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
    let running = json!([{"name": "a", "ready": true, "restartCount": 1, "state": {"running": {}}}]);
    for (status, terminating, wanted) in [
        (json!({"phase": "Pending"}), false, ["Pending", "0/1", "0"]),
        (json!({"phase": "Running", "containerStatuses": running}), false, ["Running", "1/1", "1"]),
        (json!({"phase": "Running", "containerStatuses": running}), true, ["Terminating", "1/1", "1"]),
        (json!({"phase": "Running", "containerStatuses": waiting}), false, ["CrashLoopBackOff", "0/1", "2"]),
        (json!({"phase": "Failed", "reason": "OutOfcpu"}), true, ["OutOfcpu", "0/1", "0"]),
    ] {
        let mut pod = json!({"metadata": {"name": "web", "creationTimestamp": "2024-01-01T00:50:00Z"},
            "spec": {"containers": [{"name": "a"}], "nodeName": "n1"}, "status": status});
        if terminating {
            pod["metadata"]["deletionTimestamp"] = NOW.into();
        }
        let [status, ready, restarts] = wanted;
        assert_eq!(
            row(&info("Pod"), &pod),
            json!({"Name": "web", "Ready": ready, "Status": status, "Restarts": restarts, "Age": "10m",
                "Node": "n1"})
        );
    }
}

#[test]
fn every_builtin_has_a_row_even_when_empty() {
    for info in builtins() {
        assert!(row(&info, &json!({"metadata": {"name": "x"}})).as_object().unwrap().len() > 1);
    }
    let node = json!({"metadata": {}, "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(row(&info("Node"), &node)["Status"], "Ready,SchedulingDisabled");
    let event = json!({"metadata": {}, "involvedObject": {"kind": "Pod", "name": "web"}, "reason": "Killing",
        "lastTimestamp": "2024-01-01T00:57:57Z"});
    let shown = row(&info("Event"), &event);
    assert_eq!((&shown["Object"], &shown["Last Seen"]), (&json!("pod/web"), &json!("2m3s")));
}

#[test]
fn custom_columns_follow_their_paths_and_types() {
    let mut custom = ResourceInfo { origin: Origin::Crd, ..info("Pod") };
    let object = json!({
        "metadata": {"name": "w", "creationTimestamp": "2023-12-31T20:00:00Z",
        "annotations": {"a.b/c": "dotted"}},
        "spec": {"replicas": 3, "map": {"a": 1}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "No"}]},
    });
    custom.columns = vec![];
    assert_eq!(row(&custom, &object), json!({"Name": "w", "Age": "5h"}));
    let columns = [
        ("integer", ".spec.replicas", json!(3)),
        ("string", ".spec.map", json!("{\"a\":1}")),
        ("integer", ".metadata.name", Value::Null),
        ("string", ".status.nothing", Value::Null),
        ("string", ".status.conditions[0].status", Value::Null),
        ("string", r#".status.conditions[?(@.type=="Other")].status"#, json!("No")),
        ("string", r".metadata.annotations.a\.b/c", json!("dotted")),
        ("date", ".metadata.creationTimestamp", json!("5h")),
    ];
    let own = |(type_, path, _): &(&str, &str, Value)| CustomResourceColumnDefinition {
        name: (*path).to_owned(),
        type_: (*type_).to_owned(),
        json_path: (*path).to_owned(),
        ..CustomResourceColumnDefinition::default()
    };
    custom.columns = columns.iter().map(own).collect();
    let shown = row(&custom, &object);
    for (_, path, wanted) in columns {
        assert_eq!(shown[path], wanted, "{path}");
    }
}
