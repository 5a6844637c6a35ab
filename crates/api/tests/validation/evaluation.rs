//! What a server does with a schema's CEL rules, as far as the tests need it: defaults first, then the rules.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use kube::core::cel::Validator;
use ordereddeployment_api::crds;
use serde_json::{Map, Value};

/// The schema of a kind.
pub(crate) fn schema_of(kind: &str) -> Value {
    let crd = crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    serde_json::to_value(&crd.spec.versions[0].schema).unwrap()["openAPIV3Schema"].clone()
}

/// Sets the defaults of absent fields, as a server does before it validates.
pub(crate) fn set_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, of) in schema["properties"].as_object().unwrap_or(&Map::new()) {
                if let Some(default) = of.get("default") {
                    fields.entry(name.clone()).or_insert_with(|| default.clone());
                }
                if let Some(field) = fields.get_mut(name) {
                    set_defaults(field, of);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| set_defaults(item, &schema["items"])),
        _ => {}
    }
}

/// The messages of the rules in `schema` that the object breaks.
pub(crate) fn broken_rules(schema: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
    match Validator::new().validate(schema, object, old) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.into_iter().map(|error| error.message).collect(),
    }
}
