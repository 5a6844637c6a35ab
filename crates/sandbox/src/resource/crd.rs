//! The resources of a CustomResourceDefinition. It rejects a definition that it cannot serve; a real API
//! server checks more.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::{Column, Origin, ResourceInfo, ScalePaths};
use crate::schema::{Cause, CrdSchema};

/// In the order of the API server.
const CRD_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The resources of a CRD, one for each served version, or the errors with which the CRD is rejected.
pub fn from_crd(crd: &Value) -> Result<Vec<ResourceInfo>, Vec<Cause>> {
    let mut causes = Vec::new();
    let (spec, names) = (&crd["spec"], &crd["spec"]["names"]);
    let kind = text(&names["kind"]);
    for (field, value) in [
        ("group", &spec["group"]),
        ("scope", &spec["scope"]),
        ("names.plural", &names["plural"]),
        ("names.kind", &names["kind"]),
    ] {
        if text(value).is_empty() {
            causes.push(Cause::required(&format!("spec.{field}"), ""));
        }
    }
    let name = &crd["metadata"]["name"];
    let wanted = format!("{}.{}", text(&names["plural"]), text(&spec["group"]));
    if causes.is_empty() && text(name) != wanted {
        causes.push(Cause::invalid("metadata.name", name, r#"must be spec.names.plural+"."+spec.group"#));
    }
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    if versions.iter().filter(|version| version["storage"] == Value::Bool(true)).count() != 1 {
        let names = Value::Array(versions.iter().map(|version| version["name"].clone()).collect());
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &names, detail));
    }
    let mut found = Vec::new();
    for (i, version) in versions.iter().enumerate() {
        let schema = read_schema(version, i, &mut causes);
        if version["served"] != Value::Bool(true) {
            continue;
        }
        found.push(ResourceInfo {
            group: text(&spec["group"]),
            version: text(&version["name"]),
            kind: kind.clone(),
            list_kind: or(text(&names["listKind"]), || format!("{kind}List")),
            plural: text(&names["plural"]),
            singular: or(text(&names["singular"]), || kind.to_lowercase()),
            short_names: strings(&names["shortNames"]),
            categories: strings(&names["categories"]),
            namespaced: spec["scope"] == "Namespaced",
            verbs: CRD_VERBS.iter().map(|&verb| verb.to_owned()).collect(),
            status: version["subresources"]["status"].is_object(),
            scale: read_scale(&version["subresources"]["scale"]),
            columns: items(&version["additionalPrinterColumns"])
                .filter_map(|column| Column::deserialize(column).ok())
                .collect(),
            schema: schema.map(Arc::new),
            origin: Origin::Crd,
        });
    }
    if causes.is_empty() { Ok(found) } else { Err(causes) }
}

fn read_schema(version: &Value, i: usize, causes: &mut Vec<Cause>) -> Option<CrdSchema> {
    let path = format!("spec.versions[{i}].schema.openAPIV3Schema");
    let schema = &version["schema"]["openAPIV3Schema"];
    if !schema.is_object() {
        causes.push(Cause::required(&path, ""));
        return None;
    }
    let compiled = CrdSchema::compile(schema);
    compiled
        .map_err(|found| {
            let placed = |cause: Cause| Cause { field: format!("{path}.{}", cause.field), ..cause };
            causes.extend(found.into_iter().map(placed));
        })
        .ok()
}

fn read_scale(scale: &Value) -> Option<ScalePaths> {
    scale.is_object().then(|| ScalePaths {
        spec_replicas: text(&scale["specReplicasPath"]),
        status_replicas: text(&scale["statusReplicasPath"]),
        label_selector: Some(text(&scale["labelSelectorPath"])).filter(|path| !path.is_empty()),
    })
}

fn or(given: String, otherwise: impl FnOnce() -> String) -> String {
    if given.is_empty() { otherwise() } else { given }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn strings(value: &Value) -> Vec<String> {
    items(value).map(text).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crd_becomes_a_resource_with_default_names_or_is_rejected() {
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wg"]},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas"}}}]}});
        let [info] = &from_crd(&crd).unwrap()[..] else { panic!("one version") };
        assert_eq!((info.list_kind.as_str(), info.singular.as_str()), ("WidgetList", "widget"));
        assert!(info.status && info.scale.is_some() && info.namespaced);
        for (place, value, refusal) in [
            ("/metadata/name", json!("x"), r#"metadata.name: Invalid value: "x": must be spec.names.plural"#),
            ("/spec/scope", Value::Null, "spec.scope: Required value"),
            ("/spec/versions/0/storage", json!(false), "spec.versions: Invalid value: [\"v1\"]: must have"),
            (
                "/spec/versions/0/schema",
                Value::Null,
                "spec.versions[0].schema.openAPIV3Schema: Required value",
            ),
            (
                "/spec/versions/0/schema/openAPIV3Schema",
                json!({"oneOf": []}),
                "spec.versions[0].schema.openAPIV3Schema.oneOf: Forbidden: the sandbox does not evaluate \
                 oneOf",
            ),
        ] {
            let mut crd = crd.clone();
            *crd.pointer_mut(place).unwrap() = value;
            let found = from_crd(&crd).unwrap_err();
            assert!(found.len() == 1 && found[0].line().starts_with(refusal), "{found:?} is not {refusal}");
        }
    }
}
