//! PUT, and the commit of all changes of existing objects.

use std::sync::Arc;

use serde_json::Value;

use super::crd::is_crd;
use super::create::{admit, decode_body};
use super::{Answer, Ask, Reply, State, metadata};
use crate::object;
use crate::render;
use crate::resource::{Origin, ResourceInfo};
use crate::schema::Cause;
use crate::status::Failure;

impl State {
    pub(super) fn update(&mut self, ask: &Ask<'_>, sub: Option<&str>) -> Answer {
        let body = decode_body(ask)?;
        metadata::check_name(ask, &body)?;
        let found = self.store.get(&ask.resource(), &ask.key()).map(Arc::clone);
        let uid = object::uid(&body);
        let found_uid = found.as_deref().map(object::uid).unwrap_or_default();
        // A missing object has an empty UID, so a request with a UID gets a conflict.
        if !uid.is_empty() && uid != found_uid {
            let why =
                format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found_uid}");
            return Err(Failure::conflict(&ask.info, ask.name(), &why));
        }
        let old = found.ok_or_else(|| Failure::not_found(&ask.info, ask.name()))?;
        if object::resource_version(&body).is_empty() && needs_version(&ask.info) {
            let cause =
                Cause::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update");
            return Err(Failure::invalid_kind(&ask.info.group, &ask.info.plural, ask.name(), &[cause]));
        }
        let (stored, warnings) = self.commit(ask, body, &old, sub)?;
        Ok(Reply::Json { code: 200, body: self.shown(ask, &stored), warnings })
    }

    pub(super) fn existing(&self, ask: &Ask<'_>) -> Result<Arc<Value>, Failure> {
        self.store
            .get(&ask.resource(), &ask.key())
            .map(Arc::clone)
            .ok_or_else(|| Failure::not_found(&ask.info, ask.name()))
    }

    /// Validates a changed object against the stored one and stores it. A change without effect creates no
    /// new version.
    pub(super) fn commit(
        &mut self,
        ask: &Ask<'_>,
        mut object: Value,
        old: &Arc<Value>,
        sub: Option<&str>,
    ) -> Result<(Arc<Value>, Vec<String>), Failure> {
        let info = &ask.info;
        let version = object::resource_version(&object);
        if !version.is_empty() && version.parse::<u64>().is_err() {
            return Err(Failure::internal(format!(
                "strconv.ParseUint: parsing \"{version}\": invalid syntax"
            )));
        }
        if !version.is_empty() && version != object::resource_version(old) {
            return Err(Failure::conflict(
                info,
                ask.name(),
                "the object has been modified; please apply your changes to the latest version and try again",
            ));
        }
        if sub == Some("status") && info.is_builtin("", "Pod") {
            // The deletion timestamp in a status update is ignored, even if it is invalid.
            object::set_meta(&mut object, "deletionTimestamp", Value::Null);
        }
        // First, because an endpoint ignores invalid metadata in fields that it does not write.
        compose(info, &mut object, old, sub);
        let changed = metadata::changed_owned(&object, old);
        if !changed.is_empty() {
            return Err(Failure::invalid(info, ask.name(), &changed));
        }
        metadata::keep_owned(&mut object, old);
        metadata::check_kind(info, &object)?;
        let warnings = admit(ask, &mut object, Some(old))?;
        if is_crd(info) {
            Self::check_crd(info, &mut object)?;
        }
        metadata::advance_generation(info, &mut object, old);
        render::stamp(info, &mut object);
        object::set_meta(&mut object, "resourceVersion", object::resource_version(old).into());
        // The stored object keeps its apiVersion; all served versions are the same object.
        object::set(&mut object, "apiVersion", old.get("apiVersion"));
        if object == **old {
            return Ok((Arc::clone(old), warnings));
        }
        if ask.dry_run {
            return Ok((Arc::new(object), warnings));
        }
        if finished(&object) {
            // Watches get the last stored state of the object; the client gets what it sent.
            self.store.remove(&ask.resource(), &ask.key(), old);
            self.forget_crd(info, &object);
            return Ok((Arc::new(object), warnings));
        }
        let stored = self.store.put(&ask.resource(), &ask.key(), object);
        self.serve_crd(info, &stored);
        Ok((stored, warnings))
    }
}

/// Whether a terminating object has no remaining finalizers and no grace period.
pub(super) fn finished(object: &Value) -> bool {
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let held = object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
        && object["kind"] == "Namespace";
    object::terminating(object) && grace.unwrap_or(0) == 0 && object::finalizers(object).is_empty() && !held
}

/// Kinds that do not allow unconditional updates.
fn needs_version(info: &ResourceInfo) -> bool {
    info.origin == Origin::Crd
        || matches!(info.kind.as_str(), "Lease" | "PodDisruptionBudget" | "CustomResourceDefinition")
}

/// Combines the fields that the endpoint writes from the new object with the other fields of the old object.
fn compose(info: &ResourceInfo, object: &mut Value, old: &Value, sub: Option<&str>) {
    if sub != Some("status") {
        if info.status {
            object::set(object, "status", old.get("status"));
        }
        if info.is_builtin("", "Namespace") {
            object::set(object, "spec", old.get("spec"));
        }
        return;
    }
    if info.origin == Origin::Crd {
        let status = object.get("status").cloned();
        *object = old.clone();
        object::set(object, "status", status.as_ref());
        return;
    }
    // The status endpoint of built-in kinds also writes metadata, except the fields that each kind resets.
    object::set(object, "spec", old.get("spec"));
    let kept = match info.kind.as_str() {
        "Deployment" => "labels",
        "Pod" => "ownerReferences",
        _ => return,
    };
    object::set_meta(object, kept, old["metadata"][kept].clone());
}
