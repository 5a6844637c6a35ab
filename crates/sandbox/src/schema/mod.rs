//! Schemas of custom resources: compilation, pruning, defaulting and validation, as on the API server.
//!
//! It knows what the CRDs of this project use. A CRD with other limits is rejected, so that none is ignored.
//! Rules are neither type-checked nor limited in cost, and items of lists correlate with old items by their
//! place.

mod cause;
mod node;
mod validation;

pub(crate) use cause::Cause;

use kube::core::cel::{self, CompiledSchema, compile_schema};
use serde_json::Value;

use node::Node;
use validation::NO_PATH;

const RULES: &str = "x-kubernetes-validations";

/// A compiled `openAPIV3Schema` of one version of a custom resource.
#[derive(Debug)]
pub(crate) struct CrdSchema {
    /// The schema as in the CRD.
    pub(crate) raw: Value,
    root: Node,
    /// The CEL rules, by the field of the object that has them. Rules of the object itself have no field. A
    /// rule that does not compile rejects every object.
    rules: Vec<(String, CompiledSchema)>,
}

impl CrdSchema {
    /// Compiles the schema, or returns the parts that are invalid or that the sandbox does not know.
    pub(crate) fn compile(schema: &Value) -> Result<Self, Vec<Cause>> {
        let mut causes = Vec::new();
        let root = Node::read(schema, "", &mut causes);
        if !causes.is_empty() {
            return Err(causes);
        }
        let with_rules = if schema.get(RULES).is_some() {
            vec![(String::new(), schema)]
        } else {
            let fields = schema["properties"].as_object().into_iter().flatten();
            fields.filter(|(_, field)| has_rules(field)).map(|(name, field)| (name.clone(), field)).collect()
        };
        let rules = with_rules.into_iter().map(|(field, schema)| (field, compile_schema(schema)));
        Ok(Self { raw: schema.clone(), root, rules: rules.collect() })
    }

    /// Drops unknown fields and returns their paths. `apiVersion`, `kind` and `metadata` remain.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut gone = Vec::new();
        self.root.prune(object, "", &mut gone);
        gone
    }

    /// Sets defaults and drops nulls of known fields.
    pub(crate) fn default(&self, object: &mut Value) {
        self.root.set_defaults(object);
    }

    /// Validates the object; `old` is the stored object on an update. As with the ratcheting of the API
    /// server, unchanged values are valid.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = validation::validate(object, old, &self.root);
        if causes.is_empty() {
            self.evaluate(object, old, &mut causes);
        } else if !self.rules.is_empty() {
            let detail = "some validation rules were not checked because the object was invalid; correct the \
                          existing errors to complete validation";
            causes.push(Cause::invalid(NO_PATH, &Value::Null, detail));
        }
        causes
    }

    /// Evaluates the rules of each field that the update changes.
    fn evaluate(&self, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        for (field, rules) in &self.rules {
            let part = |object| if field.is_empty() { Some(object) } else { Value::get(object, field) };
            let (new, old) = (part(object), old.and_then(part));
            let Some(new) = new.filter(|new| old != Some(*new)) else { continue };
            let broken = cel::validate_compiled(rules, new, old).err();
            for error in broken.into_iter().flat_map(cel::ValidationErrors::into_vec) {
                let path = format!("{field}.{}", error.field_path.trim_start_matches('.'));
                let path = match path.trim_matches('.') {
                    "" => NO_PATH,
                    path => path,
                };
                causes.push(match error.reason.as_deref() {
                    Some("FieldValueRequired") => Cause::required(path, &error.message),
                    Some("FieldValueForbidden") => Cause::forbidden(path, &error.message),
                    _ => Cause {
                        reason: "FieldValueInvalid",
                        message: format!("Invalid value: {}", error.message.trim()),
                        field: path.to_owned(),
                    },
                });
            }
        }
    }
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key(RULES) || map.values().any(has_rules),
        Value::Array(list) => list.iter().any(has_rules),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
