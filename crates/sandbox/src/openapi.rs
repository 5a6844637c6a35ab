//! The `OpenAPI` v3 documents: which parameters the requests of kubectl may have, and the fields of custom
//! resources for `kubectl explain`. Built-in kinds have no fields here.
//!
//! This module does not serve the documents. It builds them on each call and includes only what kubectl
//! reads.

use serde_json::{Map, Value, json};

use crate::discovery::KUBERNETES;
use crate::object;
use crate::resource::ResourceInfo;

const METADATA: &str = "ObjectMeta";

/// `GET /openapi/v3`.
#[must_use]
pub fn index(all: &[ResourceInfo]) -> Value {
    let mut paths = Map::new();
    for info in all {
        // Clients cache a document under its hash and never fetch it again.
        let document = document(all, &info.group, &info.version).unwrap_or_default().to_string();
        let url = format!("/openapi/v3/{}?hash={:016X}", root(info), object::hash(&document));
        paths.insert(root(info), json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// `GET /openapi/v3/api/v1` and `GET /openapi/v3/apis/{group}/{version}`.
#[must_use]
pub fn document(all: &[ResourceInfo], group: &str, version: &str) -> Option<Value> {
    let infos: Vec<&ResourceInfo> =
        all.iter().filter(|info| info.group == group && info.version == version).collect();
    if infos.is_empty() {
        return None;
    }
    let mut schemas = Map::new();
    schemas
        .insert(METADATA.to_owned(), json!({"type": "object", "description": "Standard object's metadata."}));
    let mut paths = Map::new();
    for info in infos {
        schemas.insert(info.kind.clone(), schema(info));
        let scope = if info.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("/{}{scope}/{}", root(info), info.plural);
        paths.insert(format!("{collection}/{{name}}"), operations(info, ["get", "put", "patch", "delete"]));
        paths.insert(collection, operations(info, ["get", "post", "delete"]));
    }
    Some(json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": KUBERNETES},
        "paths": paths, "components": {"schemas": schemas}}))
}

/// `api/v1` or `apis/apps/v1`.
fn root(info: &ResourceInfo) -> String {
    let root = if info.group.is_empty() { "api" } else { "apis" };
    format!("{root}/{}", info.api_version())
}

fn gvk(info: &ResourceInfo) -> Value {
    json!({"group": info.group, "version": info.version, "kind": info.kind})
}

fn schema(info: &ResourceInfo) -> Value {
    let raw = info.schema.as_ref().map(|schema| schema.raw().clone());
    let mut schema = raw.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    schema["x-kubernetes-group-version-kind"] = json!([gvk(info)]);
    // A CRD contains little about metadata; the API server completes it.
    schema["properties"]["metadata"] =
        json!({"allOf": [reference(METADATA)], "description": "Standard object's metadata."});
    schema
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn operations<const N: usize>(info: &ResourceInfo, verbs: [&str; N]) -> Value {
    let queries = ["dryRun", "fieldManager", "fieldValidation"];
    let parameters = queries.map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}}));
    let schema = json!({"schema": reference(&info.kind)});
    let operation = json!({
        "x-kubernetes-group-version-kind": gvk(info), "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": {"application/json": schema}}},
    });
    verbs.into_iter().map(|verb| (verb.to_owned(), operation.clone())).collect()
}
