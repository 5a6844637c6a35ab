//! Small objects for unit tests.

use jiff::Timestamp;
use kube_runtime::watcher::Event;
use ordereddeployment_wire::{NamespacedUid, PodView};
use serde_json::json;

use crate::cache::entry::{Entry, PodEntry};
use crate::cache::index::Seen;

/// The key of the object with this UID, in the namespace of the other objects.
pub(crate) fn key(uid: &str) -> NamespacedUid {
    NamespacedUid::new("shop", uid)
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
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
    entry.terminating()
}

fn seen<E: Entry>(entry: E) -> Seen<E> {
    Seen { key: entry.key().clone(), version: entry.version(), entry: Some(entry) }
}

/// The watch shows this object.
pub(crate) fn shown<E: Entry>(entry: E) -> Event<Seen<E>> {
    Event::Apply(seen(entry))
}

/// The same as a part of a list.
pub(crate) fn listed<E: Entry>(entry: E) -> Event<Seen<E>> {
    Event::InitApply(seen(entry))
}

/// The watch shows that no object of ours controls this one any more.
pub(crate) fn away<E>(uid: &str, version: u64) -> Event<Seen<E>> {
    Event::Apply(Seen { key: key(uid), version, entry: None })
}

/// The watch shows that this object is deleted.
pub(crate) fn gone<E>(uid: &str) -> Event<Seen<E>> {
    Event::Delete(Seen { key: key(uid), version: 0, entry: None })
}
