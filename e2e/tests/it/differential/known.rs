//! What the two servers are known to differ in. Each entry says why; `docs/sandbox.md` has the same list for people.

use serde_json::Value;

use super::side::Kind;

/// Too large for 32 bits. The JSON decoder of 1.20 takes some numbers of more than 32 bits, such as 5000000000, modulo 2^32;
/// newer ones refuse them.
pub const TOO_LARGE: i64 = 3_000_000_000;

/// Fields that are not compared.
const FIELDS: &[(Kind, &str, &str)] =
    &[(Kind::Pod, "/metadata/generation", "pods have generations since 1.33, where the server writes them")];

/// Whether the causes of a refusal are compared: the words and paths of the schema validator of custom resources changed
/// from version to version, and the sandbox follows the current one.
pub fn compares_causes(kind: Kind) -> bool {
    kind != Kind::Gadget
}

/// Removes the fields that may differ, and nulls: 1.20 writes `creationTimestamp: null` into templates and the like, newer
/// servers leave it out, and no client can tell the difference.
pub fn strip(kind: Kind, object: &mut Value) {
    drop_nulls(object);
    for (_, pointer, _) in FIELDS.iter().filter(|(of, _, _)| *of == kind) {
        let Some((parent, key)) = pointer.rsplit_once('/') else { continue };
        if let Some(map) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
            map.remove(key);
        }
    }
}

/// Removes what the answer to a DELETE may differ in: the version in it was the last one of the object, and in newer
/// servers and the sandbox is the one of the deletion.
pub fn strip_deleted(answer: &mut Value) {
    if let Some(metadata) = answer.pointer_mut("/body/metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
}

/// Removes from a creation what servers of different versions make different things of.
pub fn strip_creation(edit: &mut Value) {
    if let Some(metadata) = edit.get_mut("metadata").and_then(Value::as_object_mut) {
        // A name that exists beside a prefix: 1.20 asks to try again, newer servers say that it exists.
        metadata.remove("generateName");
    }
}

/// The same of a strategic patch: of a null in a map that is not there 1.20 makes an empty text, newer servers nothing.
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

/// Fixed steps whose refusals are worded differently.
const WORDS: &[(&str, &str)] = &[
    ("patch strategically", "server-side apply, off here, adds a media type to those that are offered"),
    ("apply", "server-side apply, off here, adds a media type to those that are offered"),
    ("continue from nonsense", "the words are those of a server's JSON decoder"),
    ("a pod template of another shape", "the words are those of a server's JSON decoder"),
];

/// Removes the words from the answer to a fixed step if they are known to differ.
pub fn strip_words(label: &str, shown: &mut Value) {
    if WORDS.iter().any(|(step, _)| *step == label)
        && let Some(shown) = shown.as_object_mut()
    {
        shown.remove("words");
    }
}
