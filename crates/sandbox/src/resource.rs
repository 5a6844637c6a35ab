//! The description of each resource: names, scope, verbs, subresources, printer columns and schema.
//!
//! This module does not serve or store objects. The description of a custom resource comes only from its CRD.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Column {
    /// Header, as written in the CRD.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Optional format.
    pub format: String,
    /// Human-readable description.
    pub description: String,
    /// Columns with a priority other than 0 are shown only with `-o wide`.
    pub priority: i64,
    /// Simple JSON path into the object.
    #[serde(skip_serializing)]
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

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

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
#[must_use]
pub fn builtins() -> Vec<ResourceInfo> {
    ROWS.iter().map(describe).collect()
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
        verbs: VERBS.iter().map(|&verb| verb.to_owned()).collect(),
        status: !WITHOUT_STATUS.contains(&kind),
        scale: (group == "apps").then(|| ScalePaths {
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
