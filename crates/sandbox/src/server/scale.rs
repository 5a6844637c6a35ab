//! The scale subresource: `autoscaling/v1` Scale, read from and written to the object's own fields.

use http::Method;
use serde_json::{Value, json};

use super::create::require_json;
use super::patch;
use super::{Answer, Ask, Reply, State};
use crate::object;
use crate::resource::{Origin, ResourceInfo, ScalePaths};
use crate::schema::Cause;
use crate::status::Failure;

impl State {
    pub(super) fn scale(&mut self, ask: &Ask<'_>, method: &Method) -> Answer {
        let Some(paths) = ask.info.scale.clone() else { return Err(Failure::no_such_resource()) };
        let old = self.existing(ask)?;
        let current = view(&ask.info, &paths, &old);
        let wanted = match *method {
            Method::GET => return Ok(Reply::ok(current)),
            Method::PUT => {
                require_json(ask)?;
                ask.call.json()?
            }
            Method::PATCH => patch::apply(ask, &current)?,
            _ => return Err(Failure::method_not_allowed()),
        };
        let name = object::name(&wanted);
        if !name.is_empty() && name != ask.name() {
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                ask.name()
            )));
        }
        let replicas = match wanted.pointer("/spec/replicas") {
            None | Some(Value::Null) => 0,
            Some(value) => value.as_i64().and_then(|number| i32::try_from(number).ok()).ok_or_else(|| {
                Failure::bad_request(format!(
                    "Scale in version \"v1\" cannot be handled as a Scale: spec.replicas: {value}"
                ))
            })?,
        };
        if replicas < 0 && ask.info.origin == Origin::Builtin {
            let cause =
                Cause::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0");
            return Err(Failure::invalid_kind("autoscaling", "Scale", ask.name(), &[cause]));
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

/// What a server asks of the fields that the scale of a custom resource shows.
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

fn view(info: &ResourceInfo, paths: &ScalePaths, object: &Value) -> Value {
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
        "spec": {"replicas": number(&paths.spec_replicas)},
        "status": {"replicas": number(&paths.status_replicas)},
    });
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    if info.namespaced {
        scale
    } else {
        object::set_meta(&mut scale, "namespace", Value::Null);
        scale
    }
}

/// A label selector in the form of a query.
pub(super) fn selector_text(selector: &Value) -> String {
    let mut parts = Vec::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        parts.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for rule in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        let values: Vec<&str> = rule
            .get("values")
            .and_then(Value::as_array)
            .map(|values| values.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let key = text("key");
        parts.push(match text("operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.join(",")
}
