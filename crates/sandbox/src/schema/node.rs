//! One node of a structural schema, parsed once, so that objects need no JSON lookups in the schema.
//!
//! A node describes the schema and does not validate objects.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::cause::Cause;

/// The value of `additionalProperties`.
#[derive(Debug)]
pub(super) enum Additional {
    /// `true`: any value. Objects inside are pruned to empty objects.
    Any,
    /// A schema for all other keys.
    Schema(Box<Node>),
}

/// The list type, `x-kubernetes-list-type`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListType {
    /// The list is replaced as a whole.
    Atomic,
    /// Unique scalars.
    Set,
    /// Objects with unique keys.
    Map(Vec<String>),
}

/// The range of a number.
#[derive(Debug, Default)]
pub(super) struct Range {
    pub(super) minimum: Option<Value>,
    pub(super) maximum: Option<Value>,
    pub(super) exclusive_minimum: bool,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<Value>,
}

/// Limits of the length of a string, a list or a map.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    pub(super) length: (Option<u64>, Option<u64>),
    pub(super) items: (Option<u64>, Option<u64>),
    pub(super) properties: (Option<u64>, Option<u64>),
}

/// One node.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are the flags of the schema language")]
pub(super) struct Node {
    /// Empty if the schema has no type.
    pub(super) kind: String,
    pub(super) nullable: bool,
    pub(super) int_or_string: bool,
    pub(super) preserve: bool,
    pub(super) embedded: bool,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Option<Additional>,
    pub(super) items: Option<Box<Node>>,
    pub(super) default: Option<Value>,
    pub(super) list_type: ListType,
    pub(super) required: Vec<String>,
    pub(super) allowed: Vec<Value>,
    pub(super) pattern: Option<Regex>,
    pub(super) format: String,
    pub(super) range: Range,
    pub(super) sizes: Sizes,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

impl Node {
    /// Parses a node and its descendants. `path` is the path in the schema, for error messages.
    pub(super) fn read(schema: &Value, path: &str, causes: &mut Vec<Cause>) -> Self {
        let int_or_string = flag(schema, "x-kubernetes-int-or-string");
        let properties = schema["properties"].as_object().into_iter().flatten();
        let branches = |key: &str, causes: &mut Vec<Cause>| -> Vec<Self> {
            let all = schema[key].as_array().into_iter().flatten().enumerate();
            all.map(|(i, branch)| Self::read(branch, &child(path, &format!("{key}[{i}]")), causes)).collect()
        };
        Self {
            kind: text(schema, "type"),
            nullable: flag(schema, "nullable"),
            int_or_string,
            preserve: flag(schema, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(schema, "x-kubernetes-embedded-resource"),
            properties: properties
                .map(|(name, node)| {
                    let path = child(path, &format!("properties[{name}]"));
                    (name.clone(), Self::read(node, &path, causes))
                })
                .collect(),
            additional: match &schema["additionalProperties"] {
                Value::Bool(true) => Some(Additional::Any),
                node @ Value::Object(_) => Some(Additional::Schema(Box::new(Self::read(
                    node,
                    &child(path, "additionalProperties"),
                    causes,
                )))),
                _ => None,
            },
            items: sub(schema, "items", path, causes),
            default: schema.get("default").cloned(),
            list_type: match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(words(schema, "x-kubernetes-list-map-keys")),
                _ => ListType::Atomic,
            },
            required: words(schema, "required"),
            allowed: schema["enum"].as_array().cloned().unwrap_or_default(),
            pattern: read_pattern(schema, path, causes),
            format: text(schema, "format"),
            range: Range {
                minimum: schema.get("minimum").cloned(),
                maximum: schema.get("maximum").cloned(),
                exclusive_minimum: flag(schema, "exclusiveMinimum"),
                exclusive_maximum: flag(schema, "exclusiveMaximum"),
                multiple_of: schema.get("multipleOf").cloned(),
            },
            sizes: Sizes {
                length: (schema["minLength"].as_u64(), schema["maxLength"].as_u64()),
                items: (schema["minItems"].as_u64(), schema["maxItems"].as_u64()),
                properties: (schema["minProperties"].as_u64(), schema["maxProperties"].as_u64()),
            },
            all_of: branches("allOf", causes),
            any_of: branches("anyOf", causes),
            one_of: branches("oneOf", causes),
            not: sub(schema, "not", path, causes),
        }
    }

    /// The schema of a key of an object.
    pub(super) fn of_key(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or(match &self.additional {
            Some(Additional::Schema(node)) => Some(node),
            _ => None,
        })
    }

    /// The item of `old` that corresponds to `item`: the one with the same keys in a list of type map, else `None`.
    pub(super) fn old_item<'a>(&self, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let ListType::Map(keys) = &self.list_type else { return None };
        old?.as_array()?.iter().find(|o| keys.iter().all(|k| o.get(k) == item.get(k)))
    }
}

fn sub(schema: &Value, key: &str, path: &str, causes: &mut Vec<Cause>) -> Option<Box<Node>> {
    let node = schema.get(key)?;
    Some(Box::new(Node::read(node, &child(path, key), causes)))
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

pub(super) fn flag(schema: &Value, key: &str) -> bool {
    schema[key] == Value::Bool(true)
}

fn text(schema: &Value, key: &str) -> String {
    schema[key].as_str().unwrap_or_default().to_owned()
}

fn words(schema: &Value, key: &str) -> Vec<String> {
    let all = schema[key].as_array().into_iter().flatten();
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}
