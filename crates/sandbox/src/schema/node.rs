//! One node of a structural schema, parsed once, so that objects need no JSON lookups in the schema. It
//! prunes values and sets their defaults.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::cause::Cause;

/// The fields that an object has without a mention in its schema.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// What the sandbox does not evaluate.
const UNKNOWN: [&str; 10] = [
    "nullable",
    "allOf",
    "oneOf",
    "not",
    "multipleOf",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "uniqueItems",
    "$ref",
    "x-kubernetes-embedded-resource",
];

/// One node.
#[derive(Debug)]
pub(super) struct Node {
    /// Empty if the schema has no type.
    pub(super) kind: String,
    pub(super) int_or_string: bool,
    preserve: bool,
    properties: BTreeMap<String, Node>,
    /// The schema of all other keys.
    additional: Option<Box<Node>>,
    pub(super) items: Option<Box<Node>>,
    default: Option<Value>,
    /// The keys of the items of a list of type map; none for a set. Other lists have no unique items.
    pub(super) unique_by: Option<Vec<String>>,
    pub(super) required: Vec<String>,
    pub(super) allowed: Vec<Value>,
    pub(super) pattern: Option<Regex>,
    pub(super) format: String,
    /// The minimum and the maximum of a number.
    pub(super) range: (Option<f64>, Option<f64>),
    /// The minimum and the maximum length of a string, a list or a map.
    pub(super) sizes: (Option<u64>, Option<u64>),
}

impl Node {
    /// Parses a node and its descendants. `path` is the path in the schema, for error messages.
    pub(super) fn read(schema: &Value, path: &str, causes: &mut Vec<Cause>) -> Self {
        let flag = |key: &str| schema[key] == Value::Bool(true);
        let text = |key: &str| schema[key].as_str().unwrap_or_default().to_owned();
        let words = |key: &str| -> Vec<String> {
            let all = schema[key].as_array().into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let int_or_string = flag("x-kubernetes-int-or-string");
        // Every schema for an integer or a string has the same `anyOf`.
        let any = (!int_or_string).then_some("anyOf");
        for key in UNKNOWN.into_iter().chain(any).filter(|key| schema.get(*key).is_some()) {
            let detail =
                format!("the sandbox does not evaluate {key}: use a real cluster, such as one of kind");
            causes.push(Cause::forbidden(&child(path, key), &detail));
        }
        let mut sub = |key: &str| {
            let node = schema.get(key).filter(|node| node.is_object())?;
            Some(Box::new(Self::read(node, &child(path, key), causes)))
        };
        let (items, additional) = (sub("items"), sub("additionalProperties"));
        let properties = schema["properties"].as_object().into_iter().flatten();
        let properties = properties
            .map(|(name, node)| {
                let path = child(path, &format!("properties[{name}]"));
                (name.clone(), Self::read(node, &path, causes))
            })
            .collect();
        let sizes = match schema["type"].as_str() {
            Some("array") => ("minItems", "maxItems"),
            Some("object") => ("minProperties", "maxProperties"),
            _ => ("minLength", "maxLength"),
        };
        Self {
            kind: text("type"),
            int_or_string,
            preserve: flag("x-kubernetes-preserve-unknown-fields") || flag("additionalProperties"),
            properties,
            additional,
            items,
            default: schema.get("default").cloned(),
            unique_by: match schema["x-kubernetes-list-type"].as_str() {
                Some("set" | "map") => Some(words("x-kubernetes-list-map-keys")),
                _ => None,
            },
            required: words("required"),
            allowed: schema["enum"].as_array().cloned().unwrap_or_default(),
            pattern: read_pattern(schema, path, causes),
            format: text("format"),
            range: (schema["minimum"].as_f64(), schema["maximum"].as_f64()),
            sizes: (schema[sizes.0].as_u64(), schema[sizes.1].as_u64()),
        }
    }

    /// The schema of a key of an object.
    pub(super) fn of_key(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or(self.additional.as_deref())
    }

    /// The key of an item in a list of unique items.
    pub(super) fn key_of(&self, item: &Value) -> Option<Value> {
        let keys = self.unique_by.as_ref()?;
        if keys.is_empty() {
            return Some(item.clone());
        }
        let pairs = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Some(Value::Object(pairs.collect()))
    }

    /// Drops the fields that the schema does not contain, and adds their paths to `gone`.
    pub(super) fn prune(&self, value: &mut Value, path: &str, gone: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.retain(|key, inner| {
                let place = child(path, key);
                if path.is_empty() && META.contains(&key.as_str()) {
                    return true;
                }
                match self.of_key(key) {
                    Some(known) => known.prune(inner, &place, gone),
                    None if self.preserve => {}
                    None => {
                        gone.push(place);
                        return false;
                    }
                }
                true
            }),
            Value::Array(list) => {
                if let Some(items) = &self.items {
                    for (i, inner) in list.iter_mut().enumerate() {
                        items.prune(inner, &format!("{path}[{i}]"), gone);
                    }
                }
            }
            _ => {}
        }
    }

    /// Sets the defaults of absent fields, and drops nulls of known fields. An object is not
    /// created only because its fields have defaults.
    pub(super) fn set_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|key, inner| !inner.is_null() || !self.properties.contains_key(key));
                for (name, property) in &self.properties {
                    if let Some(default) = &property.default
                        && !map.contains_key(name)
                    {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (key, inner) in map.iter_mut() {
                    if let Some(schema) = self.of_key(key) {
                        schema.set_defaults(inner);
                    }
                }
            }
            Value::Array(list) => {
                if let Some(items) = &self.items {
                    for inner in list {
                        items.set_defaults(inner);
                    }
                }
            }
            _ => {}
        }
    }
}

fn read_pattern(schema: &Value, path: &str, causes: &mut Vec<Cause>) -> Option<Regex> {
    let pattern = schema["pattern"].as_str()?;
    match Regex::new(pattern) {
        Ok(regex) => Some(regex),
        Err(err) => {
            causes.push(Cause::invalid(
                &child(path, "pattern"),
                &schema["pattern"],
                &format!("must be a valid regular expression, but isn't: {err}"),
            ));
            None
        }
    }
}

/// `parent.child`, without the dot at the root.
pub(super) fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
