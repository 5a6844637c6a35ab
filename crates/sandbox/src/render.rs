//! Renders stored objects in the requested form: the whole object, metadata only, or a table.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object;
use crate::request::Form;
use crate::resource::{Origin, ResourceInfo};
use crate::table;

/// The object in the requested version.
pub(crate) fn versioned(info: &ResourceInfo, stored: &Value) -> Value {
    let mut object = stored.clone();
    stamp(info, &mut object);
    object
}

/// Sets apiVersion and kind.
pub(crate) fn stamp(info: &ResourceInfo, object: &mut Value) {
    object::set(object, "apiVersion", Some(&info.api_version().into()));
    object::set(object, "kind", Some(&info.kind.clone().into()));
}

/// One object.
pub(crate) fn one(info: &ResourceInfo, stored: &Value, form: Form, now: Timestamp) -> Value {
    match form {
        Form::Object => versioned(info, stored),
        Form::Partial => partial(&versioned(info, stored)),
        Form::Table => {
            let version = json!({"resourceVersion": object::resource_version(stored)});
            table::table(info, std::slice::from_ref(stored), &version, now)
        }
    }
}

/// A list.
pub(crate) fn list(
    info: &ResourceInfo,
    objects: &[Arc<Value>],
    meta: &Value,
    form: Form,
    now: Timestamp,
) -> Value {
    match form {
        Form::Object => {
            let items: Vec<Value> = objects
                .iter()
                .map(|stored| {
                    let mut item = versioned(info, stored);
                    // Items of built-in lists have no apiVersion and kind.
                    if matches!(info.origin, Origin::Builtin) {
                        object::set(&mut item, "apiVersion", None);
                        object::set(&mut item, "kind", None);
                    }
                    item
                })
                .collect();
            json!({"kind": info.list_kind, "apiVersion": info.api_version(), "metadata": meta,
                "items": items})
        }
        Form::Partial => {
            let items: Vec<Value> = objects.iter().map(|stored| partial(&versioned(info, stored))).collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta,
                "items": items})
        }
        Form::Table => {
            let all: Vec<Value> = objects.iter().map(|stored| Value::clone(stored)).collect();
            table::table(info, &all, meta, now)
        }
    }
}

fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_default(),
    })
}
