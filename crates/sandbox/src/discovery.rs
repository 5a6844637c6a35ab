//! Discovery: the groups, versions and resources of the server, in the unaggregated and the aggregated form.
//!
//! This module has no list of its own; it uses the resources that the caller passes.

use std::cmp::Reverse;

use serde_json::{Map, Value, json};

use crate::resource::{Origin, ResourceInfo};

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
    let groups: Vec<Value> = groups(all).into_iter().map(|group| describe_group(all, group)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /apis/{group}`.
#[must_use]
pub fn api_group(all: &[ResourceInfo], group: &str) -> Option<Value> {
    if group.is_empty() || !groups(all).contains(&group) {
        return None;
    }
    let mut found = describe_group(all, group);
    found["kind"] = json!("APIGroup");
    found["apiVersion"] = json!("v1");
    Some(found)
}

/// `GET /api/v1` and `GET /apis/{group}/{version}`.
#[must_use]
pub fn api_resources(all: &[ResourceInfo], group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for info in all.iter().filter(|i| i.group == group && i.version == version) {
        let mut resource = json!({"name": info.plural, "singularName": info.singular,
            "namespaced": info.namespaced, "kind": info.kind, "verbs": info.verbs});
        put_names(&mut resource, info);
        resources.push(resource);
        for sub in subresources(info) {
            let mut resource = json!({"name": format!("{}/{}", info.plural, sub.name), "singularName": "",
                "namespaced": info.namespaced, "kind": sub.kind, "verbs": sub.verbs});
            // Only present if they differ from those of the list.
            if let Some((group, version)) = sub.foreign {
                resource["group"] = json!(group);
                resource["version"] = json!(version);
            }
            resources.push(resource);
        }
    }
    if resources.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
        "resources": resources}))
}

/// `GET /api` (core) and `GET /apis` for clients that accept `apidiscovery.k8s.io/v2`.
#[must_use]
pub fn aggregated(all: &[ResourceInfo], core: bool) -> Value {
    let groups = if core { vec![""] } else { groups(all) };
    let items: Vec<Value> = groups
        .into_iter()
        .map(|group| {
            let versions: Vec<Value> = versions(all, group)
                .into_iter()
                .map(|version| {
                    let infos = all.iter().filter(|i| i.group == group && i.version == version);
                    let resources: Vec<Value> = infos.map(aggregated_resource).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            let mut metadata = Map::new();
            if !group.is_empty() {
                metadata.insert("name".to_owned(), json!(group));
            }
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items})
}

fn aggregated_resource(info: &ResourceInfo) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let scope = if info.namespaced { "Namespaced" } else { "Cluster" };
    let mut resource = json!({"resource": info.plural, "singularResource": info.singular, "scope": scope,
        "responseKind": kind(&info.group, &info.version, &info.kind), "verbs": info.verbs});
    put_names(&mut resource, info);
    let subs: Vec<Value> = subresources(info)
        .into_iter()
        .map(|sub| {
            let (group, version) = sub.foreign.unwrap_or((&info.group, &info.version));
            json!({"subresource": sub.name, "responseKind": kind(group, version, &sub.kind), "verbs": sub.verbs})
        })
        .collect();
    if !subs.is_empty() {
        resource["subresources"] = json!(subs);
    }
    resource
}

fn put_names(resource: &mut Value, info: &ResourceInfo) {
    if !info.short_names.is_empty() {
        resource["shortNames"] = json!(info.short_names);
    }
    if !info.categories.is_empty() {
        resource["categories"] = json!(info.categories);
    }
}

struct Sub {
    name: &'static str,
    kind: String,
    /// Group and version if they differ from those of the resource.
    foreign: Option<(&'static str, &'static str)>,
    verbs: &'static [&'static str],
}

fn subresources(info: &ResourceInfo) -> Vec<Sub> {
    const CHANGE: &[&str] = &["get", "patch", "update"];
    let mut subs = Vec::new();
    if info.is_builtin("", "Pod") {
        let create =
            |name, kind: &str, foreign| Sub { name, kind: kind.to_owned(), foreign, verbs: &["create"] };
        subs.push(create("binding", "Binding", None));
        subs.push(create("eviction", "Eviction", Some(("policy", "v1"))));
    }
    if info.is_builtin("", "Namespace") {
        subs.push(Sub { name: "finalize", kind: info.kind.clone(), foreign: None, verbs: &["update"] });
    }
    let status =
        info.status.then(|| Sub { name: "status", kind: info.kind.clone(), foreign: None, verbs: CHANGE });
    let scale = info.scale.is_some().then(|| {
        let foreign = Some(("autoscaling", "v1"));
        Sub { name: "scale", kind: "Scale".to_owned(), foreign, verbs: CHANGE }
    });
    // The API server sorts the subresources of built-in resources, not those of custom resources.
    let both = if info.origin == Origin::Builtin { [scale, status] } else { [status, scale] };
    subs.extend(both.into_iter().flatten());
    subs
}

/// The named groups: built-in groups in the order of the API server, then the groups of CRDs.
fn groups(all: &[ResourceInfo]) -> Vec<&str> {
    let mut groups: Vec<&str> = Vec::new();
    for origin in [Origin::Builtin, Origin::Crd] {
        for info in all.iter().filter(|i| i.origin == origin) {
            if !info.group.is_empty() && !groups.contains(&info.group.as_str()) {
                groups.push(&info.group);
            }
        }
    }
    groups
}

fn describe_group(all: &[ResourceInfo], group: &str) -> Value {
    let versions: Vec<Value> = versions(all, group)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

/// The versions of a group, the preferred one first: v2 before v1 before v1beta2 before v1alpha1.
fn versions<'a>(all: &'a [ResourceInfo], group: &str) -> Vec<&'a str> {
    let mut versions: Vec<&str> =
        all.iter().filter(|i| i.group == group).map(|i| i.version.as_str()).collect();
    versions.sort_by_key(|version| (Reverse(rank(version)), *version));
    versions.dedup();
    versions
}

/// Stability, major and minor version. A name that is not a Kubernetes version sorts last.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let (major, stability, minor) = if let Some((major, minor)) = rest.split_once("alpha") {
        (major, 1, minor)
    } else if let Some((major, minor)) = rest.split_once("beta") {
        (major, 2, minor)
    } else {
        (rest, 3, "0")
    };
    Some((stability, major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::builtins;

    #[test]
    fn pods_have_their_subresources() {
        let list = api_resources(&builtins(), "", "v1").unwrap();
        let resources = list["resources"].as_array().unwrap();
        let named = |name: &str| resources.iter().find(|r| r["name"] == name).unwrap();
        assert_eq!(named("pods")["shortNames"], json!(["po"]));
        assert_eq!(named("pods/eviction")["group"], "policy");
        assert_eq!(named("pods/status")["kind"], "Pod");
        assert!(api_resources(&builtins(), "apps", "v2").is_none());
        let apps = api_resources(&builtins(), "apps", "v1").unwrap();
        let in_order: Vec<&str> =
            apps["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
        assert_eq!(in_order[..3], ["deployments", "deployments/scale", "deployments/status"]);
    }

    #[test]
    fn aggregated_discovery_has_the_same_content() {
        let all = builtins();
        for item in aggregated(&all, false)["items"].as_array().unwrap() {
            let group = item["metadata"]["name"].as_str().unwrap();
            for version in item["versions"].as_array().unwrap() {
                let old = api_resources(&all, group, version["version"].as_str().unwrap()).unwrap();
                let mut count = 0;
                for resource in version["resources"].as_array().unwrap() {
                    count += 1 + resource["subresources"].as_array().map_or(0, Vec::len);
                }
                assert_eq!(old["resources"].as_array().unwrap().len(), count, "{group}");
            }
        }
        assert_eq!(aggregated(&all, true)["items"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn the_preferred_version_is_the_most_stable_one() {
        let base = builtins().remove(0);
        let at =
            |version: &str| ResourceInfo { group: "g.io".into(), version: version.into(), ..base.clone() };
        let all = ["v1alpha1", "v1beta1", "v10", "v2", "foo", "v1beta2"].map(at);
        assert_eq!(versions(&all, "g.io"), ["v10", "v2", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
        assert_eq!(api_group(&all, "g.io").unwrap()["preferredVersion"]["version"], "v10");
    }
}
