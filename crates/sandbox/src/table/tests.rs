use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::resource::{Column, builtins};

const NOW: &str = "2024-01-01T01:00:00Z";

fn info(kind: &str) -> ResourceInfo {
    builtins().into_iter().find(|i| i.kind == kind).unwrap()
}

fn row(info: &ResourceInfo, object: &Value) -> Vec<(String, Value)> {
    let now: Timestamp = NOW.parse().unwrap();
    let table = table(info, &[object], json!({"resourceVersion": "7"}), now, IncludeObject::Metadata);
    assert_eq!(table["rows"][0]["object"]["metadata"], object["metadata"]);
    assert_eq!(table["metadata"]["resourceVersion"], "7");
    let names = table["columnDefinitions"].as_array().unwrap().iter();
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(names.len(), cells.len(), "{}", info.kind);
    names.map(|c| c["name"].as_str().unwrap().to_owned()).zip(cells.iter().cloned()).collect()
}

fn cell(info: &ResourceInfo, object: &Value, column: &str) -> Value {
    row(info, object).into_iter().find(|(name, _)| name == column).unwrap().1
}

fn pod(phase: &str, more: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": "web", "creationTimestamp": "2024-01-01T00:50:00Z"},
        "spec": {"containers": [{"name": "a"}]}, "status": {"phase": phase}});
    json_patch::merge(&mut pod, more);
    pod
}

#[test]
fn the_status_of_a_pod_is_that_of_kubectl() {
    let running = json!([{"name": "a", "ready": true, "restartCount": 0, "state": {"running": {}}}]);
    for (pod, wanted) in [
        (pod("Pending", &json!({})), "Pending"),
        (pod("Running", &json!({"status": {"containerStatuses": running}})), "Running"),
        (
            pod(
                "Running",
                &json!({"metadata": {"deletionTimestamp": NOW}, "status": {"containerStatuses": running}}),
            ),
            "Terminating",
        ),
        (pod("Succeeded", &json!({"metadata": {"deletionTimestamp": NOW}})), "Succeeded"),
        (
            pod(
                "Running",
                &json!({"status": {"containerStatuses": [
                {"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}),
            ),
            "CrashLoopBackOff",
        ),
        (
            pod(
                "Failed",
                &json!({"status": {"containerStatuses": [
                {"name": "a", "state": {"terminated": {"exitCode": 3}}}]}}),
            ),
            "ExitCode:3",
        ),
        (
            pod(
                "Pending",
                &json!({"spec": {"initContainers": [{"name": "i"}, {"name": "j"}]},
                "status": {"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}},
                    {"name": "j", "state": {"running": {}}}]}}),
            ),
            "Init:1/2",
        ),
        (
            pod(
                "Pending",
                &json!({"spec": {"initContainers": [{"name": "i"}]},
                "status": {"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1,
                    "reason": "Error"}}}]}}),
            ),
            "Init:Error",
        ),
        (pod("Failed", &json!({"status": {"reason": "Evicted"}})), "Evicted"),
        (
            pod(
                "Running",
                &json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]},
                "status": {"conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [
                    {"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
                    {"name": "b", "ready": true, "state": {"running": {}}}]}}),
            ),
            "NotReady",
        ),
        (
            pod(
                "Pending",
                &json!({"status": {"conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}}),
            ),
            "SchedulingGated",
        ),
    ] {
        assert_eq!(cell(&info("Pod"), &pod, "Status"), wanted, "{pod}");
    }
}

#[test]
fn a_pod_counts_ready_containers_and_restarts() {
    let pod = pod(
        "Running",
        &json!({"spec": {"nodeName": "n1", "containers": [{"name": "a"}, {"name": "b"}]}, "status": {"podIP": "10.0.0.1",
            "containerStatuses": [
                {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}},
                 "lastState": {"terminated": {"finishedAt": "2024-01-01T00:58:00Z"}}},
                {"name": "b", "ready": false, "restartCount": 1, "state": {"running": {}}}]}}),
    );
    let cells: Vec<Value> = row(&info("Pod"), &pod).into_iter().map(|(_, v)| v).collect();
    assert_eq!(
        cells,
        ["web", "1/2", "Running", "3 (2m ago)", "10m", "10.0.0.1", "n1", "<none>", "<none>"].map(Value::from)
    );
}

#[test]
fn restarts_of_sidecars_count_and_those_of_finished_init_containers_do_not() {
    let pod = pod(
        "Running",
        &json!({"spec": {"initContainers": [{"name": "once"}, {"name": "side", "restartPolicy": "Always"}]},
            "status": {
                "initContainerStatuses": [
                    {"name": "once", "restartCount": 4, "state": {"terminated": {"exitCode": 0}}},
                    {"name": "side", "restartCount": 2, "ready": true, "started": true, "state": {"running": {}}}],
                "containerStatuses": [
                    {"name": "a", "ready": true, "restartCount": 1, "state": {"running": {}}}]}}),
    );
    assert_eq!(cell(&info("Pod"), &pod, "Restarts"), "3");
    assert_eq!(cell(&info("Pod"), &pod, "Ready"), "2/2");
}

#[test]
fn every_builtin_has_as_many_cells_as_columns_even_when_empty() {
    for info in builtins() {
        assert!(!row(&info, &json!({"metadata": {"name": "x"}})).is_empty());
    }
}

#[test]
fn nodes_show_readiness_cordon_and_roles() {
    let node = json!({"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(cell(&info("Node"), &node, "Status"), "Ready,SchedulingDisabled");
    assert_eq!(cell(&info("Node"), &node, "Roles"), "worker");
}

#[test]
fn events_of_both_apis_read_the_same() {
    let old = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "web"}, "type": "Normal",
        "reason": "Killing", "message": "bye", "lastTimestamp": "2024-01-01T00:59:00Z", "count": 2,
        "firstTimestamp": "2024-01-01T00:50:00Z", "source": {"component": "kubelet"}});
    let new = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "web"}, "type": "Normal",
        "reason": "Killing", "note": "bye", "deprecatedLastTimestamp": "2024-01-01T00:59:00Z", "deprecatedCount": 2,
        "deprecatedFirstTimestamp": "2024-01-01T00:50:00Z", "deprecatedSource": {"component": "kubelet"}});
    assert_eq!(row(&info("Event"), &old), row(&info("Event"), &new));
    assert_eq!(cell(&info("Event"), &old, "Object"), "pod/web");
    assert_eq!(cell(&info("Event"), &old, "Last Seen"), "60s");
}

#[test]
fn custom_columns_follow_their_paths_and_types() {
    let column = |name: &str, column_type: &str, path: &str, priority: i64| Column {
        name: name.to_owned(),
        type_: column_type.to_owned(),
        format: String::new(),
        description: String::new(),
        priority,
        json_path: path.to_owned(),
    };
    let mut custom = ResourceInfo { origin: Origin::Crd, ..info("Pod") };
    let object = json!({"metadata": {"name": "w", "creationTimestamp": "2024-01-01T00:00:00Z"},
        "spec": {"replicas": 3, "on": true, "map": {"a": 1}}, "status": {"hold": {"id": "x@1"}}});
    custom.columns = vec![];
    assert_eq!(row(&custom, &object)[1], ("Age".to_owned(), json!("60m")));
    custom.columns = vec![
        column("Desired", "integer", ".spec.replicas", 0),
        column("Hold", "string", ".status.hold.id", 1),
        column("Map", "string", ".spec.map", 0),
        column("Wrong", "integer", ".status.hold.id", 0),
        column("Absent", "string", ".status.nothing", 0),
        column("Age", "date", ".metadata.creationTimestamp", 0),
    ];
    let cells: Vec<Value> = row(&custom, &object).into_iter().map(|(_, v)| v).collect();
    assert_eq!(
        cells,
        [json!("w"), json!(3), json!("x@1"), json!("{\"a\":1}"), Value::Null, Value::Null, json!("60m")]
    );
}
