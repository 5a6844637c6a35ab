//! DELETE: preconditions, graceful deletion of pods, finalizers and propagation policies.
//!
//! It deletes one object or sets its deletion timestamp. The garbage collector handles the dependents.

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions;
use serde::Deserialize;
use serde_json::{Value, json};

use super::read::Filter;
use super::update::finished;
use super::{Answer, Ask, Reply, State, metadata, storage};
use crate::clock::seconds;
use crate::object;
use crate::render;
use crate::resource::ResourceInfo;
use crate::schema::Cause;
use crate::status::{self, Failure};
use crate::store::Key;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The DeleteOptions, from the body or the query.
fn options(ask: &Ask<'_>) -> Result<DeleteOptions, Failure> {
    // With a body, the server ignores the query.
    if !ask.call.body.is_empty() {
        return read_options(&ask.call.json()?);
    }
    let options = DeleteOptions {
        grace_period_seconds: ask.query.get("gracePeriodSeconds").and_then(|text| text.parse().ok()),
        propagation_policy: ask.query.get("propagationPolicy").map(str::to_owned),
        dry_run: ask.dry_run.then(|| vec!["All".to_owned()]),
        ..DeleteOptions::default()
    };
    checked(options)
}

/// The options in a body; none if it is null.
pub(super) fn read_options(body: &Value) -> Result<DeleteOptions, Failure> {
    let options = Option::<DeleteOptions>::deserialize(body);
    checked(options.map_err(|error| Failure::bad_request(error.to_string()))?.unwrap_or_default())
}

fn checked(mut options: DeleteOptions) -> Result<DeleteOptions, Failure> {
    let refuse = |cause| Err(Failure::invalid_options("DeleteOptions", &[cause]));
    if let Some(policy) = options.propagation_policy.as_deref() {
        let policy = policy.into();
        if options.orphan_dependents.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            return refuse(Cause::invalid("propagationPolicy", &policy, why));
        }
        if !["Background", "Foreground", "Orphan"].iter().any(|known| policy == *known) {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            return refuse(Cause::not_supported("propagationPolicy", &policy, &supported));
        }
    }
    options.dry_run = options.dry_run.filter(|list| !list.is_empty());
    if let Some(orphan) = options.orphan_dependents {
        options.propagation_policy = Some(if orphan { "Orphan" } else { "Background" }.to_owned());
    }
    Ok(options)
}

impl State {
    pub(super) fn delete(&mut self, ask: &Ask<'_>) -> Answer {
        let options = options(ask)?;
        let (last, gone) = self.delete_one(&ask.info, &ask.key(), &options)?;
        let returns_object = ask.info.is_builtin("", "Pod") || !gone;
        let body = if returns_object {
            self.shown(ask, &last)
        } else {
            status::deleted(&ask.info, object::name(&last), object::uid(&last))
        };
        Ok(Reply::ok(body))
    }

    pub(super) fn delete_collection(&mut self, ask: &Ask<'_>) -> Answer {
        let options = options(ask)?;
        let filter = Filter::parse(ask)?;
        if ask.info.namespaced && ask.target.namespace.is_none() {
            return Err(Failure::method_not_allowed());
        }
        let all = self.store.collection(&ask.resource()).objects.iter();
        let keys: Vec<Key> =
            all.filter(|(_, object)| filter.matches(object)).map(|(key, _)| key.clone()).collect();
        let mut deleted = Vec::new();
        for key in keys {
            // The response shows the objects before their deletion.
            deleted.extend(self.store.get(&ask.resource(), &key).map(Arc::clone));
            self.delete_one(&ask.info, &key, &options)?;
        }
        let meta = json!({"resourceVersion": self.store.version.to_string()});
        Ok(Reply::ok(render::list(&ask.info, &deleted, &meta, ask.form, self.now())))
    }

    /// Deletes one object or sets its deletion timestamp. Returns its state and whether it was removed.
    pub(super) fn delete_one(
        &mut self,
        info: &ResourceInfo,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<(Arc<Value>, bool), Failure> {
        let resource = storage(info);
        let old =
            self.store.get(&resource, key).map(Arc::clone).ok_or_else(|| Failure::not_found(info, &key.1))?;
        check_preconditions(info, &key.1, &old, options)?;
        let mut object = Value::clone(&old);
        let grace = grace(info, &object, options);
        let held_by = finalizers(&object, options.propagation_policy.as_deref());
        object::set_finalizers(&mut object, held_by);
        if super::crd::is_crd(info) && !object::terminating(&object) {
            // The finalizer keeps the definition until all its objects are deleted.
            let mut finalizers = object::finalizers(&object);
            finalizers.push(super::crd::CLEANUP.to_owned());
            object::set_finalizers(&mut object, finalizers);
        }
        let marked_grace = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
        if !object::terminating(&object) || marked_grace.is_some_and(|marked| grace < marked) {
            if !object::terminating(&object) {
                metadata::bump_generation(&mut object);
            }
            let end = self.now().checked_add(SignedDuration::from_secs(grace)).unwrap_or(self.now());
            object::set_meta(&mut object, "deletionTimestamp", seconds(end).into());
            if !info.is_builtin("", "Namespace") {
                object::set_meta(&mut object, "deletionGracePeriodSeconds", grace.into());
            }
        }
        if info.is_builtin("", "Namespace") {
            object::put_at(&mut object, ".status.phase", "Terminating".into());
        }
        let gone = finished(&object);
        if options.dry_run.is_some() {
            return Ok((Arc::new(object), gone));
        }
        if gone {
            // For a pod, watches first see the deletion timestamp, then the deletion. Other kinds are removed
            // immediately.
            let last = if info.is_builtin("", "Pod") && object != *old {
                Value::clone(&self.store.put(&resource, key, object))
            } else {
                Value::clone(&old)
            };
            let last = self.store.remove(&resource, key, &last).unwrap_or(old);
            self.forget_crd(info, &last);
            return Ok((last, true));
        }
        if object == *old {
            return Ok((old, false));
        }
        Ok((self.store.put(&resource, key, object), false))
    }
}

fn check_preconditions(
    info: &ResourceInfo,
    name: &str,
    old: &Value,
    options: &DeleteOptions,
) -> Result<(), Failure> {
    let Some(preconditions) = &options.preconditions else { return Ok(()) };
    for (what, wanted, found, hint) in [
        ("UID", &preconditions.uid, object::uid(old), "been deleted and then recreated"),
        ("ResourceVersion", &preconditions.resource_version, object::resource_version(old), "been modified"),
    ] {
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). \
                 The object might have {hint}"
            );
            // The message contains the kind, not the resource.
            return Err(Failure::conflict_at(&info.group, &info.kind, name, &why));
        }
    }
    Ok(())
}

/// The grace period of a pod in seconds; other kinds have none.
fn grace(info: &ResourceInfo, object: &Value, options: &DeleteOptions) -> i64 {
    if !info.is_builtin("", "Pod") {
        return 0;
    }
    let (spec, status) = (&object["spec"], &object["status"]);
    let has_ended = matches!(object::text(status, "phase"), "Succeeded" | "Failed");
    if object::text(spec, "nodeName").is_empty() || has_ended {
        return 0;
    }
    let own = spec["terminationGracePeriodSeconds"].as_i64();
    match options.grace_period_seconds.or(own).unwrap_or(30) {
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}

/// The finalizers of an object after a delete with this policy.
fn finalizers(object: &Value, policy: Option<&str>) -> Vec<String> {
    let mut list = object::finalizers(object);
    let Some(policy) = policy else { return list };
    list.retain(|one| one != ORPHAN && one != FOREGROUND);
    match policy {
        "Foreground" => list.push(FOREGROUND.to_owned()),
        "Orphan" => list.push(ORPHAN.to_owned()),
        _ => {}
    }
    list
}
