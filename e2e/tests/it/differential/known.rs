//! What the two servers are known to differ in. Each entry says why; `docs/sandbox.md` has the same list for people.

use serde_json::Value;

use super::side::Kind;

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

/// Removes from an edit what servers of different versions make different things of.
pub fn strip_edit(creates: bool, strategic: bool, edit: &mut Value) {
    let Some(metadata) = edit.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if creates {
        // A name that exists beside a prefix: 1.20 asks to try again, newer servers say that it exists.
        metadata.remove("generateName");
    }
    if strategic && metadata.get("annotations").is_some_and(|map| map.get("n") == Some(&Value::Null)) {
        // A null for what is not there: 1.20 makes an empty text of it, newer servers nothing.
        metadata.remove("annotations");
    }
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
