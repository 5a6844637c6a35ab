//! The scale subresource: `autoscaling/v1` Scale, mapped to fields of the object.

use http::Method;
use serde_json::{Value, json};

use super::body::require_json;
use super::{Answer, Ask, Reply, State, metadata, patch};
use crate::object;
use crate::patch::PatchKind;
use crate::resource::{Origin, ResourceInfo, ScalePaths};
use crate::schema::Cause;
use crate::selector::selector_text;
use crate::status::Failure;

impl State {
    pub(super) fn scale(&mut self, ask: &Ask<'_>, method: &Method) -> Answer {
        let Some(paths) = ask.info.scale.clone() else { return Err(Failure::no_such_resource()) };
        // The body is checked before the object is read.
        let sent = match *method {
            Method::GET => None,
            Method::PUT => {
                require_json(ask)?;
                let sent = decoded(ask, ask.call.json()?)?;
                check_names(ask, &sent)?;
                Some(sent)
            }
            Method::PATCH => patch::kind(ask).map(|_| None)?,
            _ => return Err(Failure::method_not_allowed()),
        };
        let builtin_read = *method == Method::GET && ask.info.origin == Origin::Builtin;
        let old = self.existing(ask).map_err(|failure| {
            if builtin_read { Failure::not_found_at(&ask.info, "scale", ask.name()) } else { failure }
        })?;
        let current = view(&ask.info, &paths, &old);
        // In built-in kinds the field has a default.
        let unset = ask.info.origin == Origin::Crd
            && object::at(&old, &paths.spec_replicas).is_none_or(Value::is_null);
        if *method == Method::GET {
            return if unset {
                let why = format!("the spec replicas field {:?} does not exist", paths.spec_replicas);
                Err(Failure::new(500, "InternalError", format!("Internal error occurred: {why}")))
            } else {
                Ok(Reply::ok(current))
            };
        }
        let wanted = if let Some(sent) = sent {
            sent
        } else {
            let mut patched = patch::apply(ask, &current)?;
            if patch::kind(ask)? == PatchKind::Strategic {
                // As with complete objects, the result is decoded as the type of the original.
                patched["kind"] = current["kind"].clone();
                patched["apiVersion"] = current["apiVersion"].clone();
            }
            let patched =
                decoded(ask, patched).map_err(|failure| patch::undecodable(&current, &failure.message))?;
            check_names(ask, &patched)?;
            patched
        };
        let replicas = match wanted.pointer("/spec/replicas") {
            None | Some(Value::Null) => 0,
            Some(value) => value.as_i64().and_then(|number| i32::try_from(number).ok()).ok_or_else(|| {
                let why =
                    format!("Scale in version \"v1\" cannot be handled as a Scale: spec.replicas: {value}");
                if *method == Method::PATCH {
                    patch::undecodable(&wanted, &why)
                } else {
                    Failure::bad_request(why)
                }
            })?,
        };
        if unset && *method == Method::PATCH && wanted.pointer("/spec/replicas").is_none() {
            return Err(Failure::bad_request(format!(
                "the spec replicas field {:?} cannot be empty",
                paths.spec_replicas
            )));
        }
        if ask.info.origin == Origin::Builtin {
            let mut named = wanted.clone();
            object::set_meta(&mut named, "name", ask.name().into());
            let mut causes = metadata::validate(&ask.info, &named, None);
            if replicas < 0 {
                let why = "must be greater than or equal to 0";
                causes.push(Cause::invalid("spec.replicas", &replicas.into(), why));
            }
            if !causes.is_empty() {
                return Err(Failure::invalid_kind("autoscaling", "Scale", ask.name(), &causes));
            }
        }
        let mut changed = Value::clone(&old);
        object::put_at(&mut changed, &paths.spec_replicas, replicas.into());
        for key in ["resourceVersion", "uid"] {
            object::set_meta(&mut changed, key, object::meta(&wanted, key).into());
        }
        let (stored, _) = self.commit(ask, changed, &old, None)?;
        Ok(Reply::ok(view(&ask.info, &paths, &stored)))
    }
}

/// Names may be absent from the body, but must not differ.
fn check_names(ask: &Ask<'_>, scale: &Value) -> Result<(), Failure> {
    let (name, namespace) = (object::name(scale), object::namespace(scale));
    if !name.is_empty() && name != ask.name() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            ask.name()
        )));
    }
    if !namespace.is_empty() && namespace != ask.namespace() {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Decodes a Scale. The body may omit apiVersion and kind.
fn decoded(ask: &Ask<'_>, mut body: Value) -> Result<Value, Failure> {
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if matches!(version, "" | "autoscaling/v1") && matches!(kind, "" | "Scale") {
        metadata::tidy(&ask.info, &mut body)?;
        return Ok(body);
    }
    let short = version.rsplit('/').next().unwrap_or_default();
    Err(Failure::bad_request(format!(
        "{kind} in version \"{short}\" cannot be handled as a Scale: converting ({version}.{kind}) to \
         (v1.Scale): unknown conversion"
    )))
}

/// Validates the fields that the scale subresource of a custom resource reads.
pub(super) fn check(info: &ResourceInfo, object: &Value) -> Vec<Cause> {
    let Some(paths) = &info.scale else { return Vec::new() };
    [&paths.spec_replicas, &paths.status_replicas]
        .into_iter()
        .filter_map(|path| {
            let value = object::at(object, path)?;
            let number = value.as_i64()?;
            (number < 0).then(|| Cause::invalid(path, value, "should be a non-negative integer"))
        })
        .collect()
}

pub(super) fn view(info: &ResourceInfo, paths: &ScalePaths, object: &Value) -> Value {
    let number = |path: &str| object::at(object, path).and_then(Value::as_i64).unwrap_or_default();
    let selector = match &paths.label_selector {
        Some(path) => object::at(object, path).and_then(Value::as_str).unwrap_or_default().to_owned(),
        None => object.pointer("/spec/selector").map(selector_text).unwrap_or_default(),
    };
    let mut meta = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        meta[key] = object::meta(object, key).into();
    }
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta,
        "spec": {},
        "status": {"replicas": number(&paths.status_replicas)},
    });
    let wanted = number(&paths.spec_replicas);
    if wanted != 0 {
        // The API server omits zero in the spec, but not in the status.
        scale["spec"]["replicas"] = wanted.into();
    }
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    if !info.namespaced {
        object::set_meta(&mut scale, "namespace", Value::Null);
    }
    scale
}
