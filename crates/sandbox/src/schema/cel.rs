//! CEL validation rules, `x-kubernetes-validations`.
//!
//! Each rule is compiled with a copy of the schema of its node without other rules. This module therefore walks the
//! object itself and determines which old value corresponds to a new value: as on the API server, list items correlate
//! only by their keys.
//!
//! Rules are not type-checked, and their cost is not limited.

use std::error::Error;

use kube::core::cel::{self, CompiledSchema, ErrorKind, compile_schema};
use serde_json::{Value, json};

use super::{
    cause::Cause,
    node::{Node, child},
    validation::NO_PATH,
};

const RULES: &str = "x-kubernetes-validations";

/// The rules of one node and of its descendants. Nodes without rules are omitted.
#[derive(Debug, Default)]
pub(super) struct Rules {
    own: Vec<Compiled>,
    properties: Vec<(String, Rules)>,
    additional: Option<Box<Rules>>,
    items: Option<Box<Rules>>,
}

#[derive(Debug)]
struct Compiled {
    schema: CompiledSchema,
    reason: Option<String>,
    /// The `fieldPath` of the rule relative to the node, such as `.replicas`.
    below: String,
    is_transition: bool,
}

impl Rules {
    /// Compiles all rules of a schema.
    pub(super) fn compile(schema: &Value, path: &str, causes: &mut Vec<Cause>) -> Self {
        let mut rules = Self::default();
        let own = schema[RULES].as_array().map_or(&[][..], Vec::as_slice);
        if !own.is_empty() {
            let bare = without_rules(schema);
            for (i, rule) in own.iter().enumerate() {
                let place = child(path, &format!("{RULES}[{i}]"));
                rules.own.extend(compile_one(rule, &bare, &place, causes));
            }
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let below = Self::compile(property, &child(path, &format!("properties[{name}]")), causes);
            if !below.is_empty() {
                rules.properties.push((name.clone(), below));
            }
        }
        let mut below = |key: &str| {
            let node = schema.get(key).filter(|n| n.is_object())?;
            let below = Self::compile(node, &child(path, key), causes);
            (!below.is_empty()).then(|| Box::new(below))
        };
        rules.additional = below("additionalProperties");
        rules.items = below("items");
        rules
    }

    /// Whether there are no rules.
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.properties.is_empty() && self.additional.is_none() && self.items.is_none()
    }

    /// Evaluates all rules on the object.
    pub(super) fn evaluate(&self, object: &Value, old: Option<&Value>, root: &Node, causes: &mut Vec<Cause>) {
        self.walk(object, old, Some(root), "", causes);
    }

    fn walk(
        &self,
        value: &Value,
        old: Option<&Value>,
        node: Option<&Node>,
        path: &str,
        out: &mut Vec<Cause>,
    ) {
        if value.is_null() {
            return;
        }
        for compiled in &self.own {
            // Ratcheting: an unchanged value is valid, unless the rule is a transition rule.
            if old != Some(value) || compiled.is_transition {
                compiled.evaluate(value, old, path, out);
            }
        }
        match value {
            Value::Object(map) => {
                for (name, below) in &self.properties {
                    if let Some(inner) = map.get(name) {
                        let node = node.and_then(|n| n.properties.get(name));
                        below.walk(inner, old.and_then(|o| o.get(name)), node, &child(path, name), out);
                    }
                }
                if let Some(below) = &self.additional {
                    for (key, inner) in map {
                        let node = node.and_then(|n| n.of_key(key));
                        below.walk(inner, old.and_then(|o| o.get(key)), node, &child(path, key), out);
                    }
                }
            }
            Value::Array(list) => {
                if let Some(below) = &self.items {
                    for (i, inner) in list.iter().enumerate() {
                        let before = node.and_then(|n| n.old_item(inner, old));
                        let items = node.and_then(|n| n.items.as_deref());
                        below.walk(inner, before, items, &format!("{path}[{i}]"), out);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Compiled {
    fn evaluate(&self, value: &Value, old: Option<&Value>, path: &str, out: &mut Vec<Cause>) {
        let Err(errors) = cel::validate_compiled(&self.schema, value, old) else { return };
        let field = format!("{path}{}", self.below);
        let field = match field.trim_start_matches('.') {
            "" => NO_PATH,
            field => field,
        };
        for error in errors.into_vec() {
            let message = match error.kind {
                ErrorKind::ValidationFailure => error.message.trim().to_owned(),
                _ => format!("{} evaluating rule: {}", error.message, error.rule),
            };
            out.push(match self.reason.as_deref() {
                Some("FieldValueRequired") => Cause::required(field, &message),
                Some("FieldValueForbidden") => Cause::forbidden(field, &message),
                Some("FieldValueDuplicate") => Cause::duplicate(field, value),
                // The value of an object or a list would be too long for a message.
                _ if value.is_object() || value.is_array() => {
                    let message = format!("Invalid value: {message}");
                    Cause { reason: "FieldValueInvalid", message, field: field.to_owned() }
                }
                _ => Cause::invalid(field, value, &message),
            });
        }
    }
}

fn compile_one(rule: &Value, bare: &Value, path: &str, causes: &mut Vec<Cause>) -> Option<Compiled> {
    let text = rule["rule"].as_str().unwrap_or_default();
    if text.trim().is_empty() {
        causes.push(Cause::required(&child(path, "rule"), "rule is not specified"));
        return None;
    }
    let mut schema = bare.clone();
    if let Some(map) = schema.as_object_mut() {
        map.insert(RULES.to_owned(), json!([rule]));
    }
    let schema = compile_schema(&schema);
    let is_transition = match schema.validations.first()? {
        Ok(done) => done.is_transition_rule,
        Err(err) => {
            // The reason of the error, without the text of the expression.
            let why = err.source().map_or_else(|| err.to_string(), ToString::to_string);
            let detail = format!("compilation failed: {why}");
            causes.push(Cause::invalid(&child(path, "rule"), &rule["rule"], &detail));
            return None;
        }
    };
    let reason = rule["reason"].as_str().map(str::to_owned);
    let below = rule["fieldPath"].as_str().unwrap_or_default().to_owned();
    Some(Compiled { schema, reason, below, is_transition })
}

/// The schema without the rules of the node and of its descendants.
fn without_rules(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            map.iter().filter(|(key, _)| *key != RULES).map(|(k, v)| (k.clone(), without_rules(v))).collect()
        }
        Value::Array(list) => list.iter().map(without_rules).collect(),
        other => other.clone(),
    }
}
