//! Waits for the garbage collectors: both have to have done all that the objects there are ask of them before the next
//! request, or what it meets would be a matter of luck. It only waits; what they did is compared by others.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::operations::Operation;
use super::side::{Kind, Side};

/// Kept by the server while its garbage collector is at work.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Where objects die that only show how far the collector has looked.
pub const CANARIES: &str = "canaries";

/// How often it is looked, and how far apart.
const LOOKS: usize = 6000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Waits until the collector knows all objects of that kind: else it may delete an owner before it has heard of what
/// belongs to it. It hears of one kind in order, so it has when a later object without an owner is gone.
pub async fn has_seen(side: &mut Side, kind: Kind) {
    let mut canary = kind.object();
    canary["metadata"]["generateName"] = "canary-".into();
    canary["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"},
    ]);
    let mut elsewhere = Side::new(side.label, side.client.clone());
    elsewhere.turn_to(CANARIES);
    let path = elsewhere.collection(kind);
    let answer = elsewhere.send("POST", &path, "application/json", Some(&canary)).await;
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

/// Waits until nothing is left to collect after that operation.
pub async fn is_collected(side: &mut Side, operation: &Operation) {
    let kinds: &[Kind] = match operation {
        Operation::Get { .. }
        | Operation::GetScale { .. }
        | Operation::List { .. }
        | Operation::ListAt { .. }
        | Operation::Pages { .. } => return,
        // Without dependents there are only the finalizers that it removes at once.
        Operation::Delete { kind, policy: "Foreground" | "Orphan", .. } if !side.has_dependents => {
            &[*kind][..]
        }
        _ if side.has_dependents => &Kind::ALL,
        _ => return,
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

/// The objects on which the collector has something to do.
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
        // An owner that goes last takes those along that hold it up.
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
