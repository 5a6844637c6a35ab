//! PATCH with an applied configuration: server-side apply.
//!
//! `managed` merges and finds conflicts. This module reads the request, and stores the result like that of any other
//! patch. An object that does not exist is created.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, Ask, Reply, State, ownership, patch, scale};
use crate::clock::seconds;
use crate::managed::{self, Change, Shape};
use crate::object;
use crate::render;
use crate::resource::ScalePaths;
use crate::status::Failure;

/// The nesting that a configuration can have, as for JSON.
const DEPTH: usize = 128;

/// The configuration in the body, in YAML or JSON.
fn decode(ask: &Ask<'_>) -> Result<Value, Failure> {
    let undecodable = |why: String| Failure::bad_request(format!("error decoding patch: {why}"));
    let config: Value = serde_json::from_slice(&ask.call.body)
        .or_else(|_| {
            let text = std::str::from_utf8(&ask.call.body).map_err(|error| error.to_string())?;
            serde_saphyr::from_str(text).map_err(|error| error.to_string())
        })
        .map_err(undecodable)?;
    if depth(&config) > DEPTH {
        return Err(undecodable(format!("exceeded max depth of {DEPTH}")));
    }
    if config.is_object() {
        return Ok(config);
    }
    let what = if config.is_array() { "array" } else { "value" };
    Err(undecodable(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {what} into Go value of type \
         map[string]interface {{}}"
    )))
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Object(map) => map.values().map(depth).max(),
        Value::Array(items) => items.iter().map(depth).max(),
        _ => None,
    };
    inner.unwrap_or_default() + 1
}

/// The type of an object in messages, as Go shows it.
fn shown_type(version: &str, kind: &str) -> String {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    format!("{group}/{version}, Kind={kind}")
}

/// Rejects a configuration of another kind or version, or with managed fields.
fn check(config: &Value, version: &str, kind: &str) -> Result<(), Failure> {
    let text = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("kind") != kind || text("apiVersion") != version {
        let given = shown_type(text("apiVersion"), text("kind"));
        return Err(Failure::bad_request(format!("invalid object type: {given}")));
    }
    let managed = config.get("metadata").and_then(|meta| meta.get(ownership::FIELD));
    if managed.and_then(Value::as_array).is_some_and(|managed| !managed.is_empty()) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

impl State {
    /// Applies a configuration to an object or to its status.
    pub(super) fn apply(&mut self, ask: &Ask<'_>, sub: Option<&str>) -> Answer {
        let config = decode(ask)?;
        check(&config, &ask.info.api_version(), &ask.info.kind)?;
        if sub.is_none() && self.store.get(&ask.resource(), &ask.key()).is_none() {
            return self.apply_new(ask, &config);
        }
        let (stored, warnings) = self.apply_existing(ask, &config, sub)?;
        Ok(Reply::Json { code: 200, body: self.shown(ask, &stored), warnings })
    }

    fn apply_existing(
        &mut self,
        ask: &Ask<'_>,
        config: &Value,
        sub: Option<&str>,
    ) -> Result<(Arc<Value>, Vec<String>), Failure> {
        let old = self.existing(ask)?;
        let mut object = self.applied(ask, render::versioned(&ask.info, &old), config)?;
        patch::decode_result(ask, &mut object)?;
        self.commit(ask, object, &old, sub)
    }

    fn apply_new(&mut self, ask: &Ask<'_>, config: &Value) -> Answer {
        self.authorize_create(ask)?;
        if let Some(message) = self.refused_creates.get(&ask.info.plural) {
            return Err(Failure::new(403, "Forbidden", message.as_str()));
        }
        let uid = object::uid(config);
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Failure::conflict(&ask.info, ask.name(), &why));
        }
        let mut object = self.applied(ask, json!({}), config)?;
        patch::decode_result(ask, &mut object)?;
        self.create_from(ask, object)
    }

    /// Applies a Scale: the replicas of the object are the only field.
    pub(super) fn apply_scale(&mut self, ask: &Ask<'_>, paths: &ScalePaths) -> Answer {
        let scale = decode(ask)?;
        check(&scale, "autoscaling/v1", "Scale")?;
        let mut config = json!({
            "apiVersion": ask.info.api_version(), "kind": ask.info.kind, "metadata": {"name": ask.name()},
        });
        let version = object::resource_version(&scale);
        if !version.is_empty() {
            object::set_meta(&mut config, "resourceVersion", version.into());
        }
        if let Some(replicas) = scale.pointer("/spec/replicas") {
            object::put_at(&mut config, &paths.spec_replicas, replicas.clone());
        }
        let (stored, warnings) = self.apply_existing(ask, &config, None)?;
        Ok(Reply::Json { code: 200, body: scale::view(&ask.info, paths, &stored), warnings })
    }

    /// The object with the configuration and its new managed fields.
    fn applied(&self, ask: &Ask<'_>, mut live: Value, config: &Value) -> Result<Value, Failure> {
        let shape = Shape::of(&ask.info);
        if let Some(error) = managed::check(config, &shape) {
            return Err(Failure::internal(format!(
                "failed to create typed patch object ({}/{}; {}): {error}",
                object::namespace(config),
                object::name(config),
                shown_type(&ask.info.api_version(), &ask.info.kind)
            )));
        }
        let managers = self.served(ownership::stored(&live));
        ownership::take(&mut live);
        let change = Change {
            manager: &ownership::manager(ask),
            version: &ask.info.api_version(),
            subresource: ask.sub().unwrap_or_default(),
            shape: &shape,
            ignored: &ownership::ignored(&ask.info, ask.sub()),
            now: &seconds(self.now()),
        };
        let (empty, force) = (ownership::empty(&ask.info), ask.query.flag("force"));
        // Nothing is owned before the object exists.
        let empty = if object::uid(&live).is_empty() { live.clone() } else { empty };
        let outcome =
            managed::apply(&live, config, &empty, managers, &change, force).map_err(|conflicts| {
                let mut failure = Failure::new(409, "Conflict", managed::message(&conflicts));
                failure.details = Some(json!({"causes": managed::causes(&conflicts)}));
                failure
            })?;
        let mut object = outcome.object;
        object::set_meta(&mut object, ownership::FIELD, outcome.managers.encode());
        Ok(object)
    }
}
