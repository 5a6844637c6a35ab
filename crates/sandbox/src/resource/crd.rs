//! Parses a CustomResourceDefinition with the validation of the API server.

use std::sync::Arc;

use serde_json::Value;

use super::{Column, Origin, ResourceInfo, ScalePaths};
use crate::builtin::names::{DNS1035, is_dns1035};
use crate::schema::{Cause, CrdSchema};

/// In the order of the API server.
const CRD_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

/// The resources of a CRD, one for each served version, or the errors with which the API server rejects the CRD.
pub fn from_crd(crd: &Value) -> Result<Vec<ResourceInfo>, Vec<Cause>> {
    let mut causes = Vec::new();
    let spec = &crd["spec"];
    let names = Names::read(crd, &mut causes);
    let namespaced = match spec["scope"].as_str() {
        Some("Namespaced") => true,
        Some("Cluster") => false,
        Some(_) => {
            causes.push(Cause::not_supported("spec.scope", &spec["scope"], &["Cluster", "Namespaced"]));
            false
        }
        None => {
            causes.push(Cause::required("spec.scope", ""));
            false
        }
    };
    if spec["preserveUnknownFields"] == Value::Bool(true) {
        causes.push(Cause::invalid(
            "spec.preserveUnknownFields",
            &Value::Bool(true),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
             instead",
        ));
    }
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    check_versions(versions, &mut causes);
    let mut found = Vec::new();
    for (i, version) in versions.iter().enumerate() {
        // For identical versions the path is at the top level, as in apiextensions.k8s.io/v1beta1.
        let (path, schema_path) = if alike(versions) {
            ("spec".to_owned(), "spec.validation.openAPIV3Schema".to_owned())
        } else {
            (format!("spec.versions[{i}]"), format!("spec.versions[{i}].schema.openAPIV3Schema"))
        };
        let schema = read_schema(version, i, &schema_path, &mut causes);
        let columns = read_columns(version, &path, &mut causes);
        let scale = read_scale(version, &path, &mut causes);
        if version["served"] != Value::Bool(true) {
            continue;
        }
        found.push(ResourceInfo {
            group: names.group.clone(),
            version: text(&version["name"]),
            kind: names.kind.clone(),
            list_kind: names.list_kind.clone(),
            plural: names.plural.clone(),
            singular: names.singular.clone(),
            short_names: strings(&spec["names"]["shortNames"]),
            categories: strings(&spec["names"]["categories"]),
            namespaced,
            verbs: CRD_VERBS.iter().map(|&v| v.to_owned()).collect(),
            status: version["subresources"]["status"].is_object(),
            scale,
            columns,
            schema: schema.map(Arc::new),
            origin: Origin::Crd,
        });
    }
    if causes.is_empty() { Ok(found) } else { Err(causes) }
}

struct Names {
    group: String,
    kind: String,
    list_kind: String,
    plural: String,
    singular: String,
}

impl Names {
    fn read(crd: &Value, causes: &mut Vec<Cause>) -> Self {
        let spec = &crd["spec"];
        let given = &spec["names"];
        let (group, plural, kind) = (text(&spec["group"]), text(&given["plural"]), text(&given["kind"]));
        let singular = or(text(&given["singular"]), || kind.to_lowercase());
        let list_kind = or(text(&given["listKind"]), || format!("{kind}List"));
        if group.is_empty() {
            causes.push(Cause::required("spec.group", ""));
        } else if !group.contains('.') {
            causes.push(Cause::invalid(
                "spec.group",
                &spec["group"],
                "should be a domain with at least one dot",
            ));
        }
        for (field, value) in [("plural", &plural), ("singular", &singular)] {
            let field = format!("spec.names.{field}");
            if value.is_empty() {
                causes.push(Cause::required(&field, ""));
            } else if !is_dns1035(value) {
                causes.push(Cause::invalid(&field, &value.as_str().into(), DNS1035));
            }
        }
        for (field, value) in [("kind", &kind), ("listKind", &list_kind)] {
            let field = format!("spec.names.{field}");
            if kind.is_empty() {
                causes.push(Cause::required(&field, ""));
            } else if !is_dns1035(&value.to_lowercase()) {
                causes.push(Cause::invalid(
                    &field,
                    &value.as_str().into(),
                    &format!("may have mixed case, but should otherwise match: {DNS1035}"),
                ));
            }
        }
        if !kind.is_empty() && kind == list_kind {
            causes.push(Cause::invalid(
                "spec.names.listKind",
                &list_kind.as_str().into(),
                "kind and listKind may not be the same",
            ));
        }
        for (i, short) in given["shortNames"].as_array().into_iter().flatten().enumerate() {
            if !short.as_str().is_some_and(is_dns1035) {
                causes.push(Cause::invalid(&format!("spec.names.shortNames[{i}]"), short, DNS1035));
            }
        }
        let wanted = format!("{plural}.{group}");
        let name = &crd["metadata"]["name"];
        if name.as_str() != Some(&wanted) && !plural.is_empty() && !group.is_empty() {
            causes.push(Cause::invalid("metadata.name", name, r#"must be spec.names.plural+"."+spec.group"#));
        }
        Self { group, kind, list_kind, plural, singular }
    }
}

fn check_versions(versions: &[Value], causes: &mut Vec<Cause>) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, version) in versions.iter().enumerate() {
        let field = format!("spec.versions[{i}].name");
        match version["name"].as_str() {
            None | Some("") => causes.push(Cause::required(&field, "")),
            Some(name) if !is_dns1035(name) => {
                causes.push(Cause::invalid(&field, &version["name"], DNS1035));
            }
            Some(name) if seen.contains(&name) => causes.push(Cause::invalid(
                "spec.versions",
                &Value::Array(versions.iter().map(|v| v["name"].clone()).collect()),
                "must contain unique version names",
            )),
            Some(name) => seen.push(name),
        }
    }
    if versions.iter().filter(|v| v["storage"] == Value::Bool(true)).count() != 1 {
        let names = Value::Array(versions.iter().map(|v| v["name"].clone()).collect());
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &names, detail));
    }
}

/// Whether all versions have the same schema, subresources and columns.
fn alike(versions: &[Value]) -> bool {
    let shared = ["schema", "subresources", "additionalPrinterColumns"];
    versions.iter().all(|version| shared.iter().all(|key| version[*key] == versions[0][*key]))
}

fn read_schema(version: &Value, i: usize, path: &str, causes: &mut Vec<Cause>) -> Option<CrdSchema> {
    let schema = &version["schema"]["openAPIV3Schema"];
    if !schema.is_object() {
        causes.push(Cause::required(&format!("spec.versions[{i}].schema.openAPIV3Schema"), ""));
        return None;
    }
    let kind = &schema["type"];
    if version["subresources"]["status"].is_object() && kind.as_str().is_some_and(|k| k != "object") {
        causes.push(Cause::invalid(
            &format!("{path}.type"),
            kind,
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        ));
    }
    match CrdSchema::compile(schema) {
        Ok(schema) => Some(schema),
        Err(found) => {
            causes.extend(found.into_iter().map(|mut cause| {
                cause.field = format!("{path}.{}", cause.field);
                cause
            }));
            None
        }
    }
}

fn read_columns(version: &Value, path: &str, causes: &mut Vec<Cause>) -> Vec<Column> {
    let mut columns = Vec::new();
    for (i, column) in version["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{i}]");
        let column_type = text(&column["type"]);
        let json_path = text(&column["jsonPath"]);
        if text(&column["name"]).is_empty() {
            causes.push(Cause::required(&format!("{path}.name"), ""));
        }
        if column_type.is_empty() {
            causes.push(Cause::required(
                &format!("{path}.type"),
                &format!("must be one of {}", COLUMN_TYPES.join(",")),
            ));
        } else if !COLUMN_TYPES.contains(&column_type.as_str()) {
            causes.push(Cause::invalid(
                &format!("{path}.type"),
                &column["type"],
                &format!("must be one of {}", COLUMN_TYPES.join(",")),
            ));
        }
        if json_path.is_empty() {
            causes.push(Cause::required(&format!("{path}.JSONPath"), ""));
        } else if !json_path.starts_with('.') {
            causes.push(Cause::invalid(
                &format!("{path}.JSONPath"),
                &column["jsonPath"],
                "must be a simple json path starting with .",
            ));
        }
        columns.push(Column {
            name: text(&column["name"]),
            type_: column_type,
            format: text(&column["format"]),
            description: text(&column["description"]),
            priority: column["priority"].as_i64().unwrap_or(0),
            json_path,
        });
    }
    columns
}

fn read_scale(version: &Value, path: &str, causes: &mut Vec<Cause>) -> Option<ScalePaths> {
    let scale = version["subresources"]["scale"].as_object()?;
    let path = format!("{path}.subresources.scale");
    let get = |key: &str| scale.get(key).map(text).unwrap_or_default();
    let (spec_replicas, status_replicas) = (get("specReplicasPath"), get("statusReplicasPath"));
    for (key, value, roots) in [
        ("specReplicasPath", &spec_replicas, &[".spec."][..]),
        ("statusReplicasPath", &status_replicas, &[".status."][..]),
    ] {
        check_path(&format!("{path}.{key}"), value, roots, causes);
    }
    let label_selector = Some(get("labelSelectorPath")).filter(|p| !p.is_empty());
    if let Some(value) = &label_selector {
        check_path(&format!("{path}.labelSelectorPath"), value, &[".spec.", ".status."], causes);
    }
    Some(ScalePaths { spec_replicas, status_replicas, label_selector })
}

fn check_path(field: &str, value: &str, roots: &[&str], causes: &mut Vec<Cause>) {
    if value.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if value.contains('[') || !roots.iter().any(|root| value.starts_with(root)) {
        let words: Vec<&str> = roots.iter().map(|r| r.trim_end_matches('.')).collect();
        let either = if words.len() > 1 { "either " } else { "" };
        let detail = format!("should be a json path under {either}{}", words.join(" or "));
        causes.push(Cause::invalid(field, &value.into(), &detail));
    }
}

fn or(given: String, otherwise: impl FnOnce() -> String) -> String {
    if given.is_empty() { otherwise() } else { given }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd() -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wg"]},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas"}}}]}})
    }

    fn refusal(change: impl Fn(&mut Value)) -> String {
        let mut crd = crd();
        change(&mut crd);
        from_crd(&crd).unwrap_err().iter().map(Cause::line).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_crd_becomes_a_resource_with_default_names() {
        let [info] = &from_crd(&crd()).unwrap()[..] else { panic!("one version") };
        assert_eq!((info.list_kind.as_str(), info.singular.as_str()), ("WidgetList", "widget"));
        assert!(info.status && info.scale.is_some() && info.namespaced);
    }

    #[test]
    fn an_invalid_crd_has_the_errors_of_the_api_server() {
        assert!(
            refusal(|c| c["metadata"]["name"] = "x".into()).contains(r#"spec.names.plural+"."+spec.group"#)
        );
        assert!(refusal(|c| c["spec"]["scope"] = "Galaxy".into()).contains(
            r#"spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced""#
        ));
        assert!(
            refusal(|c| c["spec"]["versions"][0]["storage"] = false.into())
                .contains("must have exactly one version marked as storage version")
        );
        assert!(
            refusal(|c| c["spec"]["versions"][0]["schema"] = Value::Null)
                .contains("spec.versions[0].schema.openAPIV3Schema: Required value")
        );
        assert!(
            refusal(|c| {
                c["spec"]["versions"][0]["subresources"]["scale"]["specReplicasPath"] = ".status.x".into();
            })
            .contains("should be a json path under .spec")
        );
    }
}
