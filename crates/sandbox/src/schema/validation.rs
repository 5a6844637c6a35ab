//! Validates an object against a structural schema, with the messages of the API server.
//!
//! The module `cel` evaluates rules.

use serde_json::Value;

use super::{
    cause::Cause,
    formats,
    node::{ListType, Node, child},
};

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
    if value.is_null() && node.nullable {
        return;
    }
    check_type(value, node, path, causes);
    check_junctors(value, node, path, causes);
    match value {
        Value::String(text) => check_string(text, value, node, path, causes),
        Value::Number(_) => check_number(value, node, path, causes),
        Value::Array(list) => check_list(list, old, node, path, causes),
        _ => {}
    }
    if !node.allowed.is_empty() && !node.allowed.iter().any(|allowed| equal(allowed, value)) {
        let supported: Vec<String> =
            node.allowed.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
        causes.push(Cause::not_supported(shown(path), value, &supported));
    }
    if let Value::Object(_) = value {
        check_object(value, old, node, path, causes);
    }
}

fn check_type(value: &Value, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let wanted: &[&str] = if node.int_or_string { &["integer", "string"] } else { &[node.kind.as_str()] };
    if wanted == [""] {
        return;
    }
    let (given, width) = type_of(value);
    // Floats represent integers exactly below this limit.
    let is_whole = |f: f64| f.fract() == 0.0 && f.abs() < 9_007_199_254_740_992.0;
    let fits = wanted.contains(&given)
        || (given == "integer" && wanted.contains(&"number"))
        || (wanted.contains(&"integer") && value.as_f64().is_some_and(is_whole));
    let mut bad = |wanted: &str, given: &str| {
        let detail = format!("{path} in body must be of type {wanted}: \"{given}\"");
        causes.push(Cause::type_invalid(shown(path), &given.into(), &detail));
    };
    let is_text_or_list = value.is_string() || value.is_array();
    let is_formatted = !node.format.is_empty();
    if is_formatted && !is_text_or_list && !fits && width != node.format {
        bad(&node.format, width);
    } else if is_formatted && is_text_or_list && !wanted.iter().any(|w| matches!(*w, "integer" | "number")) {
        // The checks of strings include the format.
    } else if !fits {
        bad(&wanted.join(","), given);
    }
}

/// The type in the schema language, and the format that the API server assigns to numbers.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(n) if n.as_i64().is_none() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn check_junctors(value: &Value, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let try_all = |branches: &[Node]| -> Vec<Vec<Cause>> {
        let each = |branch: &Node| {
            let mut found = Vec::new();
            check(value, None, branch, path, &mut found);
            found
        };
        branches.iter().map(each).collect()
    };
    let mut failed = |text: &str, best: Vec<Cause>| {
        causes.push(Cause::invalid(NO_PATH, &"".into(), &format!("\"{path}\" must {text}")));
        causes.extend(best);
    };
    // Only the errors of one branch: the errors of several branches contradict each other.
    let best = |all: Vec<Vec<Cause>>| all.into_iter().next().unwrap_or_default();
    let any = try_all(&node.any_of);
    if !any.is_empty() && any.iter().all(|found| !found.is_empty()) {
        failed("validate at least one schema (anyOf)", best(any));
    }
    let one = try_all(&node.one_of);
    match one.iter().filter(|found| found.is_empty()).count() {
        0 if !one.is_empty() => {
            failed("validate one and only one schema (oneOf). Found none valid", best(one));
        }
        n if n > 1 => failed(
            &format!("validate one and only one schema (oneOf). Found {n} valid alternatives"),
            Vec::new(),
        ),
        _ => {}
    }
    let all: Vec<Vec<Cause>> = try_all(&node.all_of);
    let bad = all.iter().filter(|found| !found.is_empty()).count();
    if bad > 0 {
        let suffix = if bad == all.len() { ". None validated" } else { "" };
        failed(&format!("validate all the schemas (allOf){suffix}"), all.into_iter().flatten().collect());
    }
    if let Some(not) = &node.not
        && try_all(std::slice::from_ref(not)).iter().all(Vec::is_empty)
    {
        failed("not validate the schema (not)", Vec::new());
    }
}

/// As on the API server, only the first violated limit is an error.
fn check_string(text: &str, value: &Value, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let (min, max) = node.sizes.length;
    let length = text.chars().count() as u64;
    let bad = |detail: String| Cause::invalid(shown(path), value, &detail);
    if let Some(max) = max.filter(|&max| length > max) {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {max} bytes"),
            field: shown(path).to_owned(),
        });
    } else if let Some(min) = min.filter(|&min| length < min) {
        causes.push(bad(format!("{path} in body should be at least {min} chars long")));
    } else if let Some(pattern) = node.pattern.as_ref().filter(|p| !p.is_match(text)) {
        causes.push(bad(format!("{path} in body should match '{pattern}'")));
    }
    if !node.int_or_string && !formats::matches(&node.format, text) {
        let detail = format!("{path} in body must be of type {}: {value}", node.format);
        causes.push(Cause::type_invalid(shown(path), value, &detail));
    }
}

fn check_number(value: &Value, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let range = &node.range;
    let in_range = match node.format.as_str() {
        "int32" => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        _ => value.as_i64().is_some(),
    };
    let whole = value.as_f64().is_some_and(|f| f.fract() == 0.0 && f.abs() < f64::from(i32::MAX));
    if node.kind == "integer" && !in_range && !whole {
        let format = match node.format.as_str() {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        let detail = format!("Checked value must be of type integer {format} in {path}");
        causes.push(Cause::invalid(NO_PATH, &"".into(), &detail));
    }
    let mut bad = |detail: String| causes.push(Cause::invalid(shown(path), value, &detail));
    if let Some(of) = &range.multiple_of
        && let (Some(n), Some(of_number)) = (value.as_f64(), of.as_f64())
        && (n / of_number).fract() != 0.0
    {
        bad(format!("{path} in body should be a multiple of {of}"));
    }
    if let Some(max) = &range.maximum {
        match compare(value, max) {
            Some(std::cmp::Ordering::Greater) if !range.exclusive_maximum => {
                bad(format!("{path} in body should be less than or equal to {max}"));
            }
            Some(std::cmp::Ordering::Greater | std::cmp::Ordering::Equal) if range.exclusive_maximum => {
                bad(format!("{path} in body should be less than {max}"));
            }
            _ => {}
        }
    }
    if let Some(min) = &range.minimum {
        match compare(value, min) {
            Some(std::cmp::Ordering::Less) if !range.exclusive_minimum => {
                bad(format!("{path} in body should be greater than or equal to {min}"));
            }
            Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal) if range.exclusive_minimum => {
                bad(format!("{path} in body should be greater than {min}"));
            }
            _ => {}
        }
    }
}

fn check_list(list: &[Value], old: Option<&Value>, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let size = list.len() as u64;
    if let (Some(min), _) = node.sizes.items
        && size < min
    {
        let detail = format!("{path} in body should have at least {min} items");
        causes.push(Cause::invalid(shown(path), &size.into(), &detail));
    }
    if let (_, Some(max)) = node.sizes.items
        && size > max
    {
        causes.push(too_many(path, size, max));
    }
    if let Some(items) = &node.items {
        for (i, item) in list.iter().enumerate() {
            check(item, node.old_item(item, old), items, &format!("{path}[{i}]"), causes);
        }
    }
    for (i, item) in list.iter().enumerate() {
        let place = format!("{path}[{i}]");
        match &node.list_type {
            ListType::Atomic => {}
            ListType::Set => {
                if list[..i].contains(item) {
                    causes.push(Cause::duplicate(&place, item));
                }
            }
            ListType::Map(keys) => {
                let key_of = |v: &Value| -> Value {
                    let pairs = keys.iter().filter_map(|k| Some((k.clone(), v.get(k)?.clone())));
                    Value::Object(pairs.collect())
                };
                let key = key_of(item);
                if list[..i].iter().any(|before| key_of(before) == key) {
                    causes.push(Cause::duplicate(&place, &key));
                }
            }
        }
    }
}

fn check_object(value: &Value, old: Option<&Value>, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let Some(map) = value.as_object() else { return };
    let size = map.len() as u64;
    if let (Some(min), _) = node.sizes.properties
        && size < min
    {
        let detail = format!("{path} in body should have at least {min} properties");
        causes.push(Cause::invalid(shown(path), &size.into(), &detail));
    }
    if let (_, Some(max)) = node.sizes.properties
        && size > max
    {
        causes.push(too_many(path, size, max));
    }
    if node.embedded {
        for name in ["apiVersion", "kind"] {
            if map.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                causes.push(Cause::required(&child(path, name), ""));
            }
        }
    }
    for name in &node.required {
        if !map.contains_key(name) {
            causes.push(Cause::required(&child(path, name), ""));
        }
    }
    for (key, inner) in map {
        if let Some(schema) = node.of_key(key) {
            check(inner, old.and_then(|o| o.get(key)), schema, &child(path, key), causes);
        }
    }
}

fn too_many(path: &str, size: u64, max: u64) -> Cause {
    Cause {
        reason: "FieldValueTooMany",
        message: format!("Too many: {size}: must have at most {max} items"),
        field: shown(path).to_owned(),
    }
}

fn shown(path: &str) -> &str {
    if path.is_empty() { NO_PATH } else { path }
}

fn compare(a: &Value, b: &Value) -> Option<std::cmp::Ordering> {
    // Compare integers as integers: floats lose the last digits of large numbers.
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn equal(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && compare(a, b) == Some(std::cmp::Ordering::Equal))
}
