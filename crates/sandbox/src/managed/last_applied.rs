//! The annotation of client-side apply, for objects that kubectl then applies on the server.
//!
//! The rules are those of apimachinery's field manager (`internal/lastappliedmanager.go`, `lastappliedupdater.go`).
//! They hold for kubectl's own manager name only.

use serde_json::Value;

use super::compare::compare;
use super::extract::fields;
use super::set::FieldSet;
use super::shape::Shape;
use crate::object;

/// The manager name of `kubectl apply --server-side`.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn annotation(object: &Value) -> Option<&str> {
    let text = object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    Some(text).filter(|text| !text.is_empty())
}

/// The fields that client-side apply set last and nobody changed since: kubectl may take them over.
pub(super) fn owned(live: &Value, shape: &Shape<'_>) -> FieldSet {
    let applied = annotation(live).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(applied) = applied.filter(|applied| applied.get("apiVersion") == live.get("apiVersion")) else {
        return FieldSet::default();
    };
    let difference = compare(&applied, live, shape);
    fields(&applied, shape).difference(&difference.set().union(&difference.removed))
}

/// Writes the configuration into the annotation, if the object has one.
pub(super) fn renew(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) =
        config.get_mut("metadata").and_then(|meta| meta.get_mut("annotations")).and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
    }
    let annotations = object::field_mut(object::field_mut(object, "metadata"), "annotations");
    object::map_mut(annotations).insert(ANNOTATION.to_owned(), format!("{config}\n").into());
}
