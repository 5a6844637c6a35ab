//! The rules for structural schemas, which the API server checks when a CRD is created.
//!
//! Objects are not checked here, except the defaults in the schema.

use serde_json::{Map, Value};

use super::{
    cause::Cause,
    defaulting,
    node::{Additional, Node, child, flag},
    pruning, validation,
};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Checks a complete schema.
pub(super) fn check_root(schema: &Value, causes: &mut Vec<Cause>) {
    match schema["type"].as_str() {
        Some("object") => {}
        Some("") | None => causes.push(Cause::required("type", "must not be empty at the root")),
        Some(_) => causes.push(Cause::invalid("type", &schema["type"], "must be object at the root")),
    }
    if let Some(metadata) = schema["properties"]["metadata"]["properties"].as_object()
        && metadata.keys().any(|key| key != "name" && key != "generateName")
    {
        causes.push(Cause::forbidden(
            "properties[metadata]",
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ));
    }
    check(schema, "", "", causes);
}

/// Checks a node and its descendants; `what` is the name of the node in the message about a missing type.
fn check(schema: &Value, path: &str, what: &str, causes: &mut Vec<Cause>) {
    let Some(map) = schema.as_object() else {
        causes.push(Cause::invalid(path, schema, "must be an object"));
        return;
    };
    check_type(schema, path, what, causes);
    check_node(map, path, causes);
    for junctor in JUNCTORS {
        for (i, branch) in schema[junctor].as_array().into_iter().flatten().enumerate() {
            let is_int_or_string = junctor == "anyOf" && flag(schema, "x-kubernetes-int-or-string");
            let path = child(path, &format!("{junctor}[{i}]"));
            check_branch(branch, schema, &path, is_int_or_string, causes);
        }
    }
    if schema["not"].is_object() {
        check_branch(&schema["not"], schema, &child(path, "not"), false, causes);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check(property, &child(path, &format!("properties[{name}]")), "object fields", causes);
    }
    let additional = &schema["additionalProperties"];
    if additional.is_object() {
        check(additional, &child(path, "additionalProperties"), "object fields", causes);
    }
    if let Some(items) = schema.get("items") {
        check(items, &child(path, "items"), "array items", causes);
    }
}

fn check_type(schema: &Value, path: &str, what: &str, causes: &mut Vec<Cause>) {
    let field = child(path, "type");
    let free =
        flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
    match schema["type"].as_str().unwrap_or_default() {
        // The root has its own message.
        "" if free || path.is_empty() || schema.get("$ref").is_some() => {}
        "" => causes.push(Cause::required(&field, &format!("must not be empty for specified {what}"))),
        known if TYPES.contains(&known) => {}
        _ => causes.push(Cause::not_supported(&field, &schema["type"], &TYPES)),
    }
    if flag(schema, "x-kubernetes-embedded-resource") && schema["type"] != "object" {
        causes.push(Cause::invalid(
            &field,
            &schema["type"],
            "must be object if x-kubernetes-embedded-resource is true",
        ));
    }
    let has_properties = schema["properties"].as_object().is_some_and(|p| !p.is_empty());
    if flag(schema, "x-kubernetes-embedded-resource")
        && !flag(schema, "x-kubernetes-preserve-unknown-fields")
        && !has_properties
    {
        causes.push(Cause::required(
            &child(path, "properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without \
             x-kubernetes-preserve-unknown-fields",
        ));
    }
}

fn check_node(map: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    let is = |key: &str, value: &str| map.get(key).and_then(Value::as_str) == Some(value);
    for key in ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id"] {
        if map.contains_key(key) {
            causes.push(Cause::forbidden(&child(path, key), &format!("{key} is not supported")));
        }
    }
    if map.get("uniqueItems") == Some(&Value::Bool(true)) {
        causes.push(Cause::forbidden(
            &child(path, "uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    if is("type", "array") && !map.contains_key("items") {
        causes.push(Cause::required(&child(path, "items"), "must be specified"));
    }
    let has_properties = map.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty());
    if has_properties && map.get("additionalProperties").is_some_and(Value::is_object) {
        causes.push(Cause::forbidden(
            &child(path, "additionalProperties"),
            "additionalProperties and properties are mutual exclusive",
        ));
    }
    if let Some(list_type) = map.get("x-kubernetes-list-type") {
        check_list_type(map, list_type, path, causes);
    }
}

fn check_list_type(map: &Map<String, Value>, list_type: &Value, path: &str, causes: &mut Vec<Cause>) {
    let field = child(path, "x-kubernetes-list-type");
    let keys_field = child(path, "x-kubernetes-list-map-keys");
    if map.get("type").and_then(Value::as_str) != Some("array") {
        let given = map.get("type").unwrap_or(&Value::Null);
        let detail = "must be array if x-kubernetes-list-type is specified";
        causes.push(Cause::invalid(&child(path, "type"), given, detail));
    }
    if !["atomic", "set", "map"].iter().any(|known| list_type == known) {
        causes.push(Cause::not_supported(&field, list_type, &["atomic", "set", "map"]));
    }
    let keys: Vec<&str> = map
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .map(|all| all.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    if list_type != "map" {
        return;
    }
    if keys.is_empty() {
        causes.push(Cause::required(&keys_field, "must not be empty if x-kubernetes-list-type is map"));
    }
    let items = map.get("items").unwrap_or(&Value::Null);
    for key in keys {
        let property = &items["properties"][key];
        if !property.is_object() {
            causes.push(Cause::invalid(
                &keys_field,
                &map["x-kubernetes-list-map-keys"],
                "entries must all be names of item properties",
            ));
            continue;
        }
        let required = items["required"].as_array().is_some_and(|all| all.iter().any(|r| r == key));
        if !required && property.get("default").is_none() {
            causes.push(Cause::required(
                &child(path, &format!("items.properties[{key}].default")),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                 property",
            ));
        }
    }
}

/// Schemas in `allOf`, `anyOf`, `oneOf` and `not` only restrict values; the structure is defined outside of them.
fn check_branch(branch: &Value, base: &Value, path: &str, types_allowed: bool, causes: &mut Vec<Cause>) {
    let structure = [
        "type",
        "default",
        "title",
        "description",
        "nullable",
        "additionalProperties",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
    ];
    for key in structure {
        let set = branch.get(key).is_some_and(|v| v != &Value::Bool(false));
        if set && !(types_allowed && key == "type") {
            let state = if key == "default" { "undefined" } else { "empty" };
            causes.push(Cause::forbidden(&child(path, key), &format!("must be {state} to be structural")));
        }
    }
    for (name, property) in branch["properties"].as_object().into_iter().flatten() {
        let inner = child(path, &format!("properties[{name}]"));
        check_branch(property, &base["properties"][name], &inner, false, causes);
    }
    if branch["items"].is_object() {
        check_branch(&branch["items"], &base["items"], &child(path, "items"), false, causes);
    }
    for junctor in JUNCTORS {
        for (i, inner) in branch[junctor].as_array().into_iter().flatten().enumerate() {
            check_branch(inner, base, &child(path, &format!("{junctor}[{i}]")), types_allowed, causes);
        }
    }
}

/// A default must be valid in its own schema and have no unknown fields.
pub(super) fn check_defaults(node: &Node, path: &str, causes: &mut Vec<Cause>) {
    if let Some(default) = &node.default {
        let field = child(path, "default");
        let mut kept = default.clone();
        if !pruning::prune_root(&mut kept, node).is_empty() {
            causes.push(Cause::invalid(&field, default, "must not have unknown fields"));
        }
        defaulting::default(&mut kept, node);
        for cause in validation::validate(&kept, None, node) {
            let inner = cause.field.strip_prefix(validation::NO_PATH).unwrap_or(&cause.field);
            causes.push(Cause { field: child(&field, inner).trim_end_matches('.').to_owned(), ..cause });
        }
    }
    for (name, property) in &node.properties {
        check_defaults(property, &child(path, &format!("properties[{name}]")), causes);
    }
    if let Some(Additional::Schema(schema)) = &node.additional {
        check_defaults(schema, &child(path, "additionalProperties"), causes);
    }
    if let Some(items) = &node.items {
        check_defaults(items, &child(path, "items"), causes);
    }
}
