//! The body of a request, before anything is looked up.

use serde_json::Value;

use super::Ask;
use crate::builtin;
use crate::protobuf;
use crate::resource::Origin;
use crate::status::Failure;

/// Refuses a body that is no object of a built-in kind, before anything is looked up.
pub(super) fn decode_kind(ask: &Ask<'_>, body: &Value) -> Result<(), Failure> {
    if ask.info.origin == Origin::Builtin {
        // What it drops is told of later, when the object is admitted.
        builtin::decode(&ask.info, &mut body.clone()).map_err(Failure::bad_request)?;
    }
    Ok(())
}

/// Refuses bodies that are neither JSON nor protobuf.
pub(super) fn require_json(ask: &Ask<'_>) -> Result<(), Failure> {
    let media = ask.call.content_type.split(';').next().unwrap_or_default().trim();
    if matches!(media, "" | "application/json" | protobuf::OBJECTS) {
        Ok(())
    } else {
        Err(Failure::unsupported_media_type("application/json"))
    }
}
