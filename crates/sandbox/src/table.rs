//! Tables, the form in which `kubectl get` asks for objects: the columns of every kind.
//!
//! Never does: read a clock; ages are relative to the time passed in.

mod age;
mod builtin;
mod custom;
mod jsonpath;
mod pods;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::resource::{Origin, ResourceInfo};

/// What stands beside the cells of each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata.
    Metadata,
    /// The object.
    Object,
}

/// One column.
struct Head {
    name: String,
    column_type: String,
    format: String,
    description: String,
    priority: i64,
}

/// A column of strings that is always shown.
fn text(name: &str) -> Head {
    head(name, "string", 0)
}

/// A column of strings shown with `-o wide`.
fn wide(name: &str) -> Head {
    head(name, "string", 1)
}

fn integer(name: &str) -> Head {
    head(name, "integer", 0)
}

fn head(name: &str, column_type: &str, priority: i64) -> Head {
    // kubectl recognises the name column by this format.
    let format = if name == "Name" { "name" } else { "" };
    Head {
        name: name.to_owned(),
        column_type: column_type.to_owned(),
        format: format.to_owned(),
        description: String::new(),
        priority,
    }
}

/// The `meta.k8s.io/v1` Table of these objects.
#[must_use]
pub fn table(
    info: &ResourceInfo,
    objects: &[&Value],
    list_meta: Value,
    now: Timestamp,
    include: IncludeObject,
) -> Value {
    let heads = heads(info);
    let columns: Vec<Value> = heads
        .iter()
        .map(|head| {
            json!({"name": head.name, "type": head.column_type, "format": head.format,
                "description": head.description, "priority": head.priority})
        })
        .collect();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": cells(info, object, now)});
            match include {
                IncludeObject::None => row["object"] = Value::Null,
                IncludeObject::Metadata => {
                    row["object"] = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                        "metadata": object["metadata"]});
                }
                IncludeObject::Object => row["object"] = (*object).clone(),
            }
            row
        })
        .collect();
    let mut table =
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": columns, "rows": rows});
    table["metadata"] = list_meta;
    table
}

fn heads(info: &ResourceInfo) -> Vec<Head> {
    if info.origin == Origin::Crd { custom::heads(info) } else { builtin::heads(&info.kind) }
}

fn cells(info: &ResourceInfo, object: &Value, now: Timestamp) -> Vec<Value> {
    if info.origin == Origin::Crd {
        custom::cells(info, object, now)
    } else {
        builtin::cells(&info.kind, object, now)
    }
}

/// A string at a path, empty where there is none.
fn at<'a>(object: &'a Value, path: &str) -> &'a str {
    found(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// An integer at a path, 0 where there is none.
fn count(object: &Value, path: &str) -> i64 {
    found(object, path).and_then(Value::as_i64).unwrap_or(0)
}

/// The items of a list at a path.
fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    found(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn found<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, key| value.get(key))
}

/// `<none>` instead of nothing.
fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

#[cfg(test)]
mod tests;
