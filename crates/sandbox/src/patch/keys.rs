//! How the lists of built-in types merge: the table of `patchMergeKey` and `patchStrategy`.
//!
//! Used twice: to apply strategic merge patches, and to tell clients in the `OpenAPI` documents, so that the
//! patches they build and the way they are applied cannot differ.

/// One field with a merge strategy of its own; every other list is atomic, every other map merges.
pub(crate) struct Row {
    /// Last part of the type's name in `OpenAPI`, `PodSpec`.
    pub(crate) type_name: &'static str,
    /// Names under which an object of that type stands in its parent.
    pub(crate) parents: &'static [&'static str],
    /// The field.
    pub(crate) field: &'static str,
    /// Key that tells the items apart; none for sets of words and for maps.
    pub(crate) key: Option<&'static str>,
    /// `merge`, `retainKeys` or both, as the documents write it.
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

/// How the list in `field` of an object that stands as `parent` in its own parent merges. A field name means the
/// same in all types that can stand there, so no types have to be followed.
pub(super) fn list_merge(parent: &str, field: &str) -> ListMerge {
    let found = ROWS.iter().find(|row| row.field == field && row.parents.contains(&parent));
    match found {
        Some(Row { key: Some(key), .. }) => ListMerge::ByKey(key),
        Some(Row { key: None, strategy: MERGE, .. }) => ListMerge::Set,
        _ => ListMerge::Replace,
    }
}
