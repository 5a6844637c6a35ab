//! DELETE: preconditions, graceful deletion of pods, finalizers and propagation policies.
//!
//! It deletes one object or sets its deletion timestamp. The garbage collector handles the dependents.

use std::sync::Arc;

use jiff::SignedDuration;
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

/// The propagation policy: what happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The DeleteOptions, from the body or the query.
#[derive(Debug, Default)]
pub(super) struct Options {
    grace: Option<i64>,
    uid: Option<String>,
    version: Option<String>,
    propagation: Option<Propagation>,
    pub(super) dry_run: bool,
}

impl Options {
    pub(super) fn background(uid: &str) -> Self {
        Self { uid: Some(uid.to_owned()), propagation: Some(Propagation::Background), ..Self::default() }
    }

    pub(super) fn parse(ask: &Ask<'_>) -> Result<Self, Failure> {
        // With a body, the server ignores the query.
        if !ask.call.body.is_empty() {
            return Self::from_value(&ask.call.json()?);
        }
        let grace = ask.query.get("gracePeriodSeconds").and_then(|text| text.parse().ok());
        let policy = ask.query.get("propagationPolicy").map(propagation).transpose()?;
        Ok(Self { grace, propagation: policy, dry_run: ask.dry_run, ..Self::default() })
    }

    pub(super) fn from_value(body: &Value) -> Result<Self, Failure> {
        let text = |path: &str| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let mut policy = text("/propagationPolicy").map(|name| propagation(&name)).transpose()?;
        if let Some(orphan) = body.get("orphanDependents").and_then(Value::as_bool) {
            if policy.is_some() {
                let given = body.get("propagationPolicy").cloned().unwrap_or_default();
                let why = "orphanDependents and deletionPropagation cannot be both set";
                let cause = Cause::invalid("propagationPolicy", &given, why);
                return Err(Failure::invalid_options("DeleteOptions", &[cause]));
            }
            policy = Some(if orphan { Propagation::Orphan } else { Propagation::Background });
        }
        let grace = body.get("gracePeriodSeconds").and_then(Value::as_i64);
        let dry_run = body.get("dryRun").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        Ok(Self {
            grace,
            uid: text("/preconditions/uid"),
            version: text("/preconditions/resourceVersion"),
            propagation: policy,
            dry_run,
        })
    }
}

fn propagation(name: &str) -> Result<Propagation, Failure> {
    match name {
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        "Orphan" => Ok(Propagation::Orphan),
        other => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            let cause = Cause::not_supported("propagationPolicy", &other.into(), &supported);
            Err(Failure::invalid_options("DeleteOptions", &[cause]))
        }
    }
}

impl State {
    pub(super) fn delete(&mut self, ask: &Ask<'_>) -> Answer {
        let options = Options::parse(ask)?;
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
        let options = Options::parse(ask)?;
        let filter = Filter::parse(ask)?;
        if ask.info.namespaced && ask.target.namespace.is_none() {
            return Err(Failure::method_not_allowed());
        }
        let keys: Vec<Key> = self
            .store
            .collection(&ask.resource())
            .objects
            .iter()
            .filter(|(_, object)| filter.matches(object))
            .map(|(key, _)| key.clone())
            .collect();
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
        options: &Options,
    ) -> Result<(Arc<Value>, bool), Failure> {
        let resource = storage(info);
        let old =
            self.store.get(&resource, key).map(Arc::clone).ok_or_else(|| Failure::not_found(info, &key.1))?;
        check_preconditions(info, &key.1, &old, options)?;
        let mut object = Value::clone(&old);
        let grace = grace(info, &object, options);
        let held_by = finalizers(&object, options.propagation);
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
        if options.dry_run {
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
            self.after_removal(info, &last);
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
    options: &Options,
) -> Result<(), Failure> {
    for (what, wanted, found, hint) in [
        ("UID", &options.uid, object::uid(old), "been deleted and then recreated"),
        ("ResourceVersion", &options.version, object::resource_version(old), "been modified"),
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
fn grace(info: &ResourceInfo, object: &Value, options: &Options) -> i64 {
    if !info.is_builtin("", "Pod") {
        return 0;
    }
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    if text("/spec/nodeName").is_empty() || matches!(text("/status/phase"), "Succeeded" | "Failed") {
        return 0;
    }
    let own = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    match options.grace.or(own).unwrap_or(30) {
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}

/// The finalizers of an object after a delete with this policy.
fn finalizers(object: &Value, policy: Option<Propagation>) -> Vec<String> {
    let mut list = object::finalizers(object);
    let Some(policy) = policy else { return list };
    list.retain(|one| one != ORPHAN && one != FOREGROUND);
    match policy {
        Propagation::Background => {}
        Propagation::Foreground => list.push(FOREGROUND.to_owned()),
        Propagation::Orphan => list.push(ORPHAN.to_owned()),
    }
    list
}
