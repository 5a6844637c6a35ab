//! The known differences of the two servers, each with a reason. `docs/sandbox.md` has the same list for
//! users.

use serde_json::Value;

use super::side::Kind;

/// Exceeds 32 bits. The JSON decoder of 1.20 accepts some numbers with more than 32 bits, such as 5000000000,
/// modulo 2^32; newer versions reject them.
pub const TOO_LARGE: i64 = 3_000_000_000;

/// Fields that are not compared.
const FIELDS: &[(Kind, &str, &str)] =
    &[(Kind::Pod, "/metadata/generation", "pods have generations since 1.33, where the server writes them")];

/// Whether the causes of an error are compared: the wording and the paths of the schema validator of custom
/// resources changed between versions, and the sandbox implements the current one.
pub fn compares_causes(kind: Kind) -> bool {
    kind != Kind::Gadget
}

/// Removes fields that may differ, and nulls: 1.20 writes `creationTimestamp: null` into templates and
/// similar objects; newer versions omit it, and the difference is not visible to clients.
pub fn strip(kind: Kind, object: &mut Value) {
    drop_nulls(object);
    for (_, pointer, _) in FIELDS.iter().filter(|(of, _, _)| *of == kind) {
        let Some((parent, key)) = pointer.rsplit_once('/') else { continue };
        if let Some(map) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
            map.remove(key);
        }
    }
}

/// Removes the part of a DELETE response that may differ: in 1.20 its version is the last version of the
/// object; in newer versions and in the sandbox it is the version of the deletion.
pub fn strip_deleted(answer: &mut Value) {
    if let Some(metadata) = answer.pointer_mut("/body/metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
}

/// Removes from a create the fields that versions of Kubernetes handle differently.
pub fn strip_creation(edit: &mut Value) {
    if let Some(metadata) = edit.get_mut("metadata").and_then(Value::as_object_mut) {
        // An existing name with a prefix: 1.20 asks the client to retry; newer versions report that the name
        // exists.
        metadata.remove("generateName");
    }
}

/// Removes the same from a strategic merge patch: for a null in an absent map, 1.20 stores an empty string,
/// newer versions store nothing.
pub fn strip_strategic(current: &Value, edit: &mut Value) {
    let Some(metadata) = edit.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.retain(|key, map| {
        let has_null = map.as_object().is_some_and(|map| map.values().any(Value::is_null));
        !has_null || current.pointer(&format!("/metadata/{key}")).is_some()
    });
}

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

/// Fixed steps with a different wording of the error.
const WORDS: &[(&str, &str)] = &[
    ("patch strategically", "server-side apply, off here, adds a media type to those that are offered"),
    ("apply", "the sandbox has no server-side apply, and says so"),
    ("continue from nonsense", "the words are those of a server's JSON decoder"),
    ("a pod template of another shape", "the words are those of a server's JSON decoder"),
];

/// Removes the messages from the response of a fixed step if they are known to differ.
pub fn strip_words(label: &str, shown: &mut Value) {
    if WORDS.iter().any(|(step, _)| *step == label)
        && let Some(shown) = shown.as_object_mut()
    {
        shown.remove("words");
    }
}
