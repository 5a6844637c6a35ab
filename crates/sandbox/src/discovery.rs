//! Discovery: the groups, versions and resources of the server, in the unaggregated and the aggregated form.
//!
//! This module has no list of its own; it uses the resources that the caller passes.

use serde_json::{Value, json};

use crate::resource::ResourceInfo;

/// The version of Kubernetes whose answers the sandbox gives.
pub(crate) const KUBERNETES: &str = "v1.36.0";

/// `GET /version`.
#[must_use]
pub fn version() -> Value {
    json!({"major": "1", "minor": "36", "gitVersion": KUBERNETES, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64"})
}

/// `GET /api`.
#[must_use]
pub fn api_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `GET /apis`.
#[must_use]
pub fn api_groups(all: &[ResourceInfo]) -> Value {
    let describe = |group: &str| {
        let named = |version| json!({"groupVersion": format!("{group}/{version}"), "version": version});
        let versions: Vec<Value> = versions(all, group).into_iter().map(named).collect();
        json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
    };
    let groups: Vec<Value> = groups(all).into_iter().map(describe).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /api/v1` and `GET /apis/{group}/{version}`.
#[must_use]
pub fn api_resources(all: &[ResourceInfo], group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for info in of_version(all, group, version) {
        resources.push(json!({"name": info.plural, "singularName": info.singular, "namespaced": info.namespaced,
            "kind": info.kind, "verbs": info.verbs, "shortNames": info.short_names, "categories": info.categories}));
        for sub in subresources(info) {
            resources.push(json!({"name": format!("{}/{}", info.plural, sub.name), "singularName": "",
                "namespaced": info.namespaced, "kind": sub.kind, "verbs": sub.verbs,
                "group": sub.group, "version": sub.version}));
        }
    }
    let group_version = of_version(all, group, version).next()?.api_version();
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
        "resources": resources}))
}

/// `GET /api` (core) and `GET /apis` for clients that accept `apidiscovery.k8s.io/v2`.
#[must_use]
pub fn aggregated(all: &[ResourceInfo], core: bool) -> Value {
    let describe = |group: &str| {
        let describe = |version: &str| {
            let resources: Vec<Value> = of_version(all, group, version).map(aggregated_resource).collect();
            json!({"version": version, "freshness": "Current", "resources": resources})
        };
        let versions: Vec<Value> = versions(all, group).into_iter().map(describe).collect();
        json!({"metadata": {"name": group}, "versions": versions})
    };
    let groups = if core { vec![""] } else { groups(all) };
    let items: Vec<Value> = groups.into_iter().map(describe).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items})
}

fn aggregated_resource(info: &ResourceInfo) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let subs: Vec<Value> = subresources(info)
        .into_iter()
        .map(|sub| {
            let of = kind(sub.group, sub.version, sub.kind);
            json!({"subresource": sub.name, "responseKind": of, "verbs": sub.verbs})
        })
        .collect();
    json!({
        "resource": info.plural, "singularResource": info.singular,
        "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
        "responseKind": kind(&info.group, &info.version, &info.kind), "verbs": info.verbs,
        "shortNames": info.short_names, "categories": info.categories, "subresources": subs,
    })
}

struct Sub<'a> {
    name: &'static str,
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    verbs: &'static [&'static str],
}

fn subresources(info: &ResourceInfo) -> Vec<Sub<'_>> {
    let own = |name, verbs| Sub { name, group: &info.group, version: &info.version, kind: &info.kind, verbs };
    let mut subs = Vec::new();
    if info.is_builtin("", "Pod") {
        subs.push(Sub { kind: "Binding", ..own("binding", &["create"]) });
        subs.push(Sub { kind: "Eviction", group: "policy", ..own("eviction", &["create"]) });
    }
    if info.is_builtin("", "Namespace") {
        subs.push(own("finalize", &["update"]));
    }
    if info.status {
        subs.push(own("status", &["get", "patch", "update"]));
    }
    if info.scale.is_some() {
        let scale = own("scale", &["get", "patch", "update"]);
        subs.push(Sub { group: "autoscaling", version: "v1", kind: "Scale", ..scale });
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

/// The named groups: built-in groups, then the groups of CRDs.
fn groups(all: &[ResourceInfo]) -> Vec<&str> {
    unique(all.iter().map(|info| info.group.as_str()).filter(|group| !group.is_empty()))
}

/// The versions of a group, in the order of their CRD.
fn versions<'a>(all: &'a [ResourceInfo], group: &str) -> Vec<&'a str> {
    unique(all.iter().filter(|info| info.group == group).map(|info| info.version.as_str()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::builtins;

    #[test]
    fn both_forms_of_discovery_have_the_same_content() {
        let all = builtins();
        let core = api_resources(&all, "", "v1").unwrap();
        let named = |name: &str| core["resources"].as_array().unwrap().iter().find(|one| one["name"] == name);
        assert_eq!(named("pods").unwrap()["shortNames"], json!(["po"]));
        assert_eq!(named("pods/eviction").unwrap()["group"], "policy");
        assert!(api_resources(&all, "apps", "v2").is_none());
        for (core, groups) in [(true, 1), (false, api_groups(&all)["groups"].as_array().unwrap().len())] {
            let aggregated = aggregated(&all, core);
            assert_eq!(aggregated["items"].as_array().unwrap().len(), groups);
            for item in aggregated["items"].as_array().unwrap() {
                let version = &item["versions"][0];
                let old = api_resources(&all, item["metadata"]["name"].as_str().unwrap(), "v1").unwrap();
                let resources = version["resources"].as_array().unwrap();
                let subs = resources.iter().map(|one| one["subresources"].as_array().unwrap().len());
                assert_eq!(old["resources"].as_array().unwrap().len(), resources.len() + subs.sum::<usize>());
            }
        }
    }
}
