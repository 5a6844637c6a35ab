//! Two API groups serve Events from one storage: the core form is stored, the other form is converted.

use serde_json::Value;

use crate::object;

/// Fields that differ only in their name: core, events.k8s.io.
const RENAMED: [(&str, &str); 7] = [
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(crate) fn to_new(event: &mut Value) {
    let map = object::map_mut(event);
    for (core, new) in RENAMED {
        if let Some(value) = map.remove(core) {
            map.insert(new.to_owned(), value);
        }
    }
}

pub(crate) fn to_core(event: &mut Value) {
    let map = object::map_mut(event);
    for (core, new) in RENAMED {
        if let Some(value) = map.remove(new) {
            map.insert(core.to_owned(), value);
        }
    }
}
