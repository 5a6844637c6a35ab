//! Applies a patch to an object: JSON patch, JSON merge patch, strategic merge patch.
//!
//! The handler applies defaults, validates the result and compares resource versions; this module does not.

mod strategic;

use serde_json::Value;

use crate::status::Failure;

/// The patch types, by content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`, for built-in kinds only.
    Strategic,
}

/// Applies the patch and returns the new object.
pub(crate) fn apply(kind: PatchKind, original: &Value, patch: &Value) -> Result<Value, Failure> {
    let mut result = original.clone();
    match kind {
        PatchKind::Json => json(&mut result, patch)?,
        PatchKind::Merge | PatchKind::Strategic if !patch.is_object() => {
            return Err(Failure::bad_request(
                "error decoding patch: json: cannot unmarshal array into Go value of type \
                 map[string]interface {}",
            ));
        }
        PatchKind::Merge => json_patch::merge(&mut result, patch),
        PatchKind::Strategic => strategic::apply(&mut result, patch)?,
    }
    Ok(result)
}

fn json(object: &mut Value, patch: &Value) -> Result<(), Failure> {
    let Some(list) = patch.as_array() else {
        let what = if patch.is_object() { "object" } else { "value" };
        return Err(Failure::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {what} into Go value of type []handlers.jsonPatchOp"
        )));
    };
    let known = ["add", "remove", "replace", "move", "copy", "test"];
    if let Some(odd) = list.iter().find(|operation| !known.iter().any(|op| operation["op"] == *op)) {
        return Err(Failure::bad_request(format!("invalid operation {odd}: unsupported operation")));
    }
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
    // Without rollback on failure: the copy is dropped then, and the rollback of a move to the root panics.
    json_patch::patch_unsafe(object, &operations).map_err(|_| {
        // The API server does not report which operation failed.
        let message = "the server rejected our request due to an error in our request";
        let mut failure = Failure::new(422, "Invalid", message);
        failure.details = Some(serde_json::json!({}));
        failure
    })
}

#[cfg(test)]
mod tests;
