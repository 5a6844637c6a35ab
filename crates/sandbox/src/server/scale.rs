//! The scale subresource: `autoscaling/v1` Scale, mapped to fields of the object.

use http::Method;
use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceSubresourceScale;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Ask, Reply, State, metadata, patch};
use crate::object;
use crate::patch::PatchKind;
use crate::resource::{Origin, ResourceInfo};
use crate::schema::Cause;
use crate::selector::label_selector;
use crate::status::Failure;

impl State {
    pub(super) fn scale(&mut self, ask: &Ask<'_>, method: &Method) -> Answer {
        let Some(paths) = ask.info.scale.clone() else { return Err(Failure::no_such_resource()) };
        // The body is checked before the object is read.
        let sent = match *method {
            Method::GET => None,
            Method::PUT => {
                metadata::require_json(ask)?;
                let sent = ask.call.json()?;
                let scale = decoded(&sent)?;
                check_names(ask, &sent)?;
                Some((scale, sent))
            }
            Method::PATCH => patch::kind(ask).map(|_| None)?,
            _ => return Err(Failure::method_not_allowed()),
        };
        let builtin_read = *method == Method::GET && ask.info.origin == Origin::Builtin;
        let old = self.existing(ask).map_err(|failure| {
            if builtin_read { Failure::not_found_at(&ask.info, "scale", ask.name()) } else { failure }
        })?;
        let current = view(&paths, &old);
        // In built-in kinds the field has a default.
        let unset = ask.info.origin == Origin::Crd
            && object::at(&old, &paths.spec_replicas_path).is_none_or(Value::is_null);
        if *method == Method::GET {
            return if unset {
                let why = format!("the spec replicas field {:?} does not exist", paths.spec_replicas_path);
                Err(Failure::new(500, "InternalError", format!("Internal error occurred: {why}")))
            } else {
                Ok(Reply::ok(json!(current)))
            };
        }
        let (scale, mut wanted) = match sent {
            Some(sent) => sent,
            None => patched(ask, &json!(current))?,
        };
        let replicas = scale.spec.as_ref().and_then(|spec| spec.replicas);
        if unset && *method == Method::PATCH && replicas.is_none() {
            return Err(Failure::bad_request(format!(
                "the spec replicas field {:?} cannot be empty",
                paths.spec_replicas_path
            )));
        }
        let replicas = replicas.unwrap_or_default();
        if ask.info.origin == Origin::Builtin {
            object::set_meta(&mut wanted, "name", ask.name().into());
            let mut causes = metadata::validate(&ask.info, &wanted, None);
            if replicas < 0 {
                let why = "must be greater than or equal to 0";
                causes.push(Cause::invalid("spec.replicas", &replicas.into(), why));
            }
            if !causes.is_empty() {
                return Err(Failure::invalid_kind("autoscaling", "Scale", ask.name(), &causes));
            }
        }
        let mut changed = Value::clone(&old);
        object::put_at(&mut changed, &paths.spec_replicas_path, replicas.into());
        for key in ["resourceVersion", "uid"] {
            object::set_meta(&mut changed, key, object::meta(&wanted, key).into());
        }
        let (stored, _) = self.commit(ask, changed, &old, None)?;
        Ok(Reply::ok(json!(view(&paths, &stored))))
    }
}

/// The result of the patch in the body, decoded and as it is.
fn patched(ask: &Ask<'_>, current: &Value) -> Result<(Scale, Value), Failure> {
    let mut patched = patch::apply(ask, current)?;
    if patch::kind(ask)? == PatchKind::Strategic {
        // As with complete objects, the result is decoded as the type of the original.
        patched["kind"] = current["kind"].clone();
        patched["apiVersion"] = current["apiVersion"].clone();
    }
    let scale = decoded(&patched).map_err(|failure| patch::undecodable(current, &failure.message))?;
    check_names(ask, &patched)?;
    Ok((scale, patched))
}

/// Decodes a Scale. The body may omit apiVersion and kind.
fn decoded(body: &Value) -> Result<Scale, Failure> {
    Scale::deserialize(body).map_err(|error| {
        Failure::bad_request(format!("Scale in version \"v1\" cannot be handled as a Scale: {error}"))
    })
}

/// Names may be absent from the body, but must not differ.
fn check_names(ask: &Ask<'_>, body: &Value) -> Result<(), Failure> {
    if !object::name(body).is_empty() {
        metadata::check_name(ask, body)?;
    }
    metadata::check_namespace(ask, body)
}

/// Validates the fields that the scale subresource of a custom resource reads.
pub(super) fn check(info: &ResourceInfo, object: &Value) -> Vec<Cause> {
    let Some(paths) = &info.scale else { return Vec::new() };
    [&paths.spec_replicas_path, &paths.status_replicas_path]
        .into_iter()
        .filter_map(|path| {
            let value = object::at(object, path)?;
            let number = value.as_i64()?;
            (number < 0).then(|| Cause::invalid(path, value, "should be a non-negative integer"))
        })
        .collect()
}

fn view(paths: &CustomResourceSubresourceScale, object: &Value) -> Scale {
    let number = |path: &str| {
        let number = object::at(object, path).and_then(Value::as_i64).unwrap_or_default();
        i32::try_from(number).unwrap_or(i32::MAX)
    };
    let selector = match paths.label_selector_path.as_deref() {
        None | Some("") => label_selector(&object["spec"]["selector"]).map(|selector| selector.to_string()),
        Some(path) => object::at(object, path).and_then(Value::as_str).map(str::to_owned),
    };
    let mut metadata = ObjectMeta::deserialize(&object["metadata"]).unwrap_or_default();
    metadata = ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        creation_timestamp: metadata.creation_timestamp,
        ..ObjectMeta::default()
    };
    // The API server omits zero in the spec, but not in the status.
    let spec =
        ScaleSpec { replicas: Some(number(&paths.spec_replicas_path)).filter(|replicas| *replicas != 0) };
    let selector = selector.filter(|selector| !selector.is_empty());
    let status = ScaleStatus { replicas: number(&paths.status_replicas_path), selector };
    Scale { metadata, spec: Some(spec), status: Some(status) }
}
