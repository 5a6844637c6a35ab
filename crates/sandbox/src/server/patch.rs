//! PATCH: JSON patch, merge patch and, for built-in kinds, strategic merge patch.

use serde_json::Value;

use super::{Answer, Ask, Reply, State, metadata};
use crate::patch::{self, PatchKind};
use crate::render;
use crate::resource::Origin;
use crate::schema::Cause;
use crate::status::Failure;

/// The patch type from `Content-Type`.
pub(super) fn kind(ask: &Ask<'_>) -> Result<PatchKind, Failure> {
    match (ask.call.content_type.split(';').next().unwrap_or_default().trim(), ask.info.origin) {
        ("application/json-patch+json", _) => Ok(PatchKind::Json),
        ("application/merge-patch+json", _) => Ok(PatchKind::Merge),
        ("application/strategic-merge-patch+json", Origin::Builtin) => Ok(PatchKind::Strategic),
        ("application/apply-patch+yaml", _) => Err(Failure::new(
            415,
            "UnsupportedMediaType",
            "the sandbox has no server-side apply: use kubectl apply without --server-side",
        )),
        (_, Origin::Builtin) => Err(Failure::unsupported_media_type(
            "application/json-patch+json, application/merge-patch+json, \
             application/strategic-merge-patch+json, application/apply-patch+yaml",
        )),
        (_, Origin::Crd) => Err(Failure::unsupported_media_type(
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )),
    }
}

/// The result of the patch in the body.
pub(super) fn apply(ask: &Ask<'_>, original: &Value) -> Result<Value, Failure> {
    patch::apply(kind(ask)?, original, &ask.call.json()?)
}

/// The result of the patch does not decode as its kind.
pub(super) fn undecodable(object: &Value, why: &str) -> Failure {
    let shown = object.to_string();
    let cause = Cause::invalid("patch", &shown.into(), why);
    Failure::invalid_kind("", "", "", &[cause])
}

/// Decodes the result of a patch.
pub(super) fn decode_result(ask: &Ask<'_>, patched: &mut Value) -> Result<(), Failure> {
    metadata::decode(ask, patched).map_err(|failure| {
        // Only a result that does not decode is an error of the patch.
        let has = |words: &str| failure.code == 400 && failure.message.contains(words);
        let is_of_another_version = has("does not match the expected API version");
        if is_of_another_version && ask.info.origin == Origin::Crd {
            let detail = format!("must be {}", ask.info.api_version());
            let cause = Cause::invalid("apiVersion", &patched["apiVersion"], &detail);
            let version = patched["apiVersion"].as_str().unwrap_or_default();
            let group = version.rsplit_once('/').map_or("", |(group, _)| group);
            Failure::invalid_kind(group, &ask.info.kind, ask.name(), &[cause])
        } else if is_of_another_version || has("cannot be handled as a") {
            undecodable(&Value::Null, &failure.message)
        } else {
            failure
        }
    })?;
    metadata::check_name(ask, patched)
}

impl State {
    pub(super) fn patch(&mut self, ask: &Ask<'_>, sub: Option<&str>) -> Answer {
        kind(ask)?;
        let old = self.existing(ask)?;
        let mut patched = apply(ask, &render::versioned(&ask.info, &old))?;
        if kind(ask)? == PatchKind::Strategic {
            // The result is decoded as the type of the original; its kind and apiVersion have no effect.
            patched["kind"] = ask.info.kind.as_str().into();
            patched["apiVersion"] = ask.info.api_version().into();
        }
        decode_result(ask, &mut patched)?;
        let (stored, warnings) = self.commit(ask, patched, &old, sub)?;
        Ok(Reply::Json { code: 200, body: self.shown(ask, &stored), warnings })
    }
}
