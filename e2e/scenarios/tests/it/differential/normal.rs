//! Normalizes responses and events of two servers: UIDs and versions become ordinal numbers, times become a
//! placeholder. Also leaves out what is known to differ, each with a reason; `docs/sandbox.md` has the same
//! list for users.

use serde_json::{Map, Value, json};

use super::side::{Kind, Side, Step};

/// Fixed steps with another wording of the error.
const OTHER_WORDS: [&str; 5] = [
    // Server-side apply, off here, adds a media type to those that are offered.
    "patch strategically",
    // The sandbox has no server-side apply, and says so.
    "apply",
    // The words are those of the parser of selectors.
    "select badly",
    // The words are those of a server's JSON decoder.
    "continue from nonsense",
    "a pod template of another shape",
];

/// A response in normalized form.
pub fn answer(side: &Side, step: &Step, code: u16, body: &Value) -> Value {
    let kind = step.kind;
    let mut shown = if body["kind"] == "Status" {
        status(kind, body)
    } else if let Some(items) = body["items"].as_array() {
        let items: Vec<Value> = items.iter().map(|item| object(side, kind, item)).collect();
        json!({
            "kind": body["kind"], "apiVersion": body["apiVersion"], "items": items,
            "continues": body.pointer("/metadata/continue").is_some_and(|token| token != ""),
            "remaining": body.pointer("/metadata/remainingItemCount"),
        })
    } else {
        object(side, kind, body)
    };
    // In 1.20 the response to a DELETE has the last version of the object, later that of the deletion.
    if step.method == "DELETE"
        && let Some(metadata) = shown.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.remove("resourceVersion");
    }
    // Only the fixed steps compare messages: versions of Kubernetes word them differently.
    if code >= 300 && step.has_words && !OTHER_WORDS.contains(&step.label.as_str()) {
        shown["words"] = words(side, body);
    }
    replace_ids(side, &mut shown);
    json!({"code": code, "body": shown})
}

/// The error without its message.
fn status(kind: Kind, body: &Value) -> Value {
    let details = &body["details"];
    let mut causes: Vec<Value> = details["causes"]
        .as_array()
        .into_iter()
        .flatten()
        // Wording and paths of the schema validator of custom resources changed, and the sandbox has the
        // current one.
        .filter(|_| kind != Kind::Gadget)
        .map(|cause| json!([cause["reason"], cause["field"]]))
        .collect();
    causes.sort_by_key(ToString::to_string);
    causes.dedup();
    json!({
        "status": body["status"], "reason": body["reason"], "code": body["code"],
        "name": details["name"], "kind": details["kind"], "group": details["group"], "causes": causes,
        "retryAfterSeconds": details["retryAfterSeconds"],
    })
}

/// The message of an error, and the message of each cause, without versions.
fn words(side: &Side, body: &Value) -> Value {
    let causes = body["details"]["causes"].as_array().into_iter().flatten();
    let mut causes: Vec<&Value> = causes.map(|cause| &cause["message"]).collect();
    // Real servers check some rules of metadata twice.
    causes.dedup();
    let mut words = json!([body["message"], causes]);
    replace_ids(side, &mut words);
    let plain: Vec<char> = words.to_string().chars().collect();
    // Versions are long numbers; numbers that are compared are shorter.
    let mut shown = String::new();
    for run in plain.chunk_by(|one, other| one.is_ascii_digit() == other.is_ascii_digit()) {
        let is_version = run[0].is_ascii_digit() && run.len() > 1;
        shown.extend(if is_version { vec!['#'] } else { run.to_vec() });
    }
    shown.into()
}

/// An object in normalized form.
pub fn object(side: &Side, kind: Kind, object: &Value) -> Value {
    let mut object = object.clone();
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("selfLink");
        if kind == Kind::Pod {
            // Pods have generations since 1.33.
            metadata.remove("generation");
        }
        number(metadata, "resourceVersion", |version| {
            side.versions.get(&uid).and_then(|all| all.iter().position(|one| one == version))
        });
        number(metadata, "uid", |uid| side.uids.iter().position(|one| one == uid));
        for time in ["creationTimestamp", "deletionTimestamp"] {
            hide_time(metadata.get_mut(time));
        }
    }
    // The sandbox computes no quality of service.
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("qosClass");
    }
    // The time of the only condition that a server writes by itself, on a binding.
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        hide_time(condition.get_mut("lastTransitionTime"));
    }
    drop_nulls(&mut object);
    object
}

fn hide_time(time: Option<&mut Value>) {
    if let Some(time) = time.filter(|time| time.is_string()) {
        *time = "a time".into();
    }
}

fn number(metadata: &mut Map<String, Value>, key: &str, ordinal: impl Fn(&str) -> Option<usize>) {
    if let Some(value) = metadata.get_mut(key) {
        let found = value.as_str().and_then(ordinal);
        *value = found.map_or_else(|| "unheard of".into(), |number| json!(format!("number {number}")));
    }
}

/// 1.20 writes `creationTimestamp: null` into templates and similar objects; newer versions omit it, and the
/// difference is not visible to clients.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, inner| !inner.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Replaces the namespace and UIDs, everywhere.
fn replace_ids(side: &Side, value: &mut Value) {
    match value {
        Value::String(text) => {
            *text = text.replace(side.namespace.as_str(), "the-namespace");
            for (index, uid) in side.uids.iter().enumerate() {
                *text = text.replace(uid.as_str(), &format!("uid-{index}"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_ids(side, item)),
        Value::Object(map) => map.values_mut().for_each(|item| replace_ids(side, item)),
        _ => {}
    }
}

/// The differences of two values: each path with both values.
pub fn difference(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => {
            let absent = other.keys().filter(|key| !one.contains_key(*key));
            for key in one.keys().chain(absent) {
                difference(&format!("{path}/{key}"), &ours[key], &theirs[key], found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                difference(&format!("{path}/{index}"), one, other, found);
            }
        }
        (one, other) if one == other => {}
        (one, other) => found.push(format!("{path}: sandbox {one}, real {other}")),
    }
}
