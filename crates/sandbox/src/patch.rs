//! Applies a patch to an object: JSON patch, JSON merge patch, strategic merge patch.
//!
//! The handler applies defaults, validates the result and compares resource versions; this module does not.

mod error;
mod keys;
mod strategic;

pub use error::PatchError;
pub(crate) use keys::ROWS;

use serde_json::Value;

use crate::resource::{Origin, ResourceInfo};

/// The patch types, by content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
}

/// Applies the patch and returns the new object.
pub fn apply(
    kind: PatchKind,
    info: &ResourceInfo,
    original: &Value,
    patch: &Value,
) -> Result<Value, PatchError> {
    match kind {
        PatchKind::Json => json(original, patch),
        PatchKind::Merge | PatchKind::Strategic if !patch.is_object() => Err(PatchError::bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        )),
        PatchKind::Merge => {
            let mut result = original.clone();
            json_patch::merge(&mut result, patch);
            Ok(result)
        }
        PatchKind::Strategic if info.origin == Origin::Builtin => strategic::apply(info, original, patch),
        PatchKind::Strategic => Err(PatchError {
            code: 415,
            message: "the body of the request was in an unknown format - accepted media types include: \
                      application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
                .to_owned(),
        }),
    }
}

fn json(original: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Some(list) = patch.as_array() else {
        let what = if patch.is_object() { "object" } else { "value" };
        return Err(PatchError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {what} into Go value of type []handlers.jsonPatchOp"
        )));
    };
    let known = ["add", "remove", "replace", "move", "copy", "test"];
    if let Some(odd) = list.iter().find(|operation| !known.iter().any(|op| operation["op"] == *op)) {
        return Err(PatchError::bad_request(format!("invalid operation {odd}: unsupported operation")));
    }
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|err| PatchError::bad_request(format!("error decoding patch: {err}")))?;
    let mut result = original.clone();
    // Without rollback on failure: the copy is dropped then, and the rollback of a move to the root panics.
    json_patch::patch_unsafe(&mut result, &operations).map_err(|_| PatchError {
        code: 422,
        // The API server does not report which operation failed.
        message: "the server rejected our request due to an error in our request".to_owned(),
    })?;
    Ok(result)
}

#[cfg(test)]
mod tests;
