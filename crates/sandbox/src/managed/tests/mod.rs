//! Tests of managed fields without a server.
#![allow(clippy::needless_pass_by_value, reason = "reads better where the value is written in place")]

mod apply;
mod properties;
mod sets;
mod shapes;
mod updates;

use serde_json::{Value, json};

use super::conflict::Conflict;
use super::managers::{Manager, Managers, Operation};
use super::set::FieldSet;
use super::shape::Shape;
use super::{Change, apply, update};
use crate::resource::{ResourceInfo, builtins, from_crd};

pub(super) fn builtin(kind: &str) -> ResourceInfo {
    builtins().into_iter().find(|info| info.kind == kind).unwrap()
}

/// A custom kind with a list of each type, and with fields without a schema.
pub(super) fn custom() -> ResourceInfo {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "port": {"type": "integer", "default": 80}, "note": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "colour": {"type": "string"},
        "size": {"type": "integer"},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
                  "items": item},
        "plain": {"type": "array", "items": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "words": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    from_crd(&crd).unwrap().remove(0)
}

/// An object with its managers, as a server would keep it.
pub(super) struct Kept {
    pub(super) info: ResourceInfo,
    pub(super) object: Value,
    pub(super) managers: Managers,
}

impl Kept {
    pub(super) fn new() -> Self {
        Self { info: custom(), object: json!({}), managers: Managers::default() }
    }

    /// A configuration of the custom kind.
    pub(super) fn config(spec: Value) -> Value {
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
    }

    pub(super) fn apply(&mut self, manager: &str, spec: Value, force: bool) -> Result<(), Vec<Conflict>> {
        let shape = Shape::of(&self.info);
        let ignored = FieldSet::default();
        let change = change(manager, &shape, &ignored);
        let config = Self::config(spec);
        let outcome = apply(&self.object, &config, &json!({}), self.managers.clone(), &change, force)?;
        (self.object, self.managers) = (outcome.object, outcome.managers);
        Ok(())
    }

    pub(super) fn update(&mut self, manager: &str, spec: Value) {
        let shape = Shape::of(&self.info);
        let ignored = FieldSet::default();
        let new = Self::config(spec);
        let change = change(manager, &shape, &ignored);
        self.managers = update(&self.object, &new, self.managers.clone(), &change);
        self.object = new;
    }

    pub(super) fn spec(&self) -> &Value {
        &self.object["spec"]
    }

    /// The fields of a manager in `spec`, as `FieldsV1`; null if it has none.
    pub(super) fn fields(&self, manager: &str, operation: Operation) -> Value {
        let id = Manager::new(manager, operation, "example.com/v1", "");
        let entry = self.managers.0.get(&id);
        entry.map_or(Value::Null, |entry| entry.fields.encode()["f:spec"].clone())
    }
}

pub(super) fn change<'a>(manager: &'a str, shape: &'a Shape<'a>, ignored: &'a FieldSet) -> Change<'a> {
    Change {
        manager,
        version: "example.com/v1",
        subresource: "",
        shape,
        ignored,
        now: "2030-01-01T00:00:00Z",
    }
}
