//! Decodes the body of a request before the server reads any object.

use serde_json::Value;

use super::Ask;
use crate::builtin;
use crate::protobuf;
use crate::resource::Origin;
use crate::status::Failure;

/// Rejects a body that is neither JSON nor protobuf.
pub(super) fn require_json(ask: &Ask<'_>) -> Result<(), Failure> {
    let media = ask.call.content_type.split(';').next().unwrap_or_default().trim();
    if matches!(media, "" | "application/json" | protobuf::OBJECTS) {
        return Ok(());
    }
    Err(Failure::unsupported_media_type("application/json"))
}

/// Rejects a body that does not decode as its built-in kind, before the server reads any object.
pub(super) fn decode_kind(ask: &Ask<'_>, body: &Value) -> Result<(), Failure> {
    if ask.info.origin == Origin::Builtin {
        // The admission of the object returns the warnings for dropped fields.
        builtin::decode(&ask.info, &mut body.clone()).map_err(Failure::bad_request)?;
    }
    Ok(())
}
