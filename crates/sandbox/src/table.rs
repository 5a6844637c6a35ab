//! Tables, the form that `kubectl get` requests. A kind without columns of its own has its name and its age.
//!
//! This module does not read a clock; ages are relative to the time that the caller passes.

mod age;
mod columns;
mod jsonpath;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::resource::{Origin, ResourceInfo};
use columns::Column;

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
    objects: &[Value],
    list_meta: &Value,
    now: Timestamp,
    include: IncludeObject,
) -> Value {
    let columns = match info.origin {
        Origin::Crd => columns::custom(info),
        Origin::Builtin => columns::builtin(&info.kind),
    };
    let heads: Vec<Value> = columns.iter().map(Column::head).collect();
    let row = |object: &Value| {
        let cells: Vec<Value> = columns.iter().map(|column| column.cell(object, now)).collect();
        let shown = match include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"]})
            }
            IncludeObject::Object => object.clone(),
        };
        json!({"cells": cells, "object": shown})
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta, "columnDefinitions": heads,
        "rows": objects.iter().map(row).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
