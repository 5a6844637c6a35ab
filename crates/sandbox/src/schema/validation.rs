//! Validates an object against a structural schema, with the messages of the API server.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::cause::Cause;
use super::node::{Node, child};

/// The path of the object itself in messages of the API server.
pub(super) const NO_PATH: &str = "<nil>";

/// All errors in the object. Values that are equal in the old object are not checked.
pub(super) fn validate(object: &Value, old: Option<&Value>, root: &Node) -> Vec<Cause> {
    let mut causes = Vec::new();
    check(object, old, root, "", &mut causes);
    causes
}

fn check(value: &Value, old: Option<&Value>, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    if old == Some(value) {
        return;
    }
    if let Some(wanted) = wrong_type(value, node) {
        let given = type_of(value);
        let detail = format!("{path} in body must be of type {wanted}: \"{given}\"");
        causes.push(Cause::type_invalid(shown(path), &given.into(), &detail));
    }
    match value {
        Value::String(text) => check_string(text, value, node, path, causes),
        Value::Number(number) => check_number(number.as_f64(), value, node, path, causes),
        Value::Array(list) => check_list(list, old, node, path, causes),
        Value::Object(map) => {
            check_size(map.len(), "properties", node, path, causes);
            for name in node.required.iter().filter(|name| !map.contains_key(*name)) {
                causes.push(Cause::required(&child(path, name), ""));
            }
            for (key, inner) in map {
                if let Some(schema) = node.of_key(key) {
                    check(inner, old.and_then(|old| old.get(key)), schema, &child(path, key), causes);
                }
            }
        }
        _ => {}
    }
    if !node.allowed.is_empty() && !node.allowed.contains(value) {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let supported: Vec<String> = node.allowed.iter().map(text).collect();
        causes.push(Cause::not_supported(shown(path), value, &supported));
    }
}

/// The type that the value should have, if it has another one.
fn wrong_type(value: &Value, node: &Node) -> Option<String> {
    // The API server also accepts whole numbers with a fraction, such as 3.0.
    let is_integer =
        || value.as_i64().is_some_and(|number| node.format != "int32" || i32::try_from(number).is_ok());
    let fits = match node.kind.as_str() {
        "" if node.int_or_string => value.is_string() || is_integer(),
        "" => true,
        "integer" => is_integer(),
        "number" => value.is_number(),
        kind => type_of(value) == kind,
    };
    let wanted = || match node.kind.as_str() {
        "" => "integer,string".to_owned(),
        "integer" if value.is_number() && !node.format.is_empty() => node.format.clone(),
        kind => kind.to_owned(),
    };
    (!fits).then(wanted)
}

/// The type in the schema language.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_i64().is_none() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// As on the API server, only the first violated limit is an error.
fn check_string(text: &str, value: &Value, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let (min, max) = node.sizes;
    let length = text.chars().count() as u64;
    let bad = |detail: String| Cause::invalid(shown(path), value, &detail);
    if let Some(max) = max.filter(|&max| length > max) {
        causes.push(Cause::too_long(shown(path), max));
    } else if let Some(min) = min.filter(|&min| length < min) {
        causes.push(bad(format!("{path} in body should be at least {min} chars long")));
    } else if let Some(pattern) = node.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        causes.push(bad(format!("{path} in body should match '{pattern}'")));
    }
    // The API server accepts more, such as an offset of 99 hours; clients cannot parse such times.
    if node.format == "date-time" && !is_date_time(text) {
        let detail = format!("{path} in body must be of type date-time: {value}");
        causes.push(Cause::type_invalid(shown(path), value, &detail));
    }
}

fn check_number(number: Option<f64>, value: &Value, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let Some(number) = number else { return };
    let mut bad = |detail: String| causes.push(Cause::invalid(shown(path), value, &detail));
    if let Some(max) = node.range.1.filter(|max| number > *max) {
        bad(format!("{path} in body should be less than or equal to {max}"));
    }
    if let Some(min) = node.range.0.filter(|min| number < *min) {
        bad(format!("{path} in body should be greater than or equal to {min}"));
    }
}

fn check_list(list: &[Value], old: Option<&Value>, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    check_size(list.len(), "items", node, path, causes);
    let keys: Vec<Option<Value>> = list.iter().map(|item| node.key_of(item)).collect();
    for (i, item) in list.iter().enumerate() {
        let place = format!("{path}[{i}]");
        if let Some(items) = &node.items {
            // An old item corresponds to a new one with the same key.
            let same = |old: &&Value| keys[i].is_some() && node.key_of(old) == keys[i];
            let old = old.and_then(Value::as_array).into_iter().flatten().find(same);
            check(item, old, items, &place, causes);
        }
        if let Some(key) = keys[i].as_ref().filter(|_| keys[..i].contains(&keys[i])) {
            causes.push(Cause::duplicate(&place, key));
        }
    }
}

/// Checks the number of items or properties.
fn check_size(size: usize, what: &str, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let size = size as u64;
    if let Some(min) = node.sizes.0.filter(|&min| size < min) {
        let detail = format!("{path} in body should have at least {min} {what}");
        causes.push(Cause::invalid(shown(path), &size.into(), &detail));
    }
    if let Some(max) = node.sizes.1.filter(|&max| size > max) {
        causes.push(Cause {
            reason: "FieldValueTooMany",
            message: format!("Too many: {size}: must have at most {max} items"),
            field: shown(path).to_owned(),
        });
    }
}

fn shown(path: &str) -> &str {
    if path.is_empty() { NO_PATH } else { path }
}

/// The pattern of the API server (`IsDateTime` in `go-openapi/strfmt`), in which any character separates the
/// fraction. The server therefore stores times that clients cannot parse, such as the last second of the year
/// 9999 or an offset of 99 hours.
static DATE_TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new("(?i)^([0-9]{4}-[0-9]{2}-[0-9]{2})t([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$").ok()
});

fn is_date_time(text: &str) -> bool {
    let found = DATE_TIME.as_ref().and_then(|pattern| pattern.captures(text));
    found.is_some_and(|found| found[1].parse::<jiff::civil::Date>().is_ok())
}
