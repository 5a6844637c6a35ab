//! Tables, the form that `kubectl get` requests: the columns of each kind, and their cells. A kind without
//! columns of its own has its name and its age.
//!
//! This module does not read a clock; ages are relative to the time that the caller passes.

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;
use serde_json::{Value, json};

use crate::object::at;
use crate::resource::{Origin, ResourceInfo};

/// The `meta.k8s.io/v1` Table of the objects. Each row contains its object, whatever the client asks for.
pub(crate) fn table(info: &ResourceInfo, objects: &[Value], list_meta: &Value, now: Timestamp) -> Value {
    let columns = match info.origin {
        Origin::Crd => custom(info),
        Origin::Builtin => builtin(&info.kind),
    };
    let row = |object: &Value| {
        let cells: Vec<Value> = columns.iter().map(|column| column.cell(object, now)).collect();
        json!({"cells": cells, "object": object})
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta,
        "columnDefinitions": columns.iter().map(Column::head).collect::<Vec<_>>(),
        "rows": objects.iter().map(row).collect::<Vec<_>>(),
    })
}

/// One column.
struct Column {
    head: CustomResourceColumnDefinition,
    /// The text of several fields; otherwise the path of the column is read.
    read: Option<fn(&Value, Timestamp) -> String>,
}

impl Column {
    /// The definition of the column.
    fn head(&self) -> Value {
        let head = &self.head;
        json!({
            "name": head.name, "type": head.type_, "priority": head.priority.unwrap_or_default(),
            "format": head.format.as_deref().unwrap_or_default(),
            "description": head.description.as_deref().unwrap_or_default(),
        })
    }

    /// A value of another type than that of the column is omitted. A string column shows any value.
    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        if let Some(read) = self.read {
            return read(object, now).into();
        }
        match (self.head.type_.as_str(), first(object, &self.head.json_path)) {
            ("integer" | "number", Some(value @ Value::Number(_)))
            | ("boolean", Some(value @ Value::Bool(_)))
            | ("string", Some(value @ Value::String(_))) => value.clone(),
            ("date", Some(Value::String(time))) => since(time, now).into(),
            ("string", Some(other)) if !other.is_null() => other.to_string().into(),
            _ => Value::Null,
        }
    }
}

fn path(name: &str, type_: &str, path: &str) -> Column {
    let head = CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        // kubectl recognizes the name column by this format.
        format: (name == "Name").then(|| "name".to_owned()),
        json_path: path.to_owned(),
        ..CustomResourceColumnDefinition::default()
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
fn custom(info: &ResourceInfo) -> Vec<Column> {
    let own = |column: &CustomResourceColumnDefinition| Column { head: column.clone(), read: None };
    let age = info.columns.is_empty().then(age);
    [name()].into_iter().chain(age).chain(info.columns.iter().map(own)).collect()
}

/// The columns of a built-in kind.
fn builtin(kind: &str) -> Vec<Column> {
    let own = match kind {
        "Pod" => {
            let mut node = path("Node", "string", ".spec.nodeName");
            node.head.priority = Some(1);
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
                    since(at.unwrap_or_default(), now)
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

/// The age of a timestamp as kubectl shows it: `5s`, `2m3s`, `4h`, `3d`.
fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A duration in seconds, in at most two units.
fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        ..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..28_800 if minutes % 60 > 0 => format!("{hours}h{}m", minutes % 60),
        10_800..172_800 => format!("{hours}h"),
        _ => format!("{}d", hours / 24),
    }
}

/// The value at a path such as `.spec.replicas` or `.status.conditions[?(@.type=="Ready")].status`. In the
/// name of a field, `\.` is a dot. Any other path finds nothing.
fn first<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut found = object;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(filter) = rest.strip_prefix("[?(@") {
            let (filter, after) = filter.split_once(")]")?;
            let (path, value) = filter.split_once("==")?;
            let value = value.trim().trim_matches(['"', '\'']);
            let fits = |item: &&Value| first(item, path.trim()).and_then(Value::as_str) == Some(value);
            found = found.as_array()?.iter().find(fits)?;
            rest = after;
        } else {
            let (name, after) = field(rest.strip_prefix('.')?);
            found = found.get(name)?;
            rest = after;
        }
    }
    Some(found)
}

/// A field name up to the next dot or bracket.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[i..]),
            c => name.push(c),
        }
    }
    (name, "")
}

#[cfg(test)]
mod tests;
