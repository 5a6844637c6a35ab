//! How the lists and maps of built-in types merge in server-side apply, where this differs from the strategic merge
//! patch: the markers `listType`, `listMapKey` and `mapType` of the Kubernetes types (`staging/src/k8s.io/api`).

use crate::patch::ROWS;

/// How a list merges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListMarker {
    Atomic,
    Set,
    Keys(&'static [&'static str]),
}

/// Types whose objects are replaced as a whole.
const ATOMIC_TYPES: [&str; 13] = [
    "ConfigMapKeySelector",
    "LabelSelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ObjectReference",
    "OwnerReference",
    "ResourceFieldSelector",
    "RoleRef",
    "ScopeSelector",
    "SecretKeySelector",
    "TypedLocalObjectReference",
];

/// Maps that are replaced as a whole, by type and field.
const ATOMIC_MAPS: [(&str, &str); 2] = [("PodSpec", "nodeSelector"), ("ServiceSpec", "selector")];

/// Lists by type and field. The other ones are in the table of the strategic merge patch, or are atomic.
const LISTS: [(&str, &str, ListMarker); 12] = [
    ("Container", "ports", ListMarker::Keys(&["containerPort", "protocol"])),
    ("EphemeralContainer", "ports", ListMarker::Keys(&["containerPort", "protocol"])),
    ("ContainerStatus", "allocatedResourcesStatus", ListMarker::Keys(&["name"])),
    ("ContainerStatus", "volumeMounts", ListMarker::Keys(&["mountPath"])),
    ("CustomResourceDefinitionStatus", "conditions", ListMarker::Keys(&["type"])),
    ("PodSpec", "resourceClaims", ListMarker::Keys(&["name"])),
    ("PodSpec", "topologySpreadConstraints", ListMarker::Keys(&["topologyKey", "whenUnsatisfiable"])),
    ("PodStatus", "hostIPs", ListMarker::Atomic),
    ("ResourceRequirements", "claims", ListMarker::Keys(&["name"])),
    ("ResourceStatus", "resources", ListMarker::Keys(&["resourceID"])),
    ("ServiceSpec", "ports", ListMarker::Keys(&["port", "protocol"])),
    ("VolumeMount", "bindMountOptions", ListMarker::Set),
];

/// Keys of list items that have a default.
const KEY_DEFAULTS: [(&str, &str, &str); 2] =
    [("ContainerPort", "protocol", "TCP"), ("ServicePort", "protocol", "TCP")];

pub(super) fn is_atomic_type(type_name: &str) -> bool {
    ATOMIC_TYPES.contains(&type_name)
}

pub(super) fn is_atomic_map(type_name: &str, field: &str) -> bool {
    ATOMIC_MAPS.contains(&(type_name, field))
}

/// How the list in this field merges.
pub(super) fn list(type_name: &str, field: &str) -> Option<ListMarker> {
    let own = LISTS.iter().find(|(owner, name, _)| (*owner, *name) == (type_name, field));
    if let Some((_, _, marker)) = own {
        return Some(marker.clone());
    }
    let row = ROWS.iter().find(|row| row.type_name == type_name && row.field == field)?;
    match (&row.key, row.strategy) {
        (Some(key), _) => Some(ListMarker::Keys(std::slice::from_ref(key))),
        (None, "merge") => Some(ListMarker::Set),
        _ => None,
    }
}

pub(super) fn key_default(type_name: &str, field: &str) -> Option<&'static str> {
    let found = KEY_DEFAULTS.iter().find(|(owner, name, _)| (*owner, *name) == (type_name, field));
    found.map(|(_, _, default)| *default)
}
