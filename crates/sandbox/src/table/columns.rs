//! The columns of each kind, and their cells.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age, jsonpath};
use crate::object::at;
use crate::resource::{self, ResourceInfo};

/// One column.
pub(super) struct Column {
    head: resource::Column,
    /// The text of several fields; otherwise the path of the column is read.
    read: Option<fn(&Value, Timestamp) -> String>,
}

impl Column {
    /// The definition of the column.
    pub(super) fn head(&self) -> Value {
        json!(self.head)
    }

    /// A value of another type than that of the column is omitted. A string column shows any value.
    pub(super) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        if let Some(read) = self.read {
            return read(object, now).into();
        }
        match (self.head.type_.as_str(), jsonpath::first(object, &self.head.json_path)) {
            ("integer" | "number", Some(value @ Value::Number(_)))
            | ("boolean", Some(value @ Value::Bool(_)))
            | ("string", Some(value @ Value::String(_))) => value.clone(),
            ("date", Some(Value::String(time))) => age::since(time, now).into(),
            ("string", Some(other)) if !other.is_null() => other.to_string().into(),
            _ => Value::Null,
        }
    }
}

fn path(name: &str, type_: &str, path: &str) -> Column {
    // kubectl recognizes the name column by this format.
    let format = if name == "Name" { "name" } else { "" };
    let head = resource::Column {
        name: name.to_owned(),
        type_: type_.to_owned(),
        format: format.to_owned(),
        json_path: path.to_owned(),
        ..resource::Column::default()
    };
    Column { head, read: None }
}

fn text(name: &str, read: fn(&Value, Timestamp) -> String) -> Column {
    Column { read: Some(read), ..path(name, "string", "") }
}

fn name() -> Column {
    path("Name", "string", ".metadata.name")
}

fn age() -> Column {
    path("Age", "date", ".metadata.creationTimestamp")
}

/// The columns of a custom resource, from `additionalPrinterColumns`.
pub(super) fn custom(info: &ResourceInfo) -> Vec<Column> {
    let own = |column: &resource::Column| Column { head: column.clone(), read: None };
    let age = info.columns.is_empty().then(age);
    [name()].into_iter().chain(age).chain(info.columns.iter().map(own)).collect()
}

/// The columns of a built-in kind.
pub(super) fn builtin(kind: &str) -> Vec<Column> {
    let own = match kind {
        "Pod" => {
            let mut node = path("Node", "string", ".spec.nodeName");
            node.head.priority = 1;
            let ready = text("Ready", |pod, _| {
                let ready = containers(pod).filter(|one| one["ready"] == true).count();
                format!("{ready}/{}", list(pod, ".spec.containers").len())
            });
            let restarts = text("Restarts", |pod, _| {
                containers(pod).filter_map(|one| one["restartCount"].as_i64()).sum::<i64>().to_string()
            });
            return vec![name(), ready, text("Status", |pod, _| pod_status(pod)), restarts, age(), node];
        }
        "Event" => {
            return vec![
                text("Last Seen", |event, now| {
                    let at = event["lastTimestamp"].as_str().or(event["eventTime"].as_str());
                    age::since(at.unwrap_or_default(), now)
                }),
                path("Type", "string", ".type"),
                path("Reason", "string", ".reason"),
                text("Object", |event, _| {
                    let part = |key: &str| event["involvedObject"][key].as_str().unwrap_or_default();
                    format!("{}/{}", part("kind").to_lowercase(), part("name"))
                }),
                path("Message", "string", ".message"),
            ];
        }
        "Node" => {
            vec![
                text("Status", |node, _| node_status(node)),
                path("Version", "string", ".status.nodeInfo.kubeletVersion"),
            ]
        }
        _ => Vec::new(),
    };
    [name()].into_iter().chain(own).chain([age()]).collect()
}

fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, ".status.containerStatuses").iter()
}

/// The status of a pod in one word.
fn pod_status(pod: &Value) -> String {
    let status = |key: &str| pod["status"][key].as_str().unwrap_or_default();
    let has_ended = matches!(status("phase"), "Succeeded" | "Failed");
    let waiting = || containers(pod).find_map(|one| one["state"]["waiting"]["reason"].as_str());
    let word = match status("reason") {
        _ if pod["metadata"]["deletionTimestamp"].is_string() && !has_ended => "Terminating",
        "" => waiting().unwrap_or_else(|| status("phase")),
        reason => reason,
    };
    word.to_owned()
}

/// The status of a node: readiness and cordon.
fn node_status(node: &Value) -> String {
    let ready = list(node, ".status.conditions").iter().find(|one| one["type"] == "Ready");
    let word = match ready.and_then(|ready| ready["status"].as_str()) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordon = if node["spec"]["unschedulable"] == true { ",SchedulingDisabled" } else { "" };
    format!("{word}{cordon}")
}
