//! PUT, and the commit that every change of an existing object goes through.

use std::sync::Arc;

use serde_json::Value;

use super::create::{admit, is_crd, require_json, to_storage};
use super::{Answer, Ask, Reply, State, metadata};
use crate::object;
use crate::resource::{Origin, ResourceInfo};
use crate::schema::Cause;
use crate::status::Failure;

impl State {
    pub(super) fn update(&mut self, ask: &Ask<'_>, sub: Option<&str>) -> Answer {
        require_json(ask)?;
        let mut body = ask.call.json()?;
        metadata::decode(ask, &mut body)?;
        if object::name(&body) != ask.name() {
            return Err(Failure::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({})",
                object::name(&body),
                ask.name()
            )));
        }
        let old = self.existing(ask)?;
        if object::resource_version(&body).is_empty() && ask.info.origin == Origin::Crd {
            let cause = Cause {
                reason: "FieldValueInvalid",
                message: "Invalid value: 0x0: must be specified for an update".into(),
                field: "metadata.resourceVersion".into(),
            };
            return Err(Failure::invalid(&ask.info, ask.name(), &[cause]));
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

    /// Checks a changed object against the stored one and stores it. A change that changes nothing stores nothing.
    pub(super) fn commit(
        &mut self,
        ask: &Ask<'_>,
        mut object: Value,
        old: &Arc<Value>,
        sub: Option<&str>,
    ) -> Result<(Arc<Value>, Vec<String>), Failure> {
        let info = &ask.info;
        let version = object::resource_version(&object);
        if !version.is_empty() && version != object::resource_version(old) {
            return Err(Failure::modified(info, ask.name()));
        }
        let uid = object::uid(&object);
        if !uid.is_empty() && uid != object::uid(old) {
            return Err(Failure::conflict(
                info,
                ask.name(),
                &format!(
                    "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                    object::uid(old)
                ),
            ));
        }
        metadata::keep_owned(&mut object, old);
        compose(info, &mut object, old, sub);
        let warnings = admit(ask, &mut object, Some(old))?;
        let mut causes = metadata::validate(&object);
        causes.extend(new_finalizers(&object, old));
        if !causes.is_empty() {
            return Err(Failure::invalid(info, ask.name(), &causes));
        }
        if is_crd(info) {
            Self::check_crd(info, &mut object, Some(old))?;
        }
        metadata::advance_generation(info, &mut object, old);
        to_storage(info, &mut object);
        object::set_meta(&mut object, "resourceVersion", object::resource_version(old).into());
        // Other served versions of the same object are the same object.
        object::set(&mut object, "apiVersion", old.get("apiVersion"));
        if object == **old {
            return Ok((Arc::clone(old), warnings));
        }
        if ask.dry_run {
            return Ok((Arc::new(object), warnings));
        }
        if finished(&object) {
            let last = self.store.remove(&ask.resource(), &ask.key(), &object);
            self.after_removal(info, &object);
            return Ok((last.unwrap_or_else(|| Arc::new(object)), warnings));
        }
        let stored = self.store.put(&ask.resource(), &ask.key(), object);
        self.after_change(info, &stored);
        Ok((stored, warnings))
    }
}

/// Whether an object that is being deleted has nothing left to wait for.
pub(super) fn finished(object: &Value) -> bool {
    let grace = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    let held = object
        .pointer("/spec/finalizers")
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty() && object.get("kind").is_some_and(|kind| kind == "Namespace"));
    object::terminating(object) && grace.unwrap_or(0) == 0 && object::finalizers(object).is_empty() && !held
}

/// Takes from the new object what its endpoint may write, and the rest from the old one.
fn compose(info: &ResourceInfo, object: &mut Value, old: &Value, sub: Option<&str>) {
    match sub {
        Some("status") => {
            let status = object.get("status").cloned();
            let (labels, annotations) = (map_of(object, "labels"), map_of(object, "annotations"));
            *object = old.clone();
            object::set(object, "status", status.as_ref());
            if info.is_builtin("", "Pod") || info.is_builtin("", "Node") {
                object::set_meta(object, "labels", labels);
                object::set_meta(object, "annotations", annotations);
            }
        }
        Some("finalize") => {
            let finalizers = object.pointer("/spec/finalizers").cloned().unwrap_or_default();
            *object = old.clone();
            object::put_at(object, ".spec.finalizers", finalizers);
        }
        _ => {
            if info.status {
                object::set(object, "status", old.get("status"));
            }
            if info.is_builtin("", "Namespace") {
                object::set(object, "spec", old.get("spec"));
            }
        }
    }
}

fn map_of(object: &Value, key: &str) -> Value {
    object.pointer(&format!("/metadata/{key}")).cloned().unwrap_or_default()
}

fn new_finalizers(object: &Value, old: &Value) -> Option<Cause> {
    if !object::terminating(old) {
        return None;
    }
    let had = object::finalizers(old);
    let new: Vec<String> = object::finalizers(object).into_iter().filter(|one| !had.contains(one)).collect();
    (!new.is_empty()).then(|| Cause {
        reason: "FieldValueForbidden",
        message: format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            new.iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(", ")
        ),
        field: "metadata.finalizers".into(),
    })
}
