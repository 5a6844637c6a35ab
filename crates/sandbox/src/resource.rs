//! The description of each resource: names, scope, verbs, subresources, printer columns and schema.
//!
//! This module does not serve or store objects. The description of a custom resource comes only from its CRD.

use std::sync::Arc;

use crate::schema::CrdSchema;

mod crd;

pub use crd::from_crd;

/// The origin of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Compiled into the server: typed, accepts strategic merge patches.
    Builtin,
    /// Defined by a CustomResourceDefinition: structural schema, no strategic merge patches.
    Crd,
}

/// The paths that the scale subresource uses: JSON paths such as `.spec.replicas`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// Path of the desired replicas, under `.spec`.
    pub spec_replicas: String,
    /// Path of the observed replicas, under `.status`.
    pub status_replicas: String,
    /// Path of the selector in string form.
    pub label_selector: Option<String>,
}

/// A printer column of a custom resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Header, as written in the CRD.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_: String,
    /// Optional format.
    pub format: String,
    /// Human-readable description.
    pub description: String,
    /// Columns with a priority other than 0 are shown only with `-o wide`.
    pub priority: i64,
    /// Simple JSON path into the object.
    pub json_path: String,
}

/// One resource in one version.
#[derive(Debug, Clone)]
pub struct ResourceInfo {
    /// API group; empty for the core group.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
    /// Kind, such as `Pod`.
    pub kind: String,
    /// Kind of lists, such as `PodList`.
    pub list_kind: String,
    /// Plural name in URLs, such as `pods`.
    pub plural: String,
    /// Singular name, such as `pod`.
    pub singular: String,
    /// Short names, such as `po`.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// Supported verbs.
    pub verbs: Vec<String>,
    /// Whether the resource has a `/status` subresource.
    pub status: bool,
    /// The paths of the `/scale` subresource, if the resource has one.
    pub scale: Option<ScalePaths>,
    /// Printer columns of a custom resource. Those of built-in resources are in the module `table`.
    pub columns: Vec<Column>,
    /// Schema of a custom resource.
    pub schema: Option<Arc<CrdSchema>>,
    /// Built-in or from a CRD.
    pub origin: Origin,
}

impl ResourceInfo {
    /// `v1` or `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `pods` or `deployments.apps`, as error messages name it.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Whether this is the built-in resource of this group and kind.
    #[must_use]
    pub fn is_builtin(&self, group: &str, kind: &str) -> bool {
        self.origin == Origin::Builtin && self.group == group && self.kind == kind
    }
}

pub(crate) const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// One row of the table of built-in resources.
struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    status: bool,
    scale: bool,
}

const ROW: Row = Row {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    short: &[],
    categories: &[],
    namespaced: true,
    status: false,
    scale: false,
};

const ROWS: &[Row] = &[
    Row { kind: "Namespace", plural: "namespaces", short: &["ns"], namespaced: false, status: true, ..ROW },
    Row { kind: "Node", plural: "nodes", short: &["no"], namespaced: false, status: true, ..ROW },
    Row { kind: "Pod", plural: "pods", short: &["po"], categories: &["all"], status: true, ..ROW },
    Row { kind: "PodTemplate", plural: "podtemplates", ..ROW },
    Row { kind: "Event", plural: "events", short: &["ev"], ..ROW },
    Row { kind: "ConfigMap", plural: "configmaps", short: &["cm"], ..ROW },
    Row { kind: "Secret", plural: "secrets", ..ROW },
    Row { kind: "ServiceAccount", plural: "serviceaccounts", short: &["sa"], ..ROW },
    Row { kind: "ResourceQuota", plural: "resourcequotas", short: &["quota"], status: true, ..ROW },
    Row { kind: "Service", plural: "services", short: &["svc"], categories: &["all"], status: true, ..ROW },
    Row {
        group: "apps",
        kind: "Deployment",
        plural: "deployments",
        short: &["deploy"],
        categories: &["all"],
        status: true,
        scale: true,
        ..ROW
    },
    Row {
        group: "apps",
        kind: "ReplicaSet",
        plural: "replicasets",
        short: &["rs"],
        categories: &["all"],
        status: true,
        scale: true,
        ..ROW
    },
    Row { group: "events.k8s.io", kind: "Event", plural: "events", short: &["ev"], ..ROW },
    Row { group: "coordination.k8s.io", kind: "Lease", plural: "leases", ..ROW },
    Row {
        group: "policy",
        kind: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        short: &["pdb"],
        status: true,
        ..ROW
    },
    Row {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        short: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        status: true,
        ..ROW
    },
];

/// The resources that are compiled into the server.
#[must_use]
pub fn builtins() -> Vec<ResourceInfo> {
    ROWS.iter().map(describe).collect()
}

fn describe(row: &Row) -> ResourceInfo {
    ResourceInfo {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        plural: row.plural.to_owned(),
        singular: row.kind.to_lowercase(),
        short_names: owned(row.short),
        categories: owned(row.categories),
        namespaced: row.namespaced,
        verbs: owned(&VERBS),
        status: row.status,
        scale: row.scale.then(|| ScalePaths {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            // Built-in resources have a structured selector; the handler converts it to a string.
            label_selector: None,
        }),
        columns: Vec::new(),
        schema: None,
        origin: Origin::Builtin,
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&w| w.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtins_are_unique_by_group_and_plural() {
        let all = builtins();
        for info in &all {
            let same = all.iter().filter(|o| o.group == info.group && o.plural == info.plural).count();
            assert_eq!(same, 1, "{}", info.qualified());
        }
    }
}
