//! The description of each resource: names, scope, subresources, printer columns and schema.
//!
//! This module does not serve or store objects. The description of a custom resource comes only from its CRD;
//! a definition that the sandbox cannot serve is rejected.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceSubresourceScale,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::schema::{Cause, CrdSchema};

/// The origin of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Compiled into the server: typed, accepts strategic merge patches.
    Builtin,
    /// Defined by a CustomResourceDefinition: structural schema, no strategic merge patches.
    Crd,
}

/// One resource in one version.
#[derive(Debug, Clone)]
pub(crate) struct ResourceInfo {
    /// API group; empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Whether the resource has a `/status` subresource.
    pub(crate) status: bool,
    /// The paths of the `/scale` subresource, if the resource has one.
    pub(crate) scale: Option<CustomResourceSubresourceScale>,
    /// Printer columns of a custom resource. Those of built-in resources are in the module `table`.
    pub(crate) columns: Vec<CustomResourceColumnDefinition>,
    /// Schema of a custom resource.
    pub(crate) schema: Option<Arc<CrdSchema>>,
    pub(crate) origin: Origin,
}

impl ResourceInfo {
    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether this is the built-in resource of this group and kind.
    pub(crate) fn is_builtin(&self, group: &str, kind: &str) -> bool {
        self.origin == Origin::Builtin && self.group == group && self.kind == kind
    }
}

/// Group, kind, plural, short name and category; empty if there is none.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// The built-in resources, except whether they are namespaced and their subresources.
const ROWS: &[Row] = &[
    ("", "Namespace", "namespaces", "ns", ""),
    ("", "Node", "nodes", "no", ""),
    ("", "Pod", "pods", "po", "all"),
    ("", "PodTemplate", "podtemplates", "", ""),
    ("", "Event", "events", "ev", ""),
    ("", "ConfigMap", "configmaps", "cm", ""),
    ("", "Secret", "secrets", "", ""),
    ("", "ServiceAccount", "serviceaccounts", "sa", ""),
    ("", "ResourceQuota", "resourcequotas", "quota", ""),
    ("", "Service", "services", "svc", "all"),
    ("apps", "Deployment", "deployments", "deploy", "all"),
    ("apps", "ReplicaSet", "replicasets", "rs", "all"),
    ("coordination.k8s.io", "Lease", "leases", "", ""),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", ""),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd",
        "api-extensions",
    ),
];
const CLUSTER_SCOPED: [&str; 3] = ["Namespace", "Node", "CustomResourceDefinition"];
const WITHOUT_STATUS: [&str; 6] = ["PodTemplate", "Event", "ConfigMap", "Secret", "ServiceAccount", "Lease"];

/// The resources that are compiled into the server.
pub(crate) fn builtins() -> Vec<ResourceInfo> {
    ROWS.iter().map(describe).collect()
}

/// The built-in resource of this kind.
#[cfg(test)]
pub(crate) fn builtin(kind: &str) -> ResourceInfo {
    builtins().into_iter().find(|info| info.kind == kind).unwrap()
}

fn describe(&(group, kind, plural, short, category): &Row) -> ResourceInfo {
    let words = |word: &str| if word.is_empty() { Vec::new() } else { vec![word.to_owned()] };
    ResourceInfo {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: words(short),
        categories: words(category),
        namespaced: !CLUSTER_SCOPED.contains(&kind),
        status: !WITHOUT_STATUS.contains(&kind),
        scale: (group == "apps").then(|| CustomResourceSubresourceScale {
            spec_replicas_path: ".spec.replicas".to_owned(),
            status_replicas_path: ".status.replicas".to_owned(),
            // Built-in resources have a structured selector; the handler converts it to a string.
            label_selector_path: None,
        }),
        columns: Vec::new(),
        schema: None,
        origin: Origin::Builtin,
    }
}

/// The resources of a CRD, one for each served version, or the errors with which the CRD is rejected. A real
/// API server checks more.
pub(crate) fn from_crd(crd: &Value) -> Result<Vec<ResourceInfo>, Vec<Cause>> {
    let CustomResourceDefinition { metadata, spec, .. } = CustomResourceDefinition::deserialize(crd)
        .map_err(|error| vec![Cause::invalid("spec", &Value::Null, &error.to_string())])?;
    let (mut causes, names) = (Vec::new(), spec.names);
    for (field, value) in [
        ("group", &spec.group),
        ("scope", &spec.scope),
        ("names.plural", &names.plural),
        ("names.kind", &names.kind),
    ] {
        if value.is_empty() {
            causes.push(Cause::required(&format!("spec.{field}"), ""));
        }
    }
    let name = metadata.name.unwrap_or_default();
    if causes.is_empty() && name != format!("{}.{}", names.plural, spec.group) {
        let detail = r#"must be spec.names.plural+"."+spec.group"#;
        causes.push(Cause::invalid("metadata.name", &name.into(), detail));
    }
    if spec.versions.iter().filter(|version| version.storage).count() != 1 {
        let names: Vec<&str> = spec.versions.iter().map(|version| version.name.as_str()).collect();
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &json!(names), detail));
    }
    let mut found = Vec::new();
    for (i, version) in spec.versions.into_iter().enumerate() {
        let path = format!("spec.versions[{i}].schema.openAPIV3Schema");
        let schema = match version.schema.and_then(|schema| schema.open_api_v3_schema) {
            Some(schema) => CrdSchema::compile(&json!(schema)),
            None => Err(vec![Cause::required("", "")]),
        };
        let schema = schema.map_err(|found| {
            let placed = |cause: Cause| {
                let field = format!("{path}.{}", cause.field).trim_end_matches('.').to_owned();
                Cause { field, ..cause }
            };
            causes.extend(found.into_iter().map(placed));
        });
        let subresources = version.subresources.unwrap_or_default();
        if version.served {
            found.push(ResourceInfo {
                group: spec.group.clone(),
                version: version.name,
                kind: names.kind.clone(),
                list_kind: names.list_kind.clone().unwrap_or_else(|| format!("{}List", names.kind)),
                plural: names.plural.clone(),
                singular: names.singular.clone().unwrap_or_else(|| names.kind.to_lowercase()),
                short_names: names.short_names.clone().unwrap_or_default(),
                categories: names.categories.clone().unwrap_or_default(),
                namespaced: spec.scope == "Namespaced",
                status: subresources.status.is_some(),
                scale: subresources.scale,
                columns: version.additional_printer_columns.unwrap_or_default(),
                schema: schema.ok().map(Arc::new),
                origin: Origin::Crd,
            });
        }
    }
    if causes.is_empty() { Ok(found) } else { Err(causes) }
}

#[cfg(test)]
mod tests {
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
