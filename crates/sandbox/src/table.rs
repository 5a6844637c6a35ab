//! Tables, the form that `kubectl get` requests: the columns of every kind.
//!
//! This module does not read a clock; ages are relative to the time that the caller passes.

mod age;
mod builtin;
mod custom;
mod fields;
mod head;
mod jsonpath;
mod pods;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::resource::{Origin, ResourceInfo};
use head::Head;

/// What each row contains besides its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata.
    Metadata,
    /// The object.
    Object,
}

/// The `meta.k8s.io/v1` Table of the objects.
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

#[cfg(test)]
mod tests;
