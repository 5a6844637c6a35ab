//! How lists of built-in types merge: the table of `patchMergeKey` and `patchStrategy`.
//!
//! The server applies strategic merge patches with this table and publishes it in the `OpenAPI` documents. The patches
//! that clients build therefore always match the way the server applies them.

/// One field with its own merge strategy. Every other list is atomic, every other map is merged.
pub(crate) struct Row {
    /// Last part of the type name in `OpenAPI`, such as `PodSpec`.
    pub(crate) type_name: &'static str,
    /// The field names of an object of that type in its parent.
    pub(crate) parents: &'static [&'static str],
    /// The field.
    pub(crate) field: &'static str,
    /// The merge key of the items; `None` for sets of scalars and for maps.
    pub(crate) key: Option<&'static str>,
    /// `merge`, `retainKeys` or both, as in the documents.
    pub(crate) strategy: &'static str,
}

const MERGE: &str = "merge";
const CONTAINERS: &[&str] = &["containers", "initContainers", "ephemeralContainers"];

const fn row(
    type_name: &'static str,
    parents: &'static [&'static str],
    field: &'static str,
    key: &'static str,
) -> Row {
    Row { type_name, parents, field, key: Some(key), strategy: MERGE }
}

const fn set(type_name: &'static str, parents: &'static [&'static str], field: &'static str) -> Row {
    Row { type_name, parents, field, key: None, strategy: MERGE }
}

/// The table.
pub(crate) const ROWS: &[Row] = &[
    row("ObjectMeta", &["metadata"], "ownerReferences", "uid"),
    set("ObjectMeta", &["metadata"], "finalizers"),
    row("PodSpec", &["spec"], "containers", "name"),
    row("PodSpec", &["spec"], "initContainers", "name"),
    row("PodSpec", &["spec"], "ephemeralContainers", "name"),
    Row {
        type_name: "PodSpec",
        parents: &["spec"],
        field: "volumes",
        key: Some("name"),
        strategy: "merge,retainKeys",
    },
    Row {
        type_name: "PodSpec",
        parents: &["spec"],
        field: "resourceClaims",
        key: Some("name"),
        strategy: "merge,retainKeys",
    },
    row("PodSpec", &["spec"], "imagePullSecrets", "name"),
    row("PodSpec", &["spec"], "hostAliases", "ip"),
    row("PodSpec", &["spec"], "schedulingGates", "name"),
    row("PodSpec", &["spec"], "topologySpreadConstraints", "topologyKey"),
    row("Container", CONTAINERS, "env", "name"),
    row("Container", CONTAINERS, "ports", "containerPort"),
    row("Container", CONTAINERS, "volumeMounts", "mountPath"),
    row("Container", CONTAINERS, "volumeDevices", "devicePath"),
    row("EphemeralContainer", CONTAINERS, "env", "name"),
    row("EphemeralContainer", CONTAINERS, "ports", "containerPort"),
    row("EphemeralContainer", CONTAINERS, "volumeMounts", "mountPath"),
    row("EphemeralContainer", CONTAINERS, "volumeDevices", "devicePath"),
    row("PodStatus", &["status"], "conditions", "type"),
    row("PodStatus", &["status"], "podIPs", "ip"),
    row("PodStatus", &["status"], "hostIPs", "ip"),
    row("PodStatus", &["status"], "resourceClaimStatuses", "name"),
    row("NodeStatus", &["status"], "conditions", "type"),
    row("NodeStatus", &["status"], "addresses", "type"),
    set("NodeSpec", &["spec"], "podCIDRs"),
    row("NamespaceStatus", &["status"], "conditions", "type"),
    row("ServiceSpec", &["spec"], "ports", "port"),
    row("ServiceStatus", &["status"], "conditions", "type"),
    row("ServiceAccount", &[""], "secrets", "name"),
    row("DeploymentStatus", &["status"], "conditions", "type"),
    row("ReplicaSetStatus", &["status"], "conditions", "type"),
    row("PodDisruptionBudgetStatus", &["status"], "conditions", "type"),
    Row {
        type_name: "DeploymentSpec",
        parents: &["spec"],
        field: "strategy",
        key: None,
        strategy: "retainKeys",
    },
];

/// How a list merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListMerge {
    Replace,
    ByKey(&'static str),
    Set,
}

/// How the list `field` merges in an object that is the field `parent` of its own parent. A field name has the same
/// meaning in all types that can be there, so the lookup does not need the type.
pub(super) fn list_merge(parent: &str, field: &str) -> ListMerge {
    let found = ROWS.iter().find(|row| row.field == field && row.parents.contains(&parent));
    match found {
        Some(Row { key: Some(key), .. }) => ListMerge::ByKey(key),
        Some(Row { key: None, strategy: MERGE, .. }) => ListMerge::Set,
        _ => ListMerge::Replace,
    }
}
