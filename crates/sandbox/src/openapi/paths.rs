//! Paths and operations of the `OpenAPI` documents: the parts that clients read.

use serde_json::{Map, Value, json};

use super::{
    root,
    types::{Dialect, list_name, name},
};
use crate::resource::{Origin, ResourceInfo};

const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
];

pub(super) fn paths(infos: &[&ResourceInfo], dialect: Dialect) -> Value {
    let mut paths = Map::new();
    for info in infos {
        let scope = if info.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("/{}{scope}/{}", root(info), info.plural);
        let operation = |verb: &str, action: &str| operation(info, verb, action, dialect);
        let placed = if info.namespaced { vec![in_path("namespace", dialect)] } else { Vec::new() };
        let mut named = placed.clone();
        named.push(in_path("name", dialect));
        paths.insert(
            format!("{collection}/{{name}}"),
            json!({"get": operation("get", "get"), "put": operation("put", "put"),
                "patch": operation("patch", "patch"), "delete": operation("delete", "delete"),
                "parameters": named}),
        );
        paths.insert(
            collection,
            json!({"get": operation("get", "list"), "post": operation("post", "post"),
                "delete": operation("delete", "deletecollection"), "parameters": placed}),
        );
    }
    Value::Object(paths)
}

fn operation(info: &ResourceInfo, verb: &str, action: &str, dialect: Dialect) -> Value {
    let gvk = json!({"group": info.group, "version": info.version, "kind": info.kind});
    let (own, list) = (dialect.reference(&name(info)), dialect.reference(&list_name(info)));
    let schema = if action == "list" { list } else { own.clone() };
    let mut parameters = Vec::new();
    if matches!(verb, "post" | "put" | "patch") {
        let queries = ["dryRun", "fieldManager", "fieldValidation"];
        parameters.extend(queries.map(|name| query(name, "string", dialect)));
    }
    let accepted: Vec<&str> = match verb {
        // Custom resources do not support strategic merge patch.
        "patch" if info.origin == Origin::Crd => PATCHES[..3].to_vec(),
        "patch" => PATCHES.to_vec(),
        _ => vec!["application/json", "application/yaml"],
    };
    if verb == "patch" {
        parameters.push(query("force", "boolean", dialect));
    }
    let has_body = matches!(verb, "post" | "put" | "patch");
    let mut operation = json!({"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk});
    match dialect {
        Dialect::V2 => {
            operation["consumes"] = json!(accepted);
            operation["produces"] = json!(["application/json"]);
            operation["responses"] = json!({"200": {"description": "OK", "schema": schema}});
            if has_body {
                parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": own}));
            }
        }
        Dialect::V3 => {
            operation["responses"] = json!({"200": {"description": "OK",
                "content": {"application/json": {"schema": schema}}}});
            if has_body {
                let content: Map<String, Value> =
                    accepted.iter().map(|kind| ((*kind).to_owned(), json!({"schema": own}))).collect();
                operation["requestBody"] = json!({"required": true, "content": content});
            }
        }
    }
    operation["parameters"] = json!(parameters);
    operation
}

fn query(name: &str, kind: &str, dialect: Dialect) -> Value {
    typed(json!({"name": name, "in": "query", "uniqueItems": true}), kind, dialect)
}

fn in_path(name: &str, dialect: Dialect) -> Value {
    typed(json!({"name": name, "in": "path", "required": true, "uniqueItems": true}), "string", dialect)
}

fn typed(mut parameter: Value, kind: &str, dialect: Dialect) -> Value {
    match dialect {
        Dialect::V2 => parameter["type"] = json!(kind),
        Dialect::V3 => {
            parameter["schema"] = json!({"type": kind, "uniqueItems": true});
            if let Some(map) = parameter.as_object_mut() {
                map.remove("uniqueItems");
            }
        }
    }
    parameter
}
