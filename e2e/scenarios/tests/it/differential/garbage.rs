//! Waits for both garbage collectors: each must have processed all objects before the next request, otherwise
//! the state would depend on timing. This module only waits; other modules compare the results.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::operations::{Operation, Verb};
use super::side::{JSON, Kind, Side};

/// Finalizers that exist while the garbage collector works.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The namespace of objects whose deletion shows how far the garbage collector is.
pub const CANARIES: &str = "canaries";

/// The number of polls and their interval.
const LOOKS: usize = 6000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Waits until the garbage collector knows all objects of a kind. Otherwise it may delete an owner before it
/// has seen its dependents. It receives the events of a kind in order, so it knows them when it has deleted a
/// later object with an absent owner.
pub async fn has_seen(side: &mut Side, kind: Kind) {
    let mut canary = kind.object();
    canary["metadata"]["generateName"] = "canary-".into();
    canary["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone",
        "uid": "00000000-0000-0000-0000-000000000000"},
    ]);
    let mut elsewhere = Side::new(side.label, side.client.clone());
    elsewhere.turn_to(CANARIES);
    let path = elsewhere.collection(kind);
    let answer = elsewhere.send("POST", &path, JSON, Some(&canary)).await;
    assert!(answer.succeeded(), "{answer:?}");
    let name = answer.body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let path = format!("{path}/{name}");
    for _ in 0..LOOKS {
        if elsewhere.get(&path).await.code == 404 {
            return;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    panic!("the garbage collector of the {} does not see {path}", side.label);
}

/// Waits until nothing is left to collect after this operation.
pub async fn is_collected(side: &mut Side, operation: &Operation) {
    // Without dependents there are only finalizers, which it removes immediately.
    let only_finalizers =
        operation.verb == Verb::Delete && matches!(operation.policy, "Foreground" | "Orphan");
    let kinds: &[Kind] = match (side.has_dependents, only_finalizers) {
        _ if operation.only_reads() => return,
        (true, _) => &Kind::ALL,
        (false, true) => &[operation.kind],
        (false, false) => return,
    };
    let mut left = Vec::new();
    for _ in 0..LOOKS {
        let mut objects = Vec::new();
        for kind in kinds {
            let path = side.collection(*kind);
            let list = side.get(&path).await.body;
            objects.extend(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default());
        }
        left = work(&objects);
        if left.is_empty() {
            return;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    panic!("the garbage collector of the {} leaves {left:#?} after {operation:?}", side.label);
}

/// The objects that the garbage collector must process.
fn work(objects: &[Value]) -> Vec<String> {
    let by_uid: BTreeMap<&str, &Value> = objects.iter().map(|object| (uid(object), object)).collect();
    let has_work = |object: &&Value| {
        if is_terminating(object) {
            let blocked = || {
                objects.iter().any(|other| {
                    owners(other)
                        .iter()
                        .any(|owner| uid_of(owner) == uid(object) && owner["blockOwnerDeletion"] == true)
                })
            };
            return has(object, ORPHAN) || has(object, FOREGROUND) && !blocked();
        }
        let owners = owners(object);
        let gone = |owner: &Value| !by_uid.contains_key(uid_of(owner));
        // An owner in foreground deletion deletes the dependents that block it.
        let waits = |owner: &Value| {
            owner["blockOwnerDeletion"] == true
                && by_uid
                    .get(uid_of(owner))
                    .is_some_and(|owner| is_terminating(owner) && has(owner, FOREGROUND))
        };
        owners.iter().any(|owner| gone(owner) || waits(owner))
    };
    objects.iter().filter(has_work).map(|object| object["metadata"].to_string()).collect()
}

fn owners(object: &Value) -> &[Value] {
    object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

fn uid_of(owner: &Value) -> &str {
    owner["uid"].as_str().unwrap_or_default()
}

fn is_terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

fn has(object: &Value, finalizer: &str) -> bool {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.into_iter().flatten().any(|one| one == finalizer)
}
