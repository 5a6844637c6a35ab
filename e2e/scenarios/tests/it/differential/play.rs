//! Sends one operation to one server. Other modules compare the results.

use serde_json::{Value, json};

use super::operations::{Name, Operation, PatchKind, Uid, Version};
use super::side::{Answer, Kind, Side};
use super::{edits, garbage, known, normal};

/// Sends the operation to this side. Returns the value to compare.
pub async fn play(side: &mut Side, operation: &Operation) -> Value {
    match operation {
        Operation::Create { kind, name, edit, dry } => create(side, *kind, *name, *edit, *dry).await,
        Operation::CreateDependent { .. } => create_dependent(side, operation).await,
        Operation::Get { kind, name } => {
            let path = side.path(*kind, *name, "");
            let answer = side.get(&path).await;
            normal::answer(side, *kind, &answer)
        }
        Operation::Update { .. } => update(side, operation).await,
        Operation::Patch { kind, name, part, form, edit, dry } => {
            let strategic = *form == PatchKind::Strategic;
            let (form, mut body) = match form {
                PatchKind::Merge => ("application/merge-patch+json", edits::edit(*kind, *edit)),
                PatchKind::Strategic => ("application/strategic-merge-patch+json", edits::edit(*kind, *edit)),
                PatchKind::Json => ("application/json-patch+json", edits::list(*kind, *edit)),
            };
            if strategic {
                let current = side.get(&side.path(*kind, *name, "")).await.body;
                known::strip_strategic(&current, &mut body);
            }
            let path = side.path(*kind, *name, part) + dry_run(*dry);
            let answer = side.send("PATCH", &path, form, Some(&body)).await;
            normal::answer(side, *kind, &answer)
        }
        Operation::GetScale { kind, name } => {
            let path = side.path(*kind, *name, "scale");
            let answer = side.get(&path).await;
            normal::answer(side, *kind, &answer)
        }
        Operation::PutScale { kind, name, replicas, version } => {
            let path = side.path(*kind, *name, "scale");
            let object_name = side.name(*kind, *name);
            let mut scale = json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale",
                "metadata": {"name": object_name, "namespace": side.namespace}, "spec": {"replicas": replicas},
            });
            let current = side.get(&side.path(*kind, *name, "")).await.body;
            set_version(&mut scale, side.version(&current, *version));
            let answer = side.send("PUT", &path, "application/json", Some(&scale)).await;
            normal::answer(side, *kind, &answer)
        }
        Operation::Evict { name, uid, version, dry } => evict(side, *name, *uid, *version, *dry).await,
        Operation::Bind { name } => {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": side.name(Kind::Pod, *name)},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "silent"},
            });
            let path = side.path(Kind::Pod, *name, "binding");
            let answer = side.send("POST", &path, "application/json", Some(&binding)).await;
            normal::answer(side, Kind::Pod, &answer)
        }
        Operation::Delete { kind, name, .. } => {
            let path = side.path(*kind, *name, "");
            let current = side.get(&path).await.body;
            let options = delete_options(side, operation, &current);
            let answer = side.send("DELETE", &path, "application/json", Some(&options)).await;
            let mut shown = normal::answer(side, *kind, &answer);
            known::strip_deleted(&mut shown);
            shown
        }
        Operation::DeleteCollection { kind, selector } => {
            let path = format!("{}?labelSelector={}", side.collection(*kind), escaped(selector));
            let answer = side.send("DELETE", &path, "", None).await;
            json!({"code": answer.code})
        }
        Operation::List { kind, labels, fields } => {
            let query = format!("labelSelector={}&fieldSelector={}", escaped(labels), escaped(fields));
            let answer = side.get(&format!("{}?{query}", side.collection(*kind))).await;
            let mut shown = normal::answer(side, *kind, &answer);
            in_order_of_making(&mut shown);
            shown
        }
        Operation::ListAt { kind, moment, limit } => {
            let moment = &side.moments[moment % side.moments.len()];
            let query = format!("resourceVersion={moment}&resourceVersionMatch=Exact&limit={limit}");
            let answer = side.get(&format!("{}?{query}", side.collection(*kind))).await;
            if *limit > 0 {
                // The order depends on generated names.
                return page(&answer);
            }
            let mut shown = normal::answer(side, *kind, &answer);
            in_order_of_making(&mut shown);
            shown
        }
        Operation::Pages { kind, limit, write_between } => pages(side, *kind, *limit, *write_between).await,
    }
}

/// A PUT of the existing object, or of a new one, with the edit.
async fn update(side: &mut Side, operation: &Operation) -> Value {
    let Operation::Update { kind, name, part, edit, version, dry } = operation else { return Value::Null };
    let object_path = side.path(*kind, *name, "");
    let mut object = side.get(&object_path).await.body;
    if *part == "scale" {
        let current = side.get(&side.path(*kind, *name, part)).await;
        if current.succeeded() {
            object = current.body;
        }
    } else if object.get("kind") == Some(&json!("Status")) {
        object = kind.named(&side.name(*kind, *name));
    }
    let named_version = side.version(&object, *version);
    merge(&mut object, &edits::edit(*kind, *edit));
    set_version(&mut object, named_version);
    let path = side.path(*kind, *name, part) + dry_run(*dry);
    let answer = side.send("PUT", &path, "application/json", Some(&object)).await;
    normal::answer(side, *kind, &answer)
}

async fn evict(side: &mut Side, name: Name, uid: Uid, version: Version, dry: bool) -> Value {
    let current = side.get(&side.path(Kind::Pod, name, "")).await.body;
    let version = if version == Version::Garbage { Version::None } else { version };
    let mut options = json!({"preconditions": preconditions(side, &current, uid, version)});
    if dry {
        options["dryRun"] = json!(["All"]);
    }
    let eviction = json!({
        "apiVersion": "policy/v1beta1", "kind": "Eviction",
        "metadata": {"name": side.name(Kind::Pod, name), "namespace": side.namespace},
        "deleteOptions": options,
    });
    let path = side.path(Kind::Pod, name, "eviction");
    let answer = side.send("POST", &path, "application/json", Some(&eviction)).await;
    normal::answer(side, Kind::Pod, &answer)
}

fn delete_options(side: &Side, operation: &Operation, current: &Value) -> Value {
    let Operation::Delete { policy, grace, uid, version, dry, .. } = operation else { return Value::Null };
    let mut options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": preconditions(side, current, *uid, *version),
    });
    if !policy.is_empty() {
        options["propagationPolicy"] = (*policy).into();
    }
    if let Some(grace) = grace {
        options["gracePeriodSeconds"] = (*grace).into();
    }
    if *dry {
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

async fn create(side: &mut Side, kind: Kind, name: Option<&str>, edit: usize, dry: bool) -> Value {
    let mut object = kind.object();
    match name {
        Some(name) => object["metadata"]["name"] = name.into(),
        None => object["metadata"]["generateName"] = "made-up-".into(),
    }
    let mut edit = edits::edit(kind, edit);
    known::strip_creation(&mut edit);
    merge(&mut object, &edit);
    let path = side.collection(kind) + dry_run(dry);
    let answer = side.send("POST", &path, "application/json", Some(&object)).await;
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

async fn create_dependent(side: &mut Side, operation: &Operation) -> Value {
    let Operation::CreateDependent { kind, name, owner_kind, owner, blocks } = operation else {
        return Value::Null;
    };
    let there = side.get(&side.path(*owner_kind, *owner, "")).await.body;
    let uid = Side::uid(&there, Uid::Current).or_else(|| Side::uid(&there, Uid::Wrong));
    let (version, owner_kind, _) = owner_kind.names();
    let owner_name = there.pointer("/metadata/name").cloned().unwrap_or_else(|| "absent".into());
    let mut object = kind.named(name);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": version, "kind": owner_kind, "name": owner_name, "uid": uid, "blockOwnerDeletion": blocks,
    }]);
    let path = side.collection(*kind);
    let answer = side.send("POST", &path, "application/json", Some(&object)).await;
    if answer.succeeded() {
        side.has_dependents = true;
        garbage::has_seen(side, *kind).await;
    }
    normal::answer(side, *kind, &answer)
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
            let answer = side.send("POST", &path, "application/json", Some(&late)).await;
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
