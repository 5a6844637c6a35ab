//! CEL validation rules, `x-kubernetes-validations`. A rule that does not compile rejects every object.

use kube::core::cel::{self, CompiledSchema, compile_schema};
use serde_json::Value;

use super::{cause::Cause, validation::NO_PATH};

const RULES: &str = "x-kubernetes-validations";

/// The rules of a schema, by the field of the object that has them. Rules of the object itself have no field.
#[derive(Debug)]
pub(super) struct Rules(Vec<(String, CompiledSchema)>);

impl Rules {
    pub(super) fn compile(schema: &Value) -> Self {
        let mut found = Vec::new();
        if schema.get(RULES).is_some() {
            found.push((String::new(), schema));
        } else {
            let fields = schema["properties"].as_object().into_iter().flatten();
            let with_rules = fields.filter(|(_, field)| has_rules(field));
            found.extend(with_rules.map(|(name, field)| (name.clone(), field)));
        }
        Self(found.into_iter().map(|(field, schema)| (field, compile_schema(schema))).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Evaluates the rules of each field that the update changes.
    pub(super) fn evaluate(&self, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        for (field, rules) in &self.0 {
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
