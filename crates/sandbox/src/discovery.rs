//! Discovery: the groups, versions and resources of the server, and its `OpenAPI` v3 documents. Clients that
//! prefer the aggregated form of discovery accept this one too.
//!
//! This module has no list of its own; it uses the resources that the caller passes. The documents have only
//! what kubectl reads: which parameters requests may have, and the fields of custom resources for
//! `kubectl explain`.

use serde_json::{Map, Value, json};

use crate::object;
use crate::resource::ResourceInfo;

/// The version of Kubernetes whose answers the sandbox gives.
pub(crate) const KUBERNETES: &str = "v1.36.0";

const METADATA: &str = "ObjectMeta";
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// `GET /version`.
pub(crate) fn version() -> Value {
    json!({"major": "1", "minor": "36", "gitVersion": KUBERNETES, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64"})
}

/// `GET /api`.
pub(crate) fn api_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `GET /apis`.
pub(crate) fn api_groups(all: &[ResourceInfo]) -> Value {
    let describe = |group: &str| {
        let named = |version| json!({"groupVersion": format!("{group}/{version}"), "version": version});
        let of_group = all.iter().filter(|info| info.group == group);
        let versions = unique(of_group.map(|info| info.version.as_str()));
        let versions: Vec<Value> = versions.into_iter().map(named).collect();
        json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
    };
    let groups = unique(all.iter().map(|info| info.group.as_str()).filter(|group| !group.is_empty()));
    let groups: Vec<Value> = groups.into_iter().map(describe).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /api/v1` and `GET /apis/{group}/{version}`.
pub(crate) fn api_resources(all: &[ResourceInfo], group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for info in of_version(all, group, version) {
        resources.push(json!({"name": info.plural, "singularName": info.singular,
            "namespaced": info.namespaced,
            "kind": info.kind, "verbs": VERBS, "shortNames": info.short_names,
            "categories": info.categories}));
        resources.extend(subresources(info));
    }
    let group_version = of_version(all, group, version).next()?.api_version();
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
        "resources": resources}))
}

fn subresources(info: &ResourceInfo) -> Vec<Value> {
    let sub = |name: &str, [group, version, kind]: [&str; 3], verbs: &[&str]| {
        json!({"name": format!("{}/{name}", info.plural), "singularName": "", "namespaced": info.namespaced,
            "kind": kind, "verbs": verbs, "group": group, "version": version})
    };
    let (own, verbs) = ([info.group.as_str(), &info.version, &info.kind], ["get", "patch", "update"]);
    let mut subs = Vec::new();
    if info.is_builtin("", "Pod") {
        subs.push(sub("binding", ["", "v1", "Binding"], &["create"]));
        subs.push(sub("eviction", ["policy", "v1", "Eviction"], &["create"]));
    }
    if info.status {
        subs.push(sub("status", own, &verbs));
    }
    if info.scale.is_some() {
        subs.push(sub("scale", ["autoscaling", "v1", "Scale"], &verbs));
    }
    subs
}

fn of_version<'a>(
    all: &'a [ResourceInfo],
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a ResourceInfo> {
    all.iter().filter(move |info| info.group == group && info.version == version)
}

fn unique<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for word in words {
        if !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

/// `GET /openapi/v3`.
pub(crate) fn index(all: &[ResourceInfo]) -> Value {
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
pub(crate) fn document(all: &[ResourceInfo], group: &str, version: &str) -> Option<Value> {
    let mut schemas = Map::new();
    schemas
        .insert(METADATA.to_owned(), json!({"type": "object", "description": "Standard object's metadata."}));
    let mut paths = Map::new();
    for info in of_version(all, group, version) {
        schemas.insert(info.kind.clone(), schema(info));
        let scope = if info.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("/{}{scope}/{}", root(info), info.plural);
        paths.insert(format!("{collection}/{{name}}"), operations(info, ["get", "put", "patch", "delete"]));
        paths.insert(collection, operations(info, ["get", "post", "delete"]));
    }
    let document = json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": KUBERNETES},
        "paths": paths, "components": {"schemas": schemas}});
    (!paths.is_empty()).then_some(document)
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
    let raw = info.schema.as_ref().map(|schema| schema.raw.clone());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::builtins;

    #[test]
    fn resources_are_listed_by_group_and_version() {
        let all = builtins();
        let core = api_resources(&all, "", "v1").unwrap();
        let named = |name: &str| core["resources"].as_array().unwrap().iter().find(|one| one["name"] == name);
        assert_eq!(named("pods").unwrap()["shortNames"], json!(["po"]));
        assert_eq!(named("pods/eviction").unwrap()["group"], "policy");
        assert!(api_resources(&all, "apps", "v2").is_none());
        for group in api_groups(&all)["groups"].as_array().unwrap() {
            assert!(api_resources(&all, group["name"].as_str().unwrap(), "v1").is_some(), "{group}");
        }
    }
}
