//! The `OpenAPI` documents. kubectl uses them for validation, for `kubectl explain` and for merge keys.
//!
//! The types of built-in resources come from the Kubernetes types in this crate, the types of custom resources from
//! their CRDs. Merge keys come from the table of the strategic merge patch.
//!
//! This module does not serve the documents. It builds them on each call and includes only what known clients read.

mod paths;
mod types;

use serde_json::{Map, Value, json};

use crate::discovery::KUBERNETES;
use crate::resource::ResourceInfo;

const TITLE: &str = "Kubernetes";

/// `GET /openapi/v2`, as JSON.
#[must_use]
pub fn v2(all: &[ResourceInfo]) -> Value {
    let infos: Vec<&ResourceInfo> = all.iter().collect();
    let definitions = types::schemas(&infos, types::Dialect::V2);
    json!({"swagger": "2.0", "info": {"title": TITLE, "version": KUBERNETES},
        "paths": paths::paths(&infos, types::Dialect::V2), "definitions": definitions})
}

/// `GET /openapi/v3`.
#[must_use]
pub fn v3_index(all: &[ResourceInfo]) -> Value {
    let mut paths = Map::new();
    for info in all {
        let path = root(info);
        if paths.contains_key(&path) {
            continue;
        }
        // Clients cache a document under its hash and never fetch it again.
        let document = v3(all, &info.group, &info.version).unwrap_or_default().to_string();
        let url = format!("/openapi/v3/{path}?hash={:016X}", hash(&document));
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// `GET /openapi/v3/api/v1` and `GET /openapi/v3/apis/{group}/{version}`.
#[must_use]
pub fn v3(all: &[ResourceInfo], group: &str, version: &str) -> Option<Value> {
    let infos: Vec<&ResourceInfo> = all.iter().filter(|i| i.group == group && i.version == version).collect();
    if infos.is_empty() {
        return None;
    }
    let schemas = types::schemas(&infos, types::Dialect::V3);
    Some(json!({"openapi": "3.0.0", "info": {"title": TITLE, "version": KUBERNETES},
        "paths": paths::paths(&infos, types::Dialect::V3), "components": {"schemas": schemas}}))
}

/// `api/v1` or `apis/apps/v1`.
fn root(info: &ResourceInfo) -> String {
    if info.group.is_empty() {
        format!("api/{}", info.version)
    } else {
        format!("apis/{}/{}", info.group, info.version)
    }
}

/// FNV-1a. Unlike the standard hasher, it is the same on every machine and in every run.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{Origin, builtins};

    fn all_refs(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|v| all_refs(v, found));
            }
            Value::Array(list) => list.iter().for_each(|v| all_refs(v, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_has_a_schema() {
        let all = builtins();
        for info in &all {
            let document = v3(&all, &info.group, &info.version).unwrap();
            let mut refs = Vec::new();
            all_refs(&document, &mut refs);
            assert!(!refs.is_empty());
            for reference in refs {
                let name = reference.strip_prefix("#/components/schemas/").unwrap();
                assert!(document["components"]["schemas"][name].is_object(), "{reference}");
            }
        }
        let document = v2(&all);
        let mut refs = Vec::new();
        all_refs(&document, &mut refs);
        for reference in refs {
            let name = reference.strip_prefix("#/definitions/").unwrap();
            assert!(document["definitions"][name].is_object(), "{reference}");
        }
    }

    #[test]
    fn every_kind_has_its_schema_under_its_name_and_kind() {
        let all = builtins();
        for info in &all {
            let document = v3(&all, &info.group, &info.version).unwrap();
            let gvk = json!([{"group": info.group, "version": info.version, "kind": info.kind}]);
            let schemas = document["components"]["schemas"].as_object().unwrap();
            let found = schemas.values().filter(|s| s["x-kubernetes-group-version-kind"] == gvk).count();
            assert_eq!(found, 1, "{}", info.kind);
        }
    }

    #[test]
    fn a_reference_keeps_its_description_beside_it() {
        let named = "io.k8s.api.core.v1.Pod";
        let target = "io.k8s.api.core.v1.PodSpec";
        let spec =
            &v3(&builtins(), "", "v1").unwrap()["components"]["schemas"][named]["properties"]["spec"].clone();
        assert_eq!(spec["allOf"], json!([{"$ref": format!("#/components/schemas/{target}")}]));
        assert!(spec["description"].is_string());
        let spec = &v2(&builtins())["definitions"][named]["properties"]["spec"].clone();
        assert_eq!(spec["$ref"], format!("#/definitions/{target}"));
    }

    #[test]
    fn the_documents_contain_merge_keys() {
        let document = v3(&builtins(), "", "v1").unwrap();
        let containers =
            &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    }

    #[test]
    fn every_merge_key_has_an_existing_field() {
        let document = v2(&builtins());
        let definitions = document["definitions"].as_object().unwrap();
        for row in crate::patch::ROWS {
            let suffix = format!(".{}", row.type_name);
            let mut named = definitions.iter().filter(|(name, _)| name.ends_with(&suffix));
            assert!(named.any(|(_, s)| s["properties"][row.field].is_object()), "{suffix}.{}", row.field);
        }
    }

    #[test]
    fn patches_support_field_validation_and_only_builtins_strategic_merge() {
        let mut all = builtins();
        let base = all.remove(0);
        all.push(ResourceInfo {
            group: "g.io".into(),
            kind: "Custom".into(),
            plural: "customs".into(),
            origin: Origin::Crd,
            ..base
        });
        let strategic = "application/strategic-merge-patch+json";
        for (group, path, wanted) in
            [("", "/api/v1/nodes/{name}", true), ("g.io", "/apis/g.io/v1/customs/{name}", false)]
        {
            let document = v3(&all, group, "v1").unwrap();
            let patch = &document["paths"][path]["patch"];
            let parameters = patch["parameters"].as_array().unwrap();
            assert!(parameters.iter().any(|p| p["name"] == "fieldValidation" && p["in"] == "query"));
            assert_eq!(patch["requestBody"]["content"][strategic].is_object(), wanted);
        }
    }

    #[test]
    fn the_hash_of_a_document_changes_with_it() {
        let mut all = builtins();
        let before = v3_index(&all);
        all[0].kind = "Other".into();
        let after = v3_index(&all);
        assert_ne!(before["paths"]["api/v1"], after["paths"]["api/v1"]);
        assert_eq!(before["paths"]["apis/apps/v1"], after["paths"]["apis/apps/v1"]);
    }
}
