//! Columns of custom resources, from `additionalPrinterColumns`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    age,
    fields::at,
    head::{Head, head, text},
    jsonpath,
};
use crate::resource::ResourceInfo;

pub(super) fn heads(info: &ResourceInfo) -> Vec<Head> {
    let mut heads = vec![text("Name")];
    if info.columns.is_empty() {
        heads.push(head("Age", "date", 0));
    }
    heads.extend(info.columns.iter().map(|column| Head {
        name: column.name.clone(),
        column_type: column.type_.clone(),
        format: column.format.clone(),
        description: if column.description.is_empty() {
            format!("Custom resource definition column (in JSONPath format): {}", column.json_path)
        } else {
            column.description.clone()
        },
        priority: column.priority,
    }));
    heads
}

pub(super) fn cells(info: &ResourceInfo, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![json!(at(object, "metadata.name"))];
    if info.columns.is_empty() {
        cells.push(json!(age::since(at(object, "metadata.creationTimestamp"), now)));
    }
    cells.extend(info.columns.iter().map(|column| {
        let found = jsonpath::first(object, &column.json_path);
        found.map_or(Value::Null, |value| cell(&column.type_, value, now))
    }));
    cells
}

/// A value of another type than that of the column is omitted. A string column shows any value.
fn cell(column_type: &str, value: &Value, now: Timestamp) -> Value {
    match (column_type, value) {
        (_, Value::Null) => Value::Null,
        ("integer", Value::Number(number)) => {
            number.as_i64().map_or_else(|| json!(number.as_f64().unwrap_or(0.0).trunc()), |n| json!(n))
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => {
            value.clone()
        }
        ("date", Value::String(time)) => json!(age::since(time, now)),
        ("string", other) => json!(other.to_string()),
        _ => Value::Null,
    }
}
