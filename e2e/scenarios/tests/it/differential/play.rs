//! Sends one operation to one server. Other modules compare the results.

use serde_json::{Value, json};

use super::operations::{DEPENDENTS, Name, Operation, Uid, Verb, Version};
use super::side::{Answer, JSON, Kind, MERGE, PATCH, STRATEGIC, Side};
use super::{garbage, known, normal};

/// Sends the operation to this side. Returns the value to compare.
pub async fn play(side: &mut Side, operation: &Operation) -> Value {
    let Operation { verb, name, .. } = *operation;
    let kind = if matches!(verb, Verb::Evict | Verb::Bind) { Kind::Pod } else { operation.kind };
    let (path, collection) = (side.path(kind, name, ""), side.collection(kind));
    let answer = match verb {
        Verb::Create => return create(side, operation).await,
        Verb::CreateDependent => create_dependent(side, operation).await,
        Verb::Get => side.get(&path).await,
        Verb::Update => update(side, operation).await,
        Verb::Merge | Verb::MergeStrategically | Verb::PatchByList => patch(side, operation).await,
        Verb::GetScale => side.get(&format!("{path}/scale")).await,
        Verb::PutScale => put_scale(side, operation).await,
        Verb::Evict => evict(side, operation).await,
        Verb::Bind => {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": side.name(kind, name)},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "silent"},
            });
            side.send("POST", &format!("{path}/binding"), JSON, Some(&binding)).await
        }
        Verb::Delete => {
            let current = side.get(&path).await.body;
            let options = delete_options(side, operation, &current);
            let answer = side.send("DELETE", &path, JSON, Some(&options)).await;
            let mut shown = normal::answer(side, kind, &answer);
            known::strip_deleted(&mut shown);
            return shown;
        }
        Verb::DeleteCollection => {
            let selected = format!("{collection}?labelSelector={}", escaped(operation.labels));
            return json!({"code": side.send("DELETE", &selected, "", None).await.code});
        }
        Verb::List | Verb::ListAt => return list(side, operation).await,
        Verb::Pages => return pages(side, kind, 1 + operation.number % 2, operation.flag).await,
    };
    normal::answer(side, kind, &answer)
}

async fn list(side: &mut Side, operation: &Operation) -> Value {
    let limit = operation.edit % 3;
    let query = if operation.verb == Verb::ListAt {
        let moment = &side.moments[operation.number % side.moments.len()];
        format!("resourceVersion={moment}&resourceVersionMatch=Exact&limit={limit}")
    } else {
        format!("labelSelector={}&fieldSelector={}", escaped(operation.labels), escaped(operation.fields))
    };
    let answer = side.get(&format!("{}?{query}", side.collection(operation.kind))).await;
    if operation.verb == Verb::ListAt && limit > 0 {
        // The order depends on generated names.
        return page(&answer);
    }
    let mut shown = normal::answer(side, operation.kind, &answer);
    in_order_of_making(&mut shown);
    shown
}

/// A PUT of the existing object, or of a new one, with the edit.
async fn update(side: &mut Side, operation: &Operation) -> Answer {
    let Operation { kind, name, part, .. } = *operation;
    let mut object = side.get(&side.path(kind, name, "")).await.body;
    if part == "scale" {
        let current = side.get(&side.path(kind, name, part)).await;
        if current.succeeded() {
            object = current.body;
        }
    } else if object.get("kind") == Some(&json!("Status")) {
        object = kind.named(&side.name(kind, name));
    }
    let version = side.version(&object, operation.version);
    merge(&mut object, &operation.change());
    set_version(&mut object, version);
    let path = side.path(kind, name, part) + dry_run(operation.dry);
    side.send("PUT", &path, JSON, Some(&object)).await
}

async fn patch(side: &mut Side, operation: &Operation) -> Answer {
    let Operation { kind, name, part, .. } = *operation;
    let mut body = operation.change();
    let form = match operation.verb {
        Verb::PatchByList => PATCH,
        Verb::MergeStrategically => {
            let current = side.get(&side.path(kind, name, "")).await.body;
            known::strip_strategic(&current, &mut body);
            STRATEGIC
        }
        _ => MERGE,
    };
    let path = side.path(kind, name, part) + dry_run(operation.dry);
    side.send("PATCH", &path, form, Some(&body)).await
}

async fn put_scale(side: &mut Side, operation: &Operation) -> Answer {
    let Operation { kind, name, .. } = *operation;
    let replicas = i32::try_from(operation.number % 5).unwrap() - 1;
    let mut scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas},
        "metadata": {"name": side.name(kind, name), "namespace": side.namespace},
    });
    let current = side.get(&side.path(kind, name, "")).await.body;
    set_version(&mut scale, side.version(&current, operation.version));
    let path = side.path(kind, name, "scale");
    side.send("PUT", &path, JSON, Some(&scale)).await
}

async fn evict(side: &mut Side, operation: &Operation) -> Answer {
    let name = operation.name;
    let current = side.get(&side.path(Kind::Pod, name, "")).await.body;
    let version = operation.version;
    let version = if version == Version::Garbage { Version::None } else { version };
    let mut options = json!({"preconditions": preconditions(side, &current, operation.uid, version)});
    if operation.dry {
        options["dryRun"] = json!(["All"]);
    }
    let eviction = json!({
        "apiVersion": "policy/v1beta1", "kind": "Eviction",
        "metadata": {"name": side.name(Kind::Pod, name), "namespace": side.namespace},
        "deleteOptions": options,
    });
    let path = side.path(Kind::Pod, name, "eviction");
    side.send("POST", &path, JSON, Some(&eviction)).await
}

fn delete_options(side: &Side, operation: &Operation, current: &Value) -> Value {
    // Mostly without a version: with one, most deletes would fail.
    let version = match operation.version {
        Version::Current => Version::None,
        Version::Garbage => Version::Current,
        version => version,
    };
    let mut options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": preconditions(side, current, operation.uid, version),
    });
    if !operation.policy.is_empty() {
        options["propagationPolicy"] = operation.policy.into();
    }
    if let Some(grace) = operation.grace {
        options["gracePeriodSeconds"] = grace.into();
    }
    if operation.dry {
        options["dryRun"] = json!(["All"]);
    }
    options
}

/// Sorts by creation, since generated names are random.
pub fn in_order_of_making(shown: &mut Value) {
    if let Some(items) = shown.pointer_mut("/body/items").and_then(Value::as_array_mut) {
        items.sort_by_key(|item| item.pointer("/metadata/name").map(ToString::to_string));
    }
}

/// Creates the object with its name, or one with a generated name.
async fn create(side: &mut Side, operation: &Operation) -> Value {
    let kind = operation.kind;
    let mut object = kind.object();
    let name = match operation.name {
        Name::Fixed(name) if name != "absent" => Some(name),
        _ => None,
    };
    match name {
        Some(name) => object["metadata"]["name"] = name.into(),
        None => object["metadata"]["generateName"] = "made-up-".into(),
    }
    let mut change = operation.change();
    known::strip_creation(&mut change);
    merge(&mut object, &change);
    let path = side.collection(kind) + dry_run(operation.dry);
    let answer = side.send("POST", &path, JSON, Some(&object)).await;
    if answer.succeeded() && object["metadata"].get("name").is_none() {
        let made = answer.body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        side.generated.entry(kind).or_default().push(made.to_owned());
    }
    let mut shown = normal::answer(side, kind, &answer);
    if !answer.succeeded() && name.is_none() {
        // A generated name of a dry run.
        shown["body"]["name"] = Value::Null;
    }
    shown
}

async fn create_dependent(side: &mut Side, operation: &Operation) -> Answer {
    let Operation { kind, name, owner_kind, .. } = *operation;
    let there = side.get(&side.path(owner_kind, name, "")).await.body;
    let uid = Side::uid(&there, Uid::Current).or_else(|| Side::uid(&there, Uid::Wrong));
    let (version, owner_kind, _) = owner_kind.names();
    let owner_name = there.pointer("/metadata/name").cloned().unwrap_or_else(|| "absent".into());
    let mut object = kind.named(DEPENDENTS[operation.number % DEPENDENTS.len()]);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": version, "kind": owner_kind, "name": owner_name, "uid": uid,
        "blockOwnerDeletion": operation.flag,
    }]);
    let path = side.collection(kind);
    let answer = side.send("POST", &path, JSON, Some(&object)).await;
    if answer.succeeded() {
        side.has_dependents = true;
        garbage::has_seen(side, kind).await;
    }
    answer
}

/// The comparable part of a page of a list.
fn page(answer: &Answer) -> Value {
    let items = answer.body.get("items").and_then(Value::as_array).map(Vec::len);
    json!({
        "code": answer.code, "items": items, "reason": answer.body.get("reason"),
        "remaining": answer.body.pointer("/metadata/remainingItemCount"),
        "continues": answer.body.pointer("/metadata/continue").is_some_and(|token| token != ""),
    })
}

async fn pages(side: &mut Side, kind: Kind, limit: usize, write_between: bool) -> Value {
    let mut shown = Vec::new();
    let mut next = String::new();
    for turn in 0..10 {
        let path = format!("{}?limit={limit}&continue={}", side.collection(kind), escaped(&next));
        let answer = side.get(&path).await;
        shown.push(page(&answer));
        let token = answer.body.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default();
        if token.is_empty() {
            break;
        }
        token.clone_into(&mut next);
        if write_between && turn == 0 {
            // Pages show the state of the first page.
            let late = kind.named("yy-late");
            let path = side.collection(kind);
            let answer = side.send("POST", &path, JSON, Some(&late)).await;
            shown.push(normal::answer(side, kind, &answer));
        }
    }
    json!(shown)
}

fn preconditions(side: &Side, current: &Value, uid: Uid, version: Version) -> Value {
    let mut preconditions = json!({});
    if let Some(uid) = Side::uid(current, uid) {
        preconditions["uid"] = uid.into();
    }
    if let Some(version) = side.version(current, version) {
        preconditions["resourceVersion"] = version.into();
    }
    preconditions
}

fn set_version(object: &mut Value, version: Option<String>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    match version {
        Some(version) => metadata.insert("resourceVersion".to_owned(), version.into()),
        None => metadata.remove("resourceVersion"),
    };
}

fn dry_run(dry: bool) -> &'static str {
    if dry { "?dryRun=All" } else { "" }
}

fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}

/// Applies a merge patch.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    let Value::Object(map) = object else { return };
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            merge(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
