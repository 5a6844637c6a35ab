//! Small objects for unit tests.

use ordereddeployment_wire::{NamespacedUid, PodView};
use serde_json::json;

use crate::cache::entry::PodEntry;

/// The key of the object with this UID, in the namespace of the other objects.
pub(crate) fn key(uid: &str) -> NamespacedUid {
    NamespacedUid::new("shop", uid)
}

/// A pod of the set `s1`.
pub(crate) fn pod(uid: &str, version: u64) -> PodEntry {
    pod_of("s1", uid, version)
}

/// A pod of that set.
pub(crate) fn pod_of(set: &str, uid: &str, version: u64) -> PodEntry {
    let view: PodView = serde_json::from_value(json!({
        "metadata": {
            "name": format!("web-{uid}"), "namespace": "shop", "uid": uid,
            "resourceVersion": version.to_string(),
            "ownerReferences": [{"apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedReplicaSet",
                                 "name": set, "uid": set, "controller": true}],
        },
    }))
    .unwrap();
    PodEntry::of(ordereddeployment_wire::Family::Ordered, &view).unwrap()
}

/// A copy with a deletionTimestamp.
pub(crate) fn terminating(entry: &PodEntry) -> PodEntry {
    use crate::cache::entry::Entry;
    entry.terminating()
}
