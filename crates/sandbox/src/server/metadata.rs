//! The rules of `metadata` for every kind: fields that clients set, fields that the server sets, generations.
//!
//! The content of `spec` is only compared.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Ask, State};
use crate::clock::seconds;
use crate::names;
use crate::object;
use crate::resource::{Origin, ResourceInfo};
use crate::schema::Cause;
use crate::status::Failure;

/// The maximum total size of the annotations of an object.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The fields of `metadata` that clients set. Fields that are neither here nor in `OWNED` are dropped.
const KNOWN: [&str; 8] = [
    "name",
    "generateName",
    "namespace",
    "resourceVersion",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

/// Fields that only the server sets.
const OWNED: [&str; 5] =
    ["uid", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];

/// Checks apiVersion and kind of a body, drops unknown fields of `metadata`, and compares `metadata` with the
/// path.
pub(super) fn decode(ask: &Ask<'_>, body: &mut Value) -> Result<(), Failure> {
    let info = &ask.info;
    if !body.is_object() {
        return Err(Failure::bad_request("the object provided is unrecognized: expected a JSON object"));
    }
    let wanted = info.api_version();
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let custom = info.origin == Origin::Crd;
    if custom && kind.is_empty() {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{body}'",
            info.kind
        )));
    }
    if version != wanted && (custom || !version.is_empty()) {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({wanted})"
        )));
    }
    if !custom && !kind.is_empty() && kind != info.kind {
        return Err(Failure::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {}: no kind \"{kind}\" is registered here",
            info.version, info.kind
        )));
    }
    if info.origin == Origin::Builtin {
        object::drop_nulls(body);
    }
    tidy(info, body)?;
    if info.namespaced {
        check_namespace(ask, body)?;
        object::set_meta(body, "namespace", ask.namespace().into());
    } else {
        object::set_meta(body, "namespace", Value::Null);
    }
    Ok(())
}

/// The name in the body must be that in the path.
pub(super) fn check_name(ask: &Ask<'_>, body: &Value) -> Result<(), Failure> {
    let (name, wanted) = (object::name(body), ask.name());
    if name == wanted {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({wanted})"
    )))
}

/// The namespace may be absent from the body, but must not differ from that in the path.
pub(super) fn check_namespace(ask: &Ask<'_>, body: &Value) -> Result<(), Failure> {
    if ["", ask.namespace()].contains(&object::namespace(body)) {
        return Ok(());
    }
    Err(Failure::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Rejects a custom resource with another kind. Runs after the fields that the endpoint does not write are
/// restored.
pub(super) fn check_kind(info: &ResourceInfo, object: &Value) -> Result<(), Failure> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if info.origin == Origin::Builtin || kind == info.kind {
        return Ok(());
    }
    let cause = Cause::invalid("kind", &kind.into(), &format!("must be {}", info.kind));
    Err(Failure::invalid_kind(&info.group, kind, object::name(object), &[cause]))
}

/// Brings `metadata` into its stored form.
pub(super) fn tidy(info: &ResourceInfo, body: &mut Value) -> Result<(), Failure> {
    let meta = object::meta_mut(body);
    meta.retain(|key, value| {
        (KNOWN.contains(&key.as_str()) || OWNED.contains(&key.as_str()))
            && !value.is_null()
            && value.as_object().is_none_or(|map| !map.is_empty())
            && value.as_array().is_none_or(|list| !list.is_empty())
            && value.as_str().is_none_or(|text| !text.is_empty())
    });
    for key in ["labels", "annotations"] {
        // A null value decodes as an empty string.
        let values = meta.get_mut(key).and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut);
        values.filter(|item| item.is_null()).for_each(|item| *item = "".into());
    }
    let (kind, version) = (&info.kind, &info.version);
    ObjectMeta::deserialize(&body["metadata"]).map(drop).map_err(|error| {
        Failure::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: json: cannot unmarshal: {error}"
        ))
    })
}

/// The rules of metadata with a 422 response.
pub(super) fn validate(info: &ResourceInfo, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    causes.extend(old.and_then(|old| new_finalizers(object, old)));
    let mut refuse = |field: &str, word: &str, detail: Option<String>| {
        causes
            .extend(detail.map(|detail| Cause::invalid(&format!("metadata.{field}"), &word.into(), &detail)));
    };
    let (name, prefix) = (object::name(object), object::meta(object, "generateName"));
    if !name.is_empty() {
        refuse("name", name, names::subdomain(name));
    }
    if !prefix.is_empty() {
        // The generated suffix follows, so the prefix may end with these characters.
        refuse("generateName", prefix, names::subdomain(prefix.trim_end_matches(['-', '.'])));
    }
    let maps = |key: &str| object["metadata"][key].as_object().into_iter().flatten();
    for (key, value) in maps("labels") {
        refuse("labels", key, names::label_key(key));
        let value = value.as_str().unwrap_or_default();
        refuse("labels", value, names::label_value(value));
    }
    for (key, _) in maps("annotations") {
        refuse("annotations", key, names::label_key(&key.to_lowercase()));
    }
    let size: usize =
        maps("annotations").map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_LIMIT {
        causes.push(Cause::too_long("metadata.annotations", ANNOTATIONS_LIMIT));
    }
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    }
    causes.extend(check_owners(object));
    for (index, finalizer) in object::finalizers(object).into_iter().enumerate() {
        if let Some(detail) = names::label_key(&finalizer) {
            causes.push(Cause::invalid("metadata.finalizers", &finalizer.into(), &detail));
        } else if info.origin == Origin::Builtin && !is_named_well(&finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(&format!("metadata.finalizers[{index}]"), &finalizer.into(), why));
        }
    }
    causes
}

fn is_named_well(finalizer: &str) -> bool {
    matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes") || finalizer.contains('/')
}

fn check_owners(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |owner: &Value, key: &str| owner[key].as_str().unwrap_or_default().to_owned();
    let mut controllers = Vec::new();
    for owner in object::owners(object) {
        for key in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, key).is_empty() {
                let field = format!("metadata.ownerReferences.{key}");
                causes.push(Cause::invalid(&field, &"".into(), "must not be empty"));
            }
        }
        if owner["controller"] == true {
            controllers.push(format!("{}/{}", text(owner, "kind"), text(owner, "name")));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
             and {second}"
        );
        let all = Value::from(object::owners(object).to_vec());
        causes.push(Cause::invalid("metadata.ownerReferences", &all, &why));
    }
    causes
}

fn new_finalizers(object: &Value, old: &Value) -> Option<Cause> {
    if !object::terminating(old) {
        return None;
    }
    let had = object::finalizers(old);
    let new: Vec<String> = object::finalizers(object).into_iter().filter(|one| !had.contains(one)).collect();
    let shown = new.iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(", ");
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers \
         []string{{{shown}}}"
    );
    (!new.is_empty()).then(|| Cause::forbidden("metadata.finalizers", &detail))
}

/// Fields that only the server sets may be absent, but must not change.
pub(super) fn changed_owned(object: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for key in ["uid", "creationTimestamp", "deletionTimestamp"] {
        let new = object::meta(object, key);
        if !new.is_empty() && new != object::meta(old, key) {
            causes.push(Cause::invalid(&format!("metadata.{key}"), &new.into(), "field is immutable"));
        }
    }
    let grace = |object: &Value| object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    if let Some(new) = grace(object).filter(|new| grace(old) != Some(*new)) {
        let why = "field is immutable; may only be changed via deletion";
        causes.push(Cause::invalid("metadata.deletionGracePeriodSeconds", &new.into(), why));
    }
    causes
}

/// Kinds with a generation.
fn has_generation(info: &ResourceInfo) -> bool {
    info.origin == Origin::Crd
        || matches!(
            info.kind.as_str(),
            "Pod" | "Deployment" | "ReplicaSet" | "PodDisruptionBudget" | "CustomResourceDefinition"
        )
}

/// The part of an object that the generation counts.
fn counted(info: &ResourceInfo, object: &Value) -> Value {
    if info.origin == Origin::Builtin {
        return object["spec"].clone();
    }
    let mut rest = object.clone();
    for key in ["metadata", "apiVersion", "kind"] {
        object::set(&mut rest, key, None);
    }
    if info.status {
        object::set(&mut rest, "status", None);
    }
    rest
}

/// Sets the generation of an updated object: incremented if the counted part changed.
pub(super) fn advance_generation(info: &ResourceInfo, object: &mut Value, old: &Value) {
    if !has_generation(info) {
        return;
    }
    let before = old["metadata"]["generation"].as_i64().unwrap_or_default();
    let step = i64::from(counted(info, object) != counted(info, old));
    if before + step > 0 {
        object::set_meta(object, "generation", (before + step).into());
    }
}

/// Increments the generation, if there is one, as the start of a deletion does.
pub(super) fn bump_generation(object: &mut Value) {
    if let Some(generation) = object["metadata"]["generation"].as_i64() {
        object::set_meta(object, "generation", (generation + 1).into());
    }
}

/// Copies the fields that only the server sets from the stored object.
pub(super) fn keep_owned(object: &mut Value, old: &Value) {
    for key in OWNED {
        object::set_meta(object, key, old["metadata"][key].clone());
    }
}

impl State {
    /// Sets the name and the server-owned metadata of a new object.
    pub(super) fn stamp_new(&mut self, info: &ResourceInfo, object: &mut Value) {
        let prefix = object::meta(object, "generateName").to_owned();
        if object::name(object).is_empty() && !prefix.is_empty() {
            // The generated name has at most 63 characters.
            let prefix: String = prefix.chars().take(58).collect();
            let name = format!("{prefix}{}", self.suffix());
            object::set_meta(object, "name", name.into());
        }
        for key in OWNED {
            // Kinds without generations keep the value of the client.
            if key != "generation" || has_generation(info) {
                object::set_meta(object, key, Value::Null);
            }
        }
        object::set_meta(object, "resourceVersion", Value::Null);
        let uid = self.uid();
        object::set_meta(object, "uid", uid.into());
        object::set_meta(object, "creationTimestamp", seconds(self.now()).into());
        if has_generation(info) {
            object::set_meta(object, "generation", 1.into());
        }
    }
}

/// Rejects a body that is neither JSON nor protobuf.
pub(super) fn require_json(ask: &Ask<'_>) -> Result<(), Failure> {
    let media = ask.call.content_type.split(';').next().unwrap_or_default().trim();
    if matches!(media, "" | "application/json" | crate::protobuf::OBJECTS) {
        return Ok(());
    }
    Err(Failure::unsupported_media_type("application/json"))
}
