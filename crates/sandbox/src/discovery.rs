//! Discovery: the groups, versions and resources of the server. Clients that prefer the aggregated form
//! accept this one too.
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
        resources.push(json!({"name": info.plural, "singularName": info.singular,
            "namespaced": info.namespaced,
            "kind": info.kind, "verbs": info.verbs, "shortNames": info.short_names,
            "categories": info.categories}));
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
